"""Algorithms on bits with a Turing machine (Graves 2014, 1410.5401, sections 4.1 to 4.3).

The data is generated: copying, repeated copying and associative recall.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

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
from regard.tasks.prediction import ShortRepr
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
    place: str
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

    @property
    @abstractmethod
    def input_width(self) -> int:
        """The width of an input: the bits, and channels for marks."""

    @property
    def output_width(self) -> int:
        """The width of a target's vectors."""
        return self.width

    @abstractmethod
    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        """Return a random sequence of a length."""

    @abstractmethod
    def read(self, text: str, place: str) -> BitSequence:
        """Return the sequence that a text describes, with a target of zeros.

        Raises:
            InputError: The text describes no sequence.
        """

    def load(self) -> Splits[BitSequence]:
        """Generate the three sets, each with a generator of its own."""
        return Splits(self._make(0), self._make(1), self.tests())

    def tests(self) -> list[BitSequence]:
        """Generate the test set."""
        return self._make(2)

    def _make(self, part: int) -> list[BitSequence]:
        name = ("train", "valid", "test")[part]
        lengths = self.least, self.most
        return self.sample_many(
            self.sizes[part], lengths, f"{self.kind} {name}", (self.seed, part)
        )

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
        random, sequences = np.random.default_rng(seed), []
        for number in range(1, count + 1):
            length = int(random.integers(lengths[0], lengths[1] + 1))
            sequence = self.sample(length, random)
            sequences.append(replace(sequence, place=f"{name} {number}"))
        return sequences

    def parse_vector(self, text: str, place: str) -> list[float]:
        """Return the bits of a word such as `0110`. Raises InputError."""
        if len(text) != self.width or set(text) - {"0", "1"}:
            raise InputError(
                f"{place}: {quote(text)} is no vector; expected {self.width} bits, "
                "each 0 or 1"
            )
        return [float(bit) for bit in text]

    def parse_vectors(self, words: Sequence[str], place: str) -> Vectors:
        """Return the vectors of words. Raises InputError for none, or another word."""
        if not words:
            raise InputError(
                f"{place}: has no vectors; expected some, of {self.width} bits each"
            )
        vectors = [self.parse_vector(word, place) for word in words]
        return np.array(vectors, np.float32)


