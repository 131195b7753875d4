"""Implementations that tasks share: objectives, set-up, generated texts, attribution.

A task adds only its example, how a row becomes an example, its model, its loss, its
prediction, its metrics and its picture. `pointer.py` is the shortest complete example.

How to write a task with the parts of this module and of `run.py`:

* The objective is a `TokenBatchObjective`: pass the examples and their lengths, implement
  `collate` and `loss`, and validate through the run (`Run.compute_metrics`).
* `setup` returns `setup_task(...)`: the counts of the sets, the digest of the data and the
  line for the log are computed there.
* The run implements `compute_metrics(examples, options)` in place of `_evaluate`. The
  public verbs of `Run` guard the model against NaN and switch gradients off for `predict`
  and `evaluate`, so tasks call neither `guarded` nor `torch.no_grad` there, and write
  `self.device` for the device of the model.
* A run whose model writes texts is a `GeneratingRun` (`generating.py`).
* A run of texts with one tokenizer is a `TextRun`: implement `build`.
* A run that attributes within one text calls `attribute_tokens`.
* A prediction of a written text is a `GeneratedText`.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from regard.attribution.aggregation import to_single_map
from regard.attribution.self_attention import attribute_gradient, attribute_text
from regard.data.batches import (
    Batch,
    Lengths,
    Sides,
    batch_size,
    require_room,
    token_batches,
)
from regard.data.cache import cache_value
from regard.data.records import Records
from regard.data.splits import Splits
from regard.data.texts import with_column
from regard.decoding.constraints import DecodingConstraints
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, with_maps
from regard.storage.run_folder import RunDirectory
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
)
from regard.tasks.prediction import (
    Prediction,
)
from regard.tasks.run import Run, text_warnings
from regard.tasks.summary import DataSummary
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer
from regard.training.devices import count_parameters
from regard.training.objectives import Carried, Loss, Objective
from regard.work import compute_batches

if TYPE_CHECKING:
    from regard.attention.memory import Memory
    from regard.decoding.hypothesis import Hypothesis
    from regard.decoding.search import Search
    from regard.nn.decoders import Decoder
    from regard.training.settings import Training

E = TypeVar("E")
P = TypeVar("P", bound=Prediction)
S = TypeVar("S")
B = TypeVar("B", bound=Batch)


@dataclass(frozen=True, repr=False)
class TextBatch(Batch):
    """Texts in a batch with their targets."""

    inputs: tuple[Tensor, ...]
    """The arguments of the model, in order."""
    targets: Tensor
    size: int
    """The number of tokens, without padding."""

    def to(self, device: torch.device | str) -> "TextBatch":
        inputs = [value.to(device, non_blocking=True) for value in self.inputs]
        targets = self.targets.to(device, non_blocking=True)
        return TextBatch(tuple(inputs), targets, self.size)


class TokenBatchObjective(ABC, Generic[E, B]):
    """An objective whose batches have room for `training.batch_tokens` tokens.

    Attributes:
        train: Training examples. Each has a `place`, its `file:line`.
        valid: Validation examples.
        settings: The `training:` section.
        lengths: Tokens of both sides of each example in a batch.
        batch_tokens: Largest number of tokens in a batch, padding included.
    """

    metric: str
    higher_is_better: bool

    def __init__(
        self,
        train: Sequence[E],
        valid: Sequence[Any],
        settings: "Training",
        lengths: Sequence[Lengths] | Sides,
        unit: str,
        *,
        strict: bool = False,
    ) -> None:
        """Measure the batches.

        Args:
            train: Training examples, or the parts of examples that make up batches.
            valid: Validation examples.
            settings: The `training:` section.
            lengths: Tokens of both sides of each training example.
            unit: What to call the examples in messages, in the plural.
            strict: Whether to refuse an example longer than a batch at once, with its
                `file:line`.

        Raises:
            InputError: There are no examples, or one is longer than a batch.
        """
        self.train = train
        self.valid = valid
        self.settings = settings
        self.lengths = lengths
        if strict:
            name = unit.removesuffix("s")
            require_room(lengths, settings.batch_tokens, self.place, name)
        self.batch_tokens = batch_size(
            lengths, settings.batch_tokens, f"training {unit}"
        )

    def place(self, index: int) -> str:
        """Return the `file:line` of a training example, for messages."""
        example: Any = self.train[index]
        return example.place

    def batches(self, epoch: int) -> Sequence[list[int]]:
        """Return the batches of an epoch as lists of indices."""
        return token_batches(self.lengths, self.batch_tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> B:
        """Return the batch of some training examples."""
        return self.collate([self.train[index] for index in indices])

    def collate(self, examples: Sequence[E]) -> B:
        """Pad examples into a batch. An objective without it implements `batch`."""
        raise TypeError(
            f"{type(self).__name__} has neither `collate` nor `batch`; implement one"
        )

    @abstractmethod
    def loss(
        self, model: nn.Module, batch: B, update: int, carried: Carried | None = None
    ) -> Loss:
        """Return the summed loss of a batch."""

    @abstractmethod
    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return the metrics on the validation examples."""


@dataclass(frozen=True)
class Setup:
    """Everything that training needs: the result of a run file and its data."""

    model: nn.Module
    objective: Objective
    digest: str
    """Identifies the training and validation data."""
    summary: str
    """A line for the log."""
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    """Tokenizers by the names of their files."""
    tests: Sequence[Any] | Mapping[str, Sequence[Any]] = ()
    """Examples for the evaluation of the finished run."""
    files: Mapping[str, Any] = field(default_factory=dict)
    """Further values of the run by the names of their JSON files."""
    fresh: tuple[str, ...] = ()
    """Prefixes of parameters that are initialized in a start from a run of another task."""
    pretrained: Mapping[str, str] = field(default_factory=dict)
    """Parts of the model, with the prefixes of their parameters in the pretrained run."""
    data: DataSummary | None = None
    """What training reads."""
    simplest: str = ""
    """A line on the simplest prediction for the validation examples, as a baseline."""


