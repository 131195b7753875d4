"""Algorithms on bits with a Turing machine (Graves 2014, 1410.5401, sections 4.1 to 4.3).

The data is generated: copying, repeated copying and associative recall.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from regard.attention.record import record
from regard.data.batches import Batch
from regard.data.generated.pairs import IndependentSets, SyntheticOfLengths
from regard.maps.lookups import TapeUse
from regard.models.sizes import Size
from regard.models.turing_machine import TuringMachine, TuringMachineConfig
from regard.pictures.panels import tape
from regard.shapes import Bool, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    LineRun,
    Setup,
    TokenBatchObjective,
    digest_bytes,
    setup_task,
)
from regard.tasks.options import AttributionOptions, EvaluationOptions, TextPrediction
from regard.tasks.run import Task, refuse_smoothing
from regard.tasks.summary import DataSummary, Lengths, describe_rows
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training
from regard.work import compute_batches

BATCH_ROWS = 64
"""Sequences in one batch of evaluation."""
Vectors = Float[np.ndarray, "position width"]


@dataclass(frozen=True, eq=False)
class BitSequence:
    """Inputs, a vector for each step, and the target of the last steps."""

    inputs: Float[np.ndarray, "position input_width"]
    target: Float[np.ndarray, "predicted output_width"]

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, kw_only=True)
class BitSequences(IndependentSets, SyntheticOfLengths):
    """Sequences of `least` to `most` random vectors, each length with one probability.

    Short sequences repeat, because few exist.

    Attributes:
        least: The smallest number of vectors in a sequence.
        most: The largest number of vectors in a sequence.
        width: The number of bits in a vector.
    """

    width: Size = 8
    least: Size = 1
    most: Size = 20

    marks: ClassVar[int] = 1
    """Channels of the inputs for marks, behind the bits."""
    end_marks: ClassVar[int] = 0
    """Channels of the target for marks."""

    @property
    def form(self) -> str:
        """What a line is."""
        return f"vectors of {self.width} bits, separated by spaces"

    @abstractmethod
    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        """Return a random sequence of a length."""

    @abstractmethod
    def parse(self, line: str) -> BitSequence:
        """Return the sequence of a line. Raises ValueError for another line."""

    def make(self, name: str) -> list[BitSequence]:
        random = np.random.default_rng(
            (self.seed, ("train", "valid", "test").index(name))
        )
        return [
            self.sample(int(random.integers(self.least, self.most + 1)), random)
            for _ in range(getattr(self, name))
        ]

    def sample_bits(self, random: np.random.Generator, count: int) -> Vectors:
        """Return random vectors."""
        return random.integers(0, 2, (count, self.width)).astype(np.float32)

    def to_vectors(self, words: Sequence[str]) -> Vectors:
        """Return the vectors of words of bits. Raises ValueError for other words."""
        if not words:
            raise ValueError("no vectors")
        bits = [list(map("01".index, word)) for word in words]
        return np.array(bits, np.float32).reshape(len(words), self.width)

    def mark(self, channel: int = 0, value: float = 1.0) -> Vectors:
        """Return an input that has a value in a channel for marks."""
        return np.eye(1, self.width + self.marks, self.width + channel) * value

    def build(self, parts: Sequence[np.ndarray], target: Vectors) -> BitSequence:
        """Return the sequence of vectors and marks, with empty inputs for the target."""
        width = self.width + self.marks
        empty = np.zeros((len(target), 0))
        inputs = [
            np.pad(part, ((0, 0), (0, width - part.shape[1])))
            for part in (*parts, empty)
        ]
        return BitSequence(np.concatenate(inputs).astype(np.float32), target)


@dataclass(frozen=True, kw_only=True)
class Copy(BitSequences):
    """Vectors and a mark; then, without further inputs, the vectors again (section 4.1)."""

    kind: Literal["copy"] = "copy"

    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        return self.copy(self.sample_bits(random, length))

    def parse(self, line: str) -> BitSequence:
        return self.copy(self.to_vectors(line.split()))

    def copy(self, vectors: Vectors) -> BitSequence:
        """Return the sequence of vectors."""
        return self.build([vectors, self.mark()], vectors)


@dataclass(frozen=True, kw_only=True)
class RepeatCopy(BitSequences):
    """Vectors and, on a channel of its own, a repeat count (section 4.2).

    The target is the vectors repeated, then an end mark. The count is scaled to mean 0 and
    variance 1 over 1 to `most_repeats`.
    """

    kind: Literal["repeat-copy"] = "repeat-copy"
    most: Size = 10
    most_repeats: Size = 10

    end_marks = 1

    @property
    def form(self) -> str:
        return f"{super().form}, then x1 to x1000"

    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        vectors = self.sample_bits(random, length)
        return self.repeat(vectors, int(random.integers(1, self.most_repeats + 1)))

    def parse(self, line: str) -> BitSequence:
        words, _, count = line.partition("x")
        if not 1 <= int(count) <= 1000:
            raise ValueError(line)
        return self.repeat(self.to_vectors(words.split()), int(count))

    def repeat(self, vectors: Vectors, count: int) -> BitSequence:
        """Return the sequence of vectors and a count, which may exceed `most_repeats`."""
        copies = np.pad(np.tile(vectors, (count, 1)), ((0, 1), (0, 1)))
        copies[-1, -1] = 1
        deviation = ((self.most_repeats**2 - 1) / 12) ** 0.5
        scaled = (count - (self.most_repeats + 1) / 2) / (deviation or 1.0)
        return self.build([vectors, self.mark(0, scaled)], copies)


@dataclass(frozen=True, kw_only=True)
class Recall(BitSequences):
    """Items, then one of them again, the query; the target is the next item (section 4.3).

    Each item is `vectors` vectors with a mark before them; the query stands between two
    marks of another kind. Lengths count items.
    """

    kind: Literal["recall"] = "recall"
    width: Size = 6
    least: Size = 2
    most: Size = 6
    vectors: Size = 3

    marks = 2
    smallest = 2

    @property
    def form(self) -> str:
        return (
            f"items of {self.vectors} vectors of {self.width} bits with commas between, a "
            "question mark and an item"
        )

    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        bits = self.sample_bits(random, length * self.vectors)
        items = list(bits.reshape(length, self.vectors, self.width))
        query = int(random.integers(length - 1))
        return self.recall(items, items[query], items[query + 1])

    def parse(self, line: str) -> BitSequence:
        """Return the sequence of a line, with a target of zeros."""
        words, _, last = line.partition("?")
        shape = self.vectors, self.width
        first, *items, query = [
            self.to_vectors(item.split(",")).reshape(shape)
            for item in (*words.split(), last.strip())
        ]
        return self.recall([first, *items], query, np.zeros(shape, np.float32))

    def recall(
        self, items: Sequence[Vectors], query: Vectors, target: Vectors
    ) -> BitSequence:
        """Return the sequence of items, a query and the item behind it."""
        parts = [part for item in items for part in (self.mark(), item)]
        return self.build([*parts, self.mark(1), query, self.mark(1)], target)


@dataclass(frozen=True, kw_only=True)
class Algorithmic:
    """A run file. A batch has room for `training.batch_tokens` steps."""

    task: Literal["algorithmic"] = "algorithmic"
    data: Copy | RepeatCopy | Recall
    model: TuringMachineConfig = field(default_factory=TuringMachineConfig)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        refuse_smoothing(self.training)


@dataclass(frozen=True, repr=False)
class BitBatch(Batch):
    """Inputs, padded with zeros, and the targets of the steps that `predicted` marks."""

    inputs: Float[Tensor, "batch position input_width"]
    lengths: Int[Tensor, " batch"]
    targets: Float[Tensor, "predicted output_width"]
    """One sequence after the other."""
    predicted: Bool[Tensor, "batch position"]


def collate_bits(sequences: Sequence[BitSequence]) -> BitBatch:
    """Pad at least one sequence."""
    inputs = [torch.from_numpy(sequence.inputs) for sequence in sequences]
    lengths = torch.tensor(list(map(len, inputs)))
    targets = [sequence.target for sequence in sequences]
    starts = lengths - torch.tensor(list(map(len, targets)))
    positions = torch.arange(int(lengths.max()))
    return BitBatch(
        pad_sequence(inputs, batch_first=True),
        lengths,
        torch.from_numpy(np.concatenate(targets)),
        (starts[:, None] <= positions) & (positions < lengths[:, None]),
    )


class AlgorithmicObjective(TokenBatchObjective[BitSequence, BitBatch]):
    """Maximum likelihood of each bit of the targets."""

    metric = "bits-per-sequence"
    higher_is_better = False

    def collate(self, examples: Sequence[BitSequence]) -> BitBatch:
        return collate_bits(examples)

    def loss(
        self, model: Any, batch: BitBatch, update: int, carried: Carried | None = None
    ) -> Loss:
        total = functional.binary_cross_entropy_with_logits(
            model(batch.inputs, batch.lengths)[batch.predicted],
            batch.targets,
            reduction="sum",
        )
        return Loss(total, batch.targets.numel(), read=int(batch.lengths.sum()))


def setup(config: Algorithmic, folder: RunDirectory, processes: int) -> Setup:
    """Generate the data and build model and objective.

    Raises:
        InputError: There is too little data.
    """
    splits = config.data.load()
    sizes = list(map(len, splits.train))
    objective = AlgorithmicObjective(
        splits.train,
        splits.valid,
        config.training,
        [(size, size) for size in sizes],
        "sequences",
        run=partial(AlgorithmicRun, config),
    )
    lengths = {
        "inputs": Lengths.of(sizes),
        "target": Lengths.of([len(sequence.target) for sequence in splits.train]),
    }
    return setup_task(
        AlgorithmicRun.build(config),
        objective,
        splits,
        digest_bytes(
            sequence.inputs.tobytes() + sequence.target.tobytes()
            for sequence in (*splits.train, *splits.valid)
        ),
        DataSummary(
            unit="sequences",
            rows=describe_rows(config.data, splits),
            lengths=lengths,
        ),
    )


class AlgorithmicRun(LineRun):
    """A trained Turing machine: `load(folder).predict(texts)`.

    An example is a line as the data section parses it: vectors of bits separated by
    spaces to copy, with `x3` behind them to repeat three times, or items with commas
    inside, `?` and one of them.
    """

    config: Algorithmic
    model: TuringMachine
    key = "bits"

    @staticmethod
    def build(config: Algorithmic) -> TuringMachine:
        data = config.data
        inputs = data.width + data.marks
        return TuringMachine(inputs, data.width + data.end_marks, config.model)

    @torch.no_grad()
    def compute_metrics(
        self,
        examples: Sequence[BitSequence],
        options: EvaluationOptions,
        rows: int | None = None,
    ) -> dict[str, float]:
        """Return the metrics on a tape of `rows` rows, by default the model's own.

        Returns:
            bits-per-sequence: Mean cross-entropy of a target in bits (figure 3).
            wrong-bits: Share of wrong bits, in percent.
            exact-match: Share of outputs that equal their target, in percent.
        """
        ordered = sorted(examples, key=len)

        def measure(first: int) -> tuple[float, int, int, int]:
            group = ordered[first : first + BATCH_ROWS]
            batch = collate_bits(group).to(self.device)
            logits = self.model(batch.inputs, batch.lengths, rows=rows).double()
            logits = logits[batch.predicted]
            targets = batch.targets.double()
            nats = functional.binary_cross_entropy(
                logits.sigmoid(), targets, reduction="sum"
            )
            wrong = (logits > 0) != (targets > 0.5)
            inexact = batch.predicted.nonzero()[wrong.any(-1), 0].unique()
            exact = len(group) - len(inexact)
            return float(nats), int(wrong.sum()), exact, targets.numel()

        results = compute_batches(measure, range(0, len(ordered), BATCH_ROWS))
        nats, wrong, exact, count = map(sum, zip(*results, strict=True))
        return {
            "bits-per-sequence": nats / math.log(2) / len(ordered),
            "wrong-bits": 100 * wrong / count,
            "exact-match": 100 * exact / len(ordered),
        }

    def predict_examples(self, examples: Sequence[BitSequence]) -> list[TextPrediction]:
        """Return the likelier bits, with the probability of each bit that it is 1.

        The tape has a row for each step or more.
        """
        predictions = []
        for sequence in examples:
            inputs = torch.from_numpy(sequence.inputs)[None].to(self.device)
            rows = max(self.config.model.rows, len(sequence))
            logits = self.model(inputs, rows=rows)[0, -len(sequence.target) :]
            outputs = logits.double().sigmoid().tolist()
            bits = ["".join(str(int(bit > 0.5)) for bit in row) for row in outputs]
            predictions.append(
                TextPrediction(" ".join(bits), {"probabilities": outputs})
            )
        return predictions

    @torch.no_grad()
    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        sequence = self.read_line(example, "text 1")
        with record(self.model, only="heads") as maps:
            (prediction,) = self.predict_examples([sequence])
        probabilities = np.array(prediction.values["probabilities"])
        before = len(sequence) - len(probabilities)
        outputs = np.pad(probabilities, ((before, 0), (0, 0)), constant_values=np.nan)
        weights = maps["heads"][0].double().cpu().numpy()
        reads = self.config.model.reads
        use = TapeUse(sequence.inputs, outputs, weights[:reads], weights[reads:])
        return Attribution(
            prediction,
            example,
            use.lookups(),
            use,
            options,
            draw=lambda title: tape(use, title=title),
        )


TASK = Task(
    Algorithmic, setup, AlgorithmicRun, command="regard predict {} 'BITS BITS ...'"
)