@dataclass(frozen=True, kw_only=True)
class Copy(BitSequences):
    """Vectors and a mark; then, without further inputs, the vectors again (section 4.1)."""

    kind: Literal["copy"] = "copy"

    @property
    def input_width(self) -> int:
        return self.width + 1

    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        return self._build(sample_bits(random, length, self.width), "")

    def read(self, text: str, place: str) -> BitSequence:
        """Return the sequence of `0110 1011`: vectors separated by spaces."""
        return self._build(self.parse_vectors(text.split(), place), place)

    def _build(self, vectors: Vectors, place: str) -> BitSequence:
        inputs = np.zeros((2 * len(vectors) + 1, self.input_width), np.float32)
        inputs[: len(vectors), : self.width] = vectors
        inputs[len(vectors), self.width] = 1
        return BitSequence(inputs, vectors, place)


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
    def input_width(self) -> int:
        return self.width + 1

    @property
    def output_width(self) -> int:
        return self.width + 1

    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        vectors = sample_bits(random, length, self.width)
        return self.build(vectors, int(random.integers(1, self.most_repeats + 1)))

    def read(self, text: str, place: str) -> BitSequence:
        """Return the sequence of `0110 1011 x3`: vectors and the repeat count."""
        *words, last = text.split() or [""]
        count = last[1:]
        numeric = last.startswith("x") and count.isdecimal()
        if not (numeric and 1 <= int(count) <= 1_000):
            raise InputError(
                f"{place}: ends with {quote(last)}; expected how often to repeat it, "
                "from x1 to x1000"
            )
        return self.build(self.parse_vectors(words, place), int(count), place)

    def build(self, vectors: Vectors, repeats: int, place: str = "") -> BitSequence:
        """Return the sequence of vectors and a count, which may exceed `most_repeats`."""
        end = np.zeros((1, self.output_width), np.float32)
        end[0, self.width] = 1
        copies = np.pad(np.tile(vectors, (repeats, 1)), ((0, 0), (0, 1)))
        target = np.concatenate([copies, end])
        steps = len(vectors) + 1 + len(target)
        inputs = np.zeros((steps, self.input_width), np.float32)
        inputs[: len(vectors), : self.width] = vectors
        inputs[len(vectors), self.width] = self._scale(repeats)
        return BitSequence(inputs, target, place)

    def _scale(self, repeats: int) -> float:
        deviation = ((self.most_repeats**2 - 1) / 12) ** 0.5
        return (repeats - (self.most_repeats + 1) / 2) / (deviation or 1.0)


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

    smallest = 2

    @property
    def input_width(self) -> int:
        return self.width + 2

    def sample(self, length: int, random: np.random.Generator) -> BitSequence:
        bits = sample_bits(random, length * self.vectors, self.width)
        items = bits.reshape(length, self.vectors, self.width)
        query = int(random.integers(length - 1))
        return self._build(items, items[query], items[query + 1], "")

    def read(self, text: str, place: str) -> BitSequence:
        """Return the sequence of `01,11 00,10 ? 01,11`: items and the query."""
        words, mark, query = text.partition("?")
        if not mark or not words.split() or len(query.split()) != 1:
            raise InputError(
                f"{place}: {quote(text)}; expected items separated by spaces, a question "
                "mark and an item"
            )
        items = np.stack([self._parse_item(word, place) for word in words.split()])
        target = np.zeros_like(items[0])
        return self._build(items, self._parse_item(query.strip(), place), target, place)

    def _parse_item(self, word: str, place: str) -> Vectors:
        vectors = word.split(",")
        if len(vectors) != self.vectors:
            raise InputError(
                f"{place}: {quote(word)} is no item; expected {self.vectors} vectors "
                "separated by commas"
            )
        return self.parse_vectors(vectors, place)

    def _build(
        self,
        items: Float[np.ndarray, "item position width"],
        query: Vectors,
        target: Vectors,
        place: str,
    ) -> BitSequence:
        step = self.vectors + 1
        steps = (len(items) + 1) * step + 1 + self.vectors
        inputs = np.zeros((steps, self.input_width), np.float32)
        for number, item in enumerate((*items, query)):
            start = number * step
            is_query = number == len(items)
            inputs[start, self.width + is_query] = 1
            inputs[start + 1 : start + step, : self.width] = item
        inputs[(len(items) + 1) * step, self.width + 1] = 1
        return BitSequence(inputs, target, place)


