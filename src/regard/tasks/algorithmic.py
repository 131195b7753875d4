"""Algorithms on bits with a Turing machine (Graves 2014, 1410.5401, sections 4.1 to 4.3).

The data is generated: copying, repeated copying and associative recall.
"""

import hashlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.record import record
from regard.data.batches import Batch
from regard.data.generated.synthetic import SyntheticOfLengths
from regard.data.splits import Splits
from regard.errors import InputError, quote
from regard.maps.lookups import TapeUse
from regard.models.turing_machine import TuringMachine, TuringMachineConfig
from regard.pictures.panels import tape
from regard.shapes import Bool, Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import Setup, TokenBatchObjective, digest_splits, setup_task
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import TextPrediction
from regard.tasks.run import Run
from regard.tasks.summary import DataSummary, Lengths, abridge, describe_rows
from regard.tasks.task import LazyTask
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training
from regard.work import compute_batches

TASK = LazyTask(
    __name__,
    ":Algorithmic",
    ":setup",
    ":AlgorithmicRun",
    command="regard predict {} 'BITS BITS ...'",
)
BATCH_ROWS = 64
"""Sequences in one batch of evaluation."""
Vectors = Float[np.ndarray, "position width"]
Count = Annotated[int, Field(ge=1, le=1_000)]


@dataclass(frozen=True, eq=False)
class BitSequence:
    """Inputs, a vector for each step, and the target of the last steps."""

    inputs: Float[np.ndarray, "position input_width"]
    target: Float[np.ndarray, "predicted output_width"]
    place: str = ""
    """Where the sequence came from, for messages."""

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, kw_only=True)
class BitSequences(SyntheticOfLengths, ABC):
    """Sequences of `least` to `most` random vectors, each length with one probability.

    Short sequences repeat, because few exist.

    least: The smallest number of vectors in a sequence.
    most: The largest number of vectors in a sequence.
    width: The number of bits in a vector.
    """

    width: Count = 8
    least: Count = 1
    most: Count = 20

    marks: ClassVar[int] = 1
    """Channels of the inputs for marks, behind the bits."""

    @property
    def input_width(self) -> int:
        """The width of an input."""
        return self.width + self.marks

    @property
    def output_width(self) -> int:
        """The width of a target's vectors."""
        return self.width

    @abstractmethod
    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        """Return a random sequence of a length."""

    @abstractmethod
    def read(self, text: str) -> BitSequence:
        """Return the sequence that a text describes. Raises InputError for another text."""

    def load(self) -> Splits[BitSequence]:
        """Generate the three sets, each with a generator of its own."""
        sets = [
            self.sample_many(
                size, (self.least, self.most), f"{self.kind} {name}", (self.seed, index)
            )
            for index, (name, size) in enumerate(
                zip(("train", "valid", "test"), self.sizes, strict=True)
            )
        ]
        return Splits(*sets)

    def tests(self) -> Sequence[BitSequence]:
        """Generate the test set."""
        return self.load().test

    def sample_many(
        self,
        count: int,
        lengths: tuple[int, int],
        name: str = "made",
        seed: int | tuple[int, ...] = 0,
    ) -> list[BitSequence]:
        """Return random sequences.

        Args:
            count: Number of sequences.
            lengths: Smallest and largest length, which may exceed `most`.
            name: What to call the sequences in messages.
            seed: Seed of the generator.
        """
        random = np.random.default_rng(seed)
        sequences = []
        for number in range(1, count + 1):
            length = int(random.integers(lengths[0], lengths[1] + 1))
            sequence = self.sample(length, random)
            sequences.append(replace(sequence, place=f"{name} {number}"))
        return sequences

    def sample_bits(self, random: np.random.Generator, count: int) -> Vectors:
        """Return random vectors."""
        return random.integers(0, 2, (count, self.width)).astype(np.float32)

    def parse_vectors(self, words: Sequence[str]) -> Vectors:
        """Return the vectors of words such as `0110`. Raises InputError for others."""
        if not words:
            raise InputError(
                f"has no vectors; expected some, of {self.width} bits each"
            )
        for word in words:
            if len(word) != self.width or set(word) - {"0", "1"}:
                raise InputError(
                    f"{quote(word)} is no vector; expected {self.width} bits, "
                    "each 0 or 1"
                )
        return np.array([[float(bit) for bit in word] for word in words], np.float32)

    def build(
        self,
        parts: Sequence[np.ndarray | tuple[int, float]],
        target: np.ndarray,
    ) -> BitSequence:
        """Return the sequence of vectors and marks, with empty inputs for the target.

        Args:
            parts: Vectors, or marks as their channel and their value.
            target: The target.
        """
        inputs: list[np.ndarray] = []
        for part in parts:
            if isinstance(part, tuple):
                inputs.append(np.zeros((1, self.input_width)))
                inputs[-1][0, self.width + part[0]] = part[1]
            else:
                inputs.append(np.pad(part, ((0, 0), (0, self.marks))))
        inputs.append(np.zeros((len(target), self.input_width)))
        return BitSequence(np.concatenate(inputs).astype(np.float32), target)