def setup_task(
    model: nn.Module,
    objective: Objective,
    splits: Splits[Any],
    data_digest: str,
    data: DataSummary,
    *,
    counts: Sequence[str] = (),
    details: Sequence[str] = (),
    **fields: Any,
) -> Setup:
    """Return the setup of three sets of examples.

    Args:
        model: The model, with initial weights.
        objective: The training objective.
        splits: The three sets, of which `test` becomes the setup's `tests`.
        data_digest: The digest of training and validation data (`digest_splits`).
        data: The summary of the data, whose `unit` names the examples in the log.
        counts: Further counts of the training set, such as `0.5 hours`.
        details: Further parts of the log's line, such as `a vocabulary of 300`.
        **fields: Further fields of `Setup`.
    """
    train = [f"{len(splits.train):,} {data.unit}", *counts]
    parts = [
        f"{', '.join(train)} to train on, {len(splits.valid):,} to validate, "
        f"{len(splits.test):,} to test",
        *details,
        f"{count_parameters(model):,} parameters",
    ]
    fields.setdefault("tests", splits.test)
    summary = "; ".join(parts)
    return Setup(model, objective, data_digest, summary, data=data, **fields)


def check_beam(beam: int, size: int, vocabulary: str) -> None:
    """Raise InputError for a beam wider than a vocabulary, before a training."""
    if beam > size:
        raise InputError(
            f"search.beam is {beam}, more than the {size} entries of the {vocabulary}; "
            "lower it"
        )


def digest(parts: Iterable[str]) -> str:
    """Return the SHA-256 of consecutive texts."""
    checksum = hashlib.sha256()
    for part in parts:
        checksum.update(part.encode(errors="surrogatepass"))
    return checksum.hexdigest()


def digest_splits(splits: Splits[E], line: Callable[[E], str]) -> str:
    """Return the digest of training and validation examples.

    Args:
        splits: The sets. The digest of a set on disk is cached.
        line: Returns the text that identifies an example.
    """
    valid = digest(map(line, splits.valid))
    return cache_value(
        splits.train,
        f"digest {valid}",
        lambda: digest(map(line, chain(splits.train, splits.valid))),
    )


def search_batches(
    decoder: "Decoder",
    encode: "Callable[[Sequence[S]], tuple[Memory, Tensor]]",
    sources: Sequence[S],
    rows: int,
    search: "Search",
    constraints: DecodingConstraints | None = None,
) -> "list[list[Hypothesis]]":
    """Search outputs for sources, a batch at a time.

    Args:
        decoder: The decoder of the model.
        encode: Returns the memory of a batch of sources and the largest number of tokens
            of each output.
        sources: The inputs.
        rows: Sources in a batch.
        search: The search.
        constraints: Constraints of every output.

    Returns:
        Hypotheses for each source, best first.
    """

    def search_from(first: int) -> "list[list[Hypothesis]]":
        memory, limit = encode(sources[first : first + rows])
        return search(decoder, memory, limit, constraints)

    batches = compute_batches(search_from, range(0, len(sources), rows))
    return [hypotheses for batch in batches for hypotheses in batch]


class TextRun(Run[str, P], Generic[P]):
    """A run whose examples are texts, with one tokenizer.

    A task implements `build`.
    """

    tokenizer: Tokenizer

    def __init__(self, config: Any, model: nn.Module, tokenizer: Tokenizer) -> None:
        self.config = config
        self.model = model
        self.tokenizer = tokenizer

    @staticmethod
    @abstractmethod
    def build(config: Any, tokenizer: Tokenizer) -> nn.Module:
        """Return the model of a run file with initial weights."""

    @classmethod
    def open(cls: "type[R]", run: RunDirectory, config: Any) -> "R":
        """Open the run in a folder, its model with initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, cls.build(config, tokenizer), tokenizer)

    def warnings(self, text: str) -> list[str]:
        return text_warnings(self.tokenizer, {"text": text})

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Any]:
        data = with_column(self.config.data, options.columns)
        return [example for file in files for example in data.read(str(file))]


R = TypeVar("R", bound=TextRun[Any])


Explanation = tuple[Sequence[str], Callable[[], Tensor]]
"""Names of the targets of a gradient, and a function that returns their scores."""


def attribute_tokens(
    model: Any,
    side: Side,
    call: Callable[[], object],
    explain: Callable[[], Explanation],
    options: AttributionOptions,
    before: str = "",
) -> tuple[Lookups, Alignment]:
    """Attribute the tokens of one text to each other, in the kinds of the options.

    Args:
        model: The model, whose `self_attention` names the modules that attend.
        side: Labels and words of the tokens.
        call: Runs the model on the text.
        explain: Returns what a gradient explains. Raises InputError for nothing.
        options: The kinds and the maps.
        before: Label of a key in front of the first token.

    Returns:
        The lookups of all kinds, and the one map of the first kind.

    Raises:
        InputError: The model has no such map, or there is nothing to explain.
    """
    results = []
    maps = options.maps
    for kind in options.list_kinds():
        if kind == "gradient":
            targets, scores = explain()
            gradient = attribute_gradient(model, side.pieces, targets, scores, maps)
            results.append((to_single_map(gradient, kind), gradient))
        else:
            names = model.self_attention
            results.append(
                attribute_text(model, names, side, call, maps, kind=kind, before=before)
            )
    return with_maps(*(lookups for lookups, _ in results)), results[0][1]