def sample_bits(random: np.random.Generator, count: int, width: int) -> Vectors:
    """Return random vectors."""
    return random.integers(0, 2, (count, width)).astype(np.float32)


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
    """Pad sequences. Raises ValueError for no sequences."""
    if not sequences:
        raise ValueError("collate_bits() got no sequences; expected at least one")
    first, longest = sequences[0], max(map(len, sequences))
    inputs = torch.zeros(len(sequences), longest, first.inputs.shape[1])
    targets = torch.zeros(len(sequences), longest, first.target.shape[1])
    predicted = torch.zeros(len(sequences), longest, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        end = len(sequence)
        start = end - len(sequence.target)
        inputs[row, :end] = torch.from_numpy(sequence.inputs)
        targets[row, start:end] = torch.from_numpy(sequence.target)
        predicted[row, start:end] = True
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    return BitBatch(inputs, lengths, targets, predicted)


class AlgorithmicObjective(TokenBatchObjective[BitSequence, BitBatch]):
    """Maximum likelihood of each bit of the targets."""

    metric, higher_is_better = "bits-per-sequence", False

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
def predict_bits(
    model: TuringMachine,
    sequences: Sequence[BitSequence],
    rows: int | None = None,
) -> list[Float[Tensor, "position output_width"]]:
    """Return the probability that each bit of each target is 1.

    Args:
        model: The machine.
        sequences: The sequences.
        rows: Rows of the tape, by default the model's own.
    """
    device = next(model.parameters()).device
    order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
    groups = [
        order[first : first + BATCH_ROWS] for first in range(0, len(order), BATCH_ROWS)
    ]

    def predict_group(group: list[int]) -> Tensor:
        batch = collate_bits([sequences[index] for index in group]).to(device)
        return model(batch.inputs, batch.lengths, rows=rows).double().sigmoid().cpu()

    results = [torch.zeros(0)] * len(sequences)
    for group, outputs in zip(
        groups, compute_batches(predict_group, groups), strict=True
    ):
        for row, index in enumerate(group):
            end = len(sequences[index])
            start = end - len(sequences[index].target)
            results[index] = outputs[row, start:end]
    return results


def compute_metrics(
    model: TuringMachine,
    sequences: Sequence[BitSequence],
    rows: int | None = None,
) -> dict[str, float]:
    """Return the metrics of a machine.

    Returns:
        bits-per-sequence: Mean cross-entropy of a target in bits (figure 3).
        wrong-bits: Share of wrong bits, in percent.
        exact-match: Share of outputs that equal their target, in percent.
    """
    cost = wrong = exact = count = 0.0
    outputs = predict_bits(model, sequences, rows)
    for probabilities, sequence in zip(outputs, sequences, strict=True):
        target = torch.from_numpy(sequence.target).double()
        errors = int(((probabilities > 0.5) != (target > 0.5)).sum())
        nats = functional.binary_cross_entropy(probabilities, target, reduction="sum")
        cost += float(nats) / math.log(2)
        wrong += errors
        exact += errors == 0
        count += target.numel()
    return {
        "bits-per-sequence": cost / len(sequences),
        "wrong-bits": 100 * wrong / count,
        "exact-match": 100 * exact / len(sequences),
    }


@dataclass(frozen=True, eq=False, repr=False)
class BitPrediction(ShortRepr):
    """Predicted bits, with what was read and written on the tape."""

    probabilities: Float[np.ndarray, "position output_width"]
    """The probability of each bit that it is 1."""
    tape: TapeUse

    @property
    def text(self) -> str:
        """The likelier bits, vectors separated by spaces."""
        rows = (self.probabilities > 0.5).astype(int).tolist()
        words = ["".join(map(str, row)) for row in rows]
        return " ".join(words)

    def lines(self) -> list[str]:
        return [self.text]

    def to_json(self) -> dict[str, Any]:
        return {"answer": self.text, "probabilities": self.probabilities.tolist()}


class AlgorithmicRun(Run[str, BitPrediction]):
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
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: Algorithmic) -> "AlgorithmicRun":
        """Return the run in a folder, its model with initial weights."""
        data = config.data
        model = TuringMachine(data.input_width, data.output_width, config.model)
        return cls(config, model)

    def parse(self, line: str, place: str = "text 1") -> str:
        self.config.data.read(line, place)
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"bits": example}

    def compute_metrics(
        self, examples: Sequence[BitSequence], options: EvaluationOptions
    ) -> dict[str, float]:
        return compute_metrics(self.model, examples)

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[BitPrediction]:
        sequences = [
            self.config.data.read(text, f"text {number}")
            for number, text in enumerate(examples, 1)
        ]
        return [self._predict_one(sequence) for sequence in sequences]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        (prediction,) = self.predict([example])
        use = prediction.tape
        return Attribution(
            prediction,
            example,
            use.lookups(),
            use,
            options,
            draw=lambda title: tape(use, title=title),
        )

    def _predict_one(self, sequence: BitSequence) -> BitPrediction:
        """Return the output for a sequence, on a tape with a row for each step or more."""
        inputs = collate_bits([sequence]).inputs.to(self.device)
        with record(self.model, only="heads") as maps:
            logits = self.model(inputs, rows=max(self.config.model.rows, len(sequence)))
        outputs = logits[0].double().sigmoid().cpu().numpy()
        weights = maps["heads"][0].double().cpu().numpy()
        reads = self.config.model.reads
        start = len(outputs) - len(sequence.target)
        is_input = np.arange(len(outputs))[:, None] < start
        visible = np.where(is_input, np.nan, outputs)
        use = TapeUse(sequence.inputs, visible, weights[:reads], weights[reads:])
        return BitPrediction(outputs[start:], use)