@dataclass(frozen=True, kw_only=True)
class Copy(BitSequences):
    """Vectors and a mark; then, without further inputs, the vectors again (section 4.1)."""

    kind: Literal["copy"] = "copy"

    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        return self.copy(self.sample_bits(random, length))

    def read(self, text: str) -> BitSequence:
        """Return the sequence of `0110 1011`: vectors separated by spaces."""
        return self.copy(self.parse_vectors(text.split()))

    def copy(self, vectors: Vectors) -> BitSequence:
        """Return the sequence of vectors."""
        return self.build([vectors, (0, 1.0)], vectors)


@dataclass(frozen=True, kw_only=True)
class RepeatCopy(BitSequences):
    """Vectors and, on a channel of its own, a repeat count (section 4.2).

    The target is the vectors repeated, then an end mark. The count is scaled to mean 0 and
    variance 1 over 1 to `most_repeats`.
    """

    kind: Literal["repeat-copy"] = "repeat-copy"
    most: Count = 10
    most_repeats: Count = 10

    @property
    def output_width(self) -> int:
        return self.width + 1

    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        vectors = self.sample_bits(random, length)
        return self.repeat(vectors, int(random.integers(1, self.most_repeats + 1)))

    def read(self, text: str) -> BitSequence:
        """Return the sequence of `0110 1011 x3`: vectors and the repeat count."""
        *words, last = text.split() or [""]
        count = int(last[1:]) if re.fullmatch(r"x\d{1,4}", last) else 0
        if not 1 <= count <= 1_000:
            raise InputError(
                f"ends with {quote(last)}; expected how often to repeat it, "
                "from x1 to x1000"
            )
        return self.repeat(self.parse_vectors(words), count)

    def repeat(self, vectors: Vectors, count: int) -> BitSequence:
        """Return the sequence of vectors and a count, which may exceed `most_repeats`."""
        copies = np.pad(np.tile(vectors, (count, 1)), ((0, 1), (0, 1)))
        copies[-1, -1] = 1
        deviation = ((self.most_repeats**2 - 1) / 12) ** 0.5
        scaled = (count - (self.most_repeats + 1) / 2) / (deviation or 1.0)
        return self.build([vectors, (0, scaled)], copies)


@dataclass(frozen=True, kw_only=True)
class Recall(BitSequences):
    """Items, then one of them again, the query; the target is the next item (section 4.3).

    Each item is `vectors` vectors with a mark before them; the query stands between two
    marks of another kind. Lengths count items.
    """

    kind: Literal["recall"] = "recall"
    width: Count = 6
    least: Count = 2
    most: Count = 6
    vectors: Count = 3

    marks = 2
    smallest = 2

    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        bits = self.sample_bits(random, length * self.vectors)
        items = list(bits.reshape(length, self.vectors, self.width))
        query = int(random.integers(length - 1))
        return self.recall(items, items[query], items[query + 1])

    def read(self, text: str) -> BitSequence:
        """Return the sequence of `01,11 00,10 ? 01,11`, with a target of zeros."""
        words, _, query = text.partition("?")
        if not words.split() or len(query.split()) != 1:
            raise InputError(
                f"{quote(text)}; expected items separated by spaces, a question "
                "mark and an item"
            )
        items = []
        for word in [*words.split(), query.strip()]:
            vectors = word.split(",")
            if len(vectors) != self.vectors:
                raise InputError(
                    f"{quote(word)} is no item; expected {self.vectors} vectors "
                    "separated by commas"
                )
            items.append(self.parse_vectors(vectors))
        return self.recall(items[:-1], items[-1], np.zeros_like(items[0]))

    def recall(
        self, items: Sequence[Vectors], query: Vectors, target: Vectors
    ) -> BitSequence:
        """Return the sequence of items, a query and the item behind it."""
        parts: list[np.ndarray | tuple[int, float]] = []
        for item in items:
            parts += [(0, 1.0), item]
        return self.build([*parts, (1, 1.0), query, (1, 1.0)], target)


@dataclass(frozen=True, kw_only=True)
class Algorithmic:
    """A run file. A batch has room for `training.batch_tokens` steps."""

    task: Literal["algorithmic"] = "algorithmic"
    data: Copy | RepeatCopy | Recall
    model: TuringMachineConfig = field(default_factory=TuringMachineConfig)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.training.label_smoothing:
            raise ValueError(
                "training.label_smoothing is for words, not for bits; set it to 0"
            )


@dataclass(frozen=True, repr=False)
class BitBatch(Batch):
    """Inputs, padded with zeros, and the `targets` of the steps that `predicted` marks."""

    inputs: Float[Tensor, "batch position input_width"]
    lengths: Int[Tensor, " batch"]
    targets: Float[Tensor, "batch position output_width"]
    predicted: Bool[Tensor, "batch position"]


def collate_bits(sequences: Sequence[BitSequence]) -> BitBatch:
    """Pad at least one sequence."""
    lengths = torch.tensor(list(map(len, sequences)))
    longest = int(lengths.max())
    inputs = []
    targets = []
    predicted = []
    for sequence in sequences:
        count = len(sequence.target)
        start = len(sequence) - count
        end = longest - len(sequence)
        inputs.append(np.pad(sequence.inputs, ((0, end), (0, 0))))
        targets.append(np.pad(sequence.target, ((start, end), (0, 0))))
        predicted.append(np.pad(np.ones(count, bool), (start, end)))
    return BitBatch(
        torch.from_numpy(np.stack(inputs)),
        lengths,
        torch.from_numpy(np.stack(targets)),
        torch.from_numpy(np.stack(predicted)),
    )


class AlgorithmicObjective(TokenBatchObjective[BitSequence, BitBatch]):
    """Maximum likelihood of each bit of the targets."""

    metric = "bits-per-sequence"
    higher_is_better = False

    def __init__(self, config: Algorithmic, splits: Splits[BitSequence]) -> None:
        lengths = [(len(sequence), len(sequence)) for sequence in splits.train]
        super().__init__(
            splits.train, splits.valid, config.training, lengths, "sequences"
        )

    def collate(self, examples: Sequence[BitSequence]) -> BitBatch:
        return collate_bits(examples)

    def loss(
        self,
        model: nn.Module,
        batch: BitBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        logits = model(batch.inputs, batch.lengths)[batch.predicted]
        targets = batch.targets[batch.predicted]
        total = functional.binary_cross_entropy_with_logits(
            logits, targets, reduction="sum"
        )
        return Loss(total, targets.numel(), read=int(batch.lengths.sum()))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, TuringMachine)
        return compute_metrics(model, self.valid)


def setup(config: Algorithmic, folder: RunDirectory, processes: int) -> Setup:
    """Generate the data and build model and objective.

    Raises:
        InputError: There is too little data.
    """
    splits = config.data.load()
    first = splits.train[0]
    summary = DataSummary(
        unit="sequences",
        rows=describe_rows(config.data, splits),
        lengths={
            "inputs": Lengths.of([len(sequence) for sequence in splits.train]),
            "target": Lengths.of([len(sequence.target) for sequence in splits.train]),
        },
        example={
            "inputs": format_bits(first.inputs),
            "target": format_bits(first.target),
        },
    )
    data = config.data
    return setup_task(
        TuringMachine(data.input_width, data.output_width, config.model),
        AlgorithmicObjective(config, splits),
        splits,
        digest_splits(splits, digest_line),
        summary,
    )


def format_bits(vectors: Vectors) -> str:
    """Return the bits of vectors, the first ones of many."""
    words = ["".join(f"{bit:.0f}" for bit in vector) for vector in vectors]
    return abridge(words, len(vectors))


def digest_line(sequence: BitSequence) -> str:
    """Return the line that identifies a sequence."""
    content = sequence.inputs.tobytes() + sequence.target.tobytes()
    return hashlib.sha256(content).hexdigest() + "\n"


@torch.no_grad()
def compute_metrics(
    model: TuringMachine,
    sequences: Sequence[BitSequence],
    rows: int | None = None,
) -> dict[str, float]:
    """Return the metrics of a machine.

    Args:
        model: The machine.
        sequences: The sequences.
        rows: Rows of the tape, by default the model's own.

    Returns:
        bits-per-sequence: Mean cross-entropy of a target in bits (figure 3).
        wrong-bits: Share of wrong bits, in percent.
        exact-match: Share of outputs that equal their target, in percent.
    """
    device = next(model.parameters()).device
    ordered = sorted(sequences, key=len)
    groups = [ordered[i : i + BATCH_ROWS] for i in range(0, len(ordered), BATCH_ROWS)]

    def measure(group: Sequence[BitSequence]) -> tuple[float, int, int, int]:
        batch = collate_bits(group).to(device)
        logits = model(batch.inputs, batch.lengths, rows=rows).double()
        targets = batch.targets.double()
        mask = batch.predicted
        nats = functional.binary_cross_entropy(
            logits[mask].sigmoid(), targets[mask], reduction="sum"
        )
        wrong = (((logits > 0) != (targets > 0.5)) & mask[..., None]).sum((1, 2))
        return (
            float(nats),
            int(wrong.sum()),
            int((wrong == 0).sum()),
            targets[mask].numel(),
        )

    results = compute_batches(measure, groups)
    nats, wrong, exact, count = map(sum, zip(*results, strict=True))
    return {
        "bits-per-sequence": nats / math.log(2) / len(sequences),
        "wrong-bits": 100 * wrong / count,
        "exact-match": 100 * exact / len(sequences),
    }


class AlgorithmicRun(Run[str, TextPrediction]):
    """A trained Turing machine: `load(folder).predict(texts)`.

    An example is a text as `BitSequences.read` reads it: vectors of bits separated by
    spaces to copy, with `x3` behind them to repeat three times, or items with commas
    inside, `?` and one of them.
    """

    config: Algorithmic
    model: TuringMachine
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset(),
        "attribute": frozenset(),
    }

    def __init__(self, config: Algorithmic, model: TuringMachine) -> None:
        self.config = config
        self.model = model

    @classmethod
    def open(cls, run: RunDirectory, config: Algorithmic) -> "AlgorithmicRun":
        """Return the run in a folder, its model with initial weights."""
        data = config.data
        model = TuringMachine(data.input_width, data.output_width, config.model)
        return cls(config, model)

    def parse(self, line: str, place: str = "text 1") -> str:
        self._read(line, place)
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"bits": example}

    def compute_metrics(
        self, examples: Sequence[BitSequence], options: EvaluationOptions
    ) -> dict[str, float]:
        return compute_metrics(self.model, examples)

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[TextPrediction]:
        """Return the likelier bits, with the probability of each bit that it is 1."""
        predictions = []
        for number, text in enumerate(examples, 1):
            sequence = self._read(text, f"text {number}")
            outputs = self._run(sequence)[-len(sequence.target) :]
            bits = ["".join(map(str, row)) for row in (outputs > 0.5).astype(int)]
            values = {"probabilities": outputs.tolist()}
            predictions.append(TextPrediction(" ".join(bits), values))
        return predictions

    @torch.no_grad()
    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        (prediction,) = self.predict([example])
        sequence = self._read(example, "text 1")
        with record(self.model, only="heads") as maps:
            outputs = self._run(sequence)
        outputs[: -len(sequence.target)] = np.nan
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

    def _read(self, text: str, place: str) -> BitSequence:
        try:
            return self.config.data.read(text)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None

    def _run(self, sequence: BitSequence) -> Float[np.ndarray, "position output_width"]:
        """Return the probability of each bit, on a tape with a row for each step or more."""
        inputs = collate_bits([sequence]).inputs.to(self.device)
        logits = self.model(inputs, rows=max(self.config.model.rows, len(sequence)))
        return logits[0].double().sigmoid().cpu().numpy()
