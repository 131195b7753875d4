"""Implementations that tasks share: objectives, set-up, generated texts, attribution.

A task adds only its example, how a row becomes an example, its model, its loss, its
prediction, its metrics and its picture. `pointer.py` is the shortest complete example.

How to write a task with the parts of this module and of `run.py`:

* The objective is a `TokenBatchObjective`: pass the examples, their lengths and what opens
  a run, whose `compute_metrics` validates, and implement `collate` and `loss`.
* `setup` returns `setup_task(...)`: the counts of the sets, the digest of the data and the
  line for the log are computed there.
* The run implements `compute_metrics(examples, options)`, not `_evaluate`. The
  public verbs of `Run` guard the model against NaN and switch gradients off for `predict`
  and `evaluate`, so tasks call neither `guarded` nor `torch.no_grad` there, and write
  `self.device` for the device of the model.
* A run whose model writes texts is a `GeneratingRun` (`generating.py`).
* A run that predicts something about texts is a `ReadingRun` and implements `collate` and
  `compute_loss`; a `ReadingObjective` trains it. A baseline or how many texts are cut is
  told by `log_examples`, which an evaluation calls and a validation does not.
* A run with one tokenizer is a `TokenizerRun` and one of plain texts a `TextRun`, one
  without tokenizers a `ModelRun`, and one of generated data, with a line for each example,
  a `LineRun`: implement `build`.
* A run that attributes within one text calls `attribute_tokens`.
* A prediction of a written text is a `GeneratedText`.
"""

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    TypeVar,
)

import numpy as np
import torch
from torch import Tensor, nn

from regard.attribution.attention import (
    Names,
    attribute_effects,
    attribute_gradient,
    attribute_text,
    text_kinds,
    to_single_map,
)
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import GRADIENTS, WHOLE_MODEL, Kind
from regard.data.batches import (
    Batch,
    Lengths,
    Sides,
    batch_size,
    require_room,
    token_batches,
)
from regard.data.cache import CachedSet, Chunks, cache_value
from regard.data.records import Records
from regard.data.splits import Splits
from regard.data.texts import with_column
from regard.decoding.search import DecodingConstraints
from regard.errors import InputError, quote
from regard.maps.alignment import Alignment, Side
from regard.maps.lookups import Lookups, with_maps
from regard.metrics import Metrics
from regard.storage.run_folder import RunDirectory
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    Json,
    Prediction,
    PredictOptions,
    TextPrediction,
)
from regard.tasks.run import Run, text_warnings
from regard.tasks.summary import DataSummary, agree
from regard.text import Tokenizer, TokenizerSettings
from regard.training.objectives import Carried, Loss, Objective
from regard.training.settings import count_parameters
from regard.work import compute_batches

TOKENIZER = "tokenizer.json"
SOURCE, TARGET = "source.tokenizer.json", "target.tokenizer.json"
SAMPLE = 1_000_000
"""Largest number of examples on disk that a tokenizer is trained on."""
log = logging.getLogger("regard")


def load_or_train(
    run: RunDirectory,
    settings: TokenizerSettings,
    examples: Any,
    read: Callable[[Any], Iterable[str]] = lambda texts: texts,
) -> Tokenizer:
    """Return the run's tokenizer if it has one, or else train one.

    Args:
        run: The folder of the run.
        settings: The settings of a tokenizer.
        examples: The examples to train on, or their texts.
        read: Returns the texts of some examples.

    Raises:
        InputError: The tokenizer is damaged, or all texts are blank.
    """
    if run.has(TOKENIZER):
        return Tokenizer.load(run.file(TOKENIZER))
    return train_on_examples(examples, settings, "texts", read)


def train_on_examples(
    examples: Any,
    settings: TokenizerSettings,
    name: str,
    read: Callable[[Any], Iterable[str]],
) -> Tokenizer:
    """Train a tokenizer on the texts of examples; for a set on disk once.

    Args:
        examples: The examples; `SAMPLE` evenly spaced ones of a large set on disk.
        settings: The settings of the tokenizer.
        name: What to call the texts in the cache.
        read: Returns the texts of some examples.

    Raises:
        InputError: All texts are blank.
    """
    if settings.file is not None or not isinstance(examples, CachedSet):
        return Tokenizer.train(settings, read(examples))
    key = f"{name} {settings}"
    sample = examples
    count = len(examples)
    if count > SAMPLE:
        key += f" {SAMPLE}"
        rows = np.linspace(0, count - 1, SAMPLE).astype(np.int64)
        sample = examples.select(rows, "sample")
        log.info(
            "tokenizer: trained on %s of %s examples, evenly spaced", SAMPLE, count
        )
    content = cache_value(
        examples, key, lambda: Tokenizer.train(settings, read(sample)).content.decode()
    )
    return Tokenizer.of_content(content.encode(), str(examples.folder))


def check_mask(tokenizer: Tokenizer) -> None:
    """Raise InputError for a vocabulary without a mask token."""
    if tokenizer.special.mask is None:
        raise InputError(
            f"tokenizer.kind is {tokenizer.settings.kind}, whose vocabulary has no mask "
            "token; use wordpiece or wordpiece-uncased, or a file with <mask> or [MASK]"
        )


Columns = Mapping[str, str | int]


def input_columns(run: Run[Any, Any]) -> dict[str, str | int]:
    """Return the column of each of a run's inputs.

    It is the column of the data that the run was trained on, else one named like the
    input. An optional input without a column in the data is left out.
    """
    columns = dict(getattr(run.config.data, "columns", {}))
    if len(run.inputs) == 1 and "source" in columns:
        columns[next(iter(run.inputs))] = columns["source"]
    return {
        key: columns.get(key, key)
        for key, kind in run.inputs.items()
        if key in columns or kind != str | None
    }


def row_example(
    run: Run[Any, Any], content: str | Mapping[str, Any], place: str
) -> Any:
    """Return the example of a row: of a line, or of values by the keys of the inputs.

    A text instead of a file's bytes is its path, an array is an image.

    Raises:
        InputError: The row is not an example; the error names the place.
    """
    if isinstance(content, str):
        return run.parse(content, place)
    values = {key: content.get(key) for key in run.inputs}
    for key, kind in run.inputs.items():
        value = values[key]
        if isinstance(value, np.ndarray):
            return value
        if run.inputs == {key: bytes} and isinstance(value, str):
            return run.parse(value, place)
        if kind in (str, bytes) and not isinstance(value, kind):
            expected = "text" if kind is str else "the path of a file, or its bytes"
            raise InputError(
                f"{place}: {key!r} is {type(value).__name__}, expected {expected}"
            )
    if not {*run.inputs.values()} <= {str, bytes, str | None}:
        return run.parse(json.dumps(values), place)
    try:
        return run.example(values)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


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
R = TypeVar("R", bound="TokenizerRun[Any, Any]")


@dataclass(frozen=True, repr=False)
class TextBatch(Batch):
    """Texts in a batch with their targets."""

    inputs: tuple[Tensor, ...]
    """The arguments of the model, in order."""
    targets: Tensor
    size: int
    """The number of tokens, without padding."""


class TokenBatchObjective(ABC, Generic[E, B]):
    """An objective whose batches have room for `training.batch_tokens` tokens.

    Attributes:
        train: Training examples, if possible each with a `place`, its `file:line`.
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
        run: "Callable[[nn.Module], Run[Any, Any]] | None" = None,
    ) -> None:
        """Measure the batches.

        Args:
            train: Training examples, or the parts of examples that make up batches.
            valid: Validation examples.
            settings: The `training:` section.
            lengths: Tokens of both sides of each training example.
            unit: What to call the examples in messages, in the plural.
            run: Opens a run around a model, whose `compute_metrics` validates.

        Raises:
            InputError: The set is empty, or an example is longer than a batch.
        """
        self.open_run = run
        self.train = train
        self.valid = valid
        self.settings = settings
        self.lengths = lengths
        room = settings.batch_tokens
        require_room(lengths, room, self.place, unit.removesuffix("s"))
        self.batch_tokens = batch_size(lengths, room, f"training {unit}")

    def place(self, index: int) -> str:
        """Return the `file:line` of a training example, for messages."""
        return getattr(self.train[index], "place", f"example {index + 1}")

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

    def validate(self, model: nn.Module) -> Metrics:
        """Return the metrics of the run on the validation examples, decoded greedily."""
        assert self.open_run is not None, "give a run, or implement `validate`"
        run = self.open_run(model)
        return run.compute_metrics(self.valid, EvaluationOptions(beam=1))


class TextsObjective(ABC, Generic[B]):
    """An objective of texts that cut and batch themselves, as `MaskedTexts` do."""

    metric: str
    higher_is_better: bool
    measure: Callable[[Any, Any, int], Metrics]
    """Returns the metrics of a model on texts, in batches of this number of tokens."""

    def __init__(self, train: Any, valid: Any, settings: "Training") -> None:
        self.train = train
        self.valid = valid
        self.settings = settings

    def batches(self, epoch: int) -> Sequence[list[int]]:
        """Return the batches of an epoch as lists of indices."""
        settings = self.settings
        return self.train.batches(settings.batch_tokens, settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> B:
        """Return the batch of some training texts."""
        return self.train.batch(epoch, indices)

    @abstractmethod
    def loss(
        self, model: Any, batch: B, update: int, carried: Carried | None = None
    ) -> Loss:
        """Return the summed loss of a batch."""

    def validate(self, model: nn.Module) -> Metrics:
        """Return the metrics on the validation texts."""
        return self.measure(model, self.valid, self.settings.batch_tokens)


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
    """What training needs."""
    simplest: str = ""
    """A line on the simplest prediction for the validation examples, as a baseline."""


def setup_task(
    model: Any,
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
        model: The model, with initial weights, or the run with one tokenizer around it.
        objective: The training objective.
        splits: The three sets, of which `test` becomes the setup's `tests`.
        data_digest: The digest of training and validation data (`digest_splits`).
        data: The summary of the data, whose `unit` names the examples in the log.
        counts: Further counts of the training set, such as `0.5 hours`.
        details: Further parts of the log's line, such as `3 classes`.
        **fields: Further fields of `Setup`.
    """
    if isinstance(model, TokenizerRun):
        tokenizer = model.tokenizer
        details = [*details, f"a vocabulary of {tokenizer.size:,}"]
        fields["tokenizers"] = {TOKENIZER: tokenizer}
        model = model.model
    train = [f"{len(splits.train):,} {agree(data.unit, len(splits.train))}", *counts]
    parts = [
        f"{', '.join(train)} to train on, {len(splits.valid):,} to validate, "
        f"{len(splits.test):,} to test",
        *details,
        f"{count_parameters(model):,} parameters",
    ]
    fields.setdefault("tests", splits.test)
    return Setup(model, objective, data_digest, "; ".join(parts), data=data, **fields)


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


def digest_bytes(contents: Iterable[bytes]) -> str:
    """Return the digest of examples that are arrays, from the bytes of each."""
    return digest(hashlib.sha256(content).hexdigest() + "\n" for content in contents)


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
        constraints: Constraints of every output.

    Returns:
        Hypotheses for each source, best first.
    """

    def search_from(first: int) -> "list[list[Hypothesis]]":
        memory, limit = encode(sources[first : first + rows])
        return search(decoder, memory, limit, constraints)

    batches = compute_batches(search_from, range(0, len(sources), rows))
    return [hypotheses for batch in batches for hypotheses in batch]


class ModelRun(Run[E, P], Generic[E, P]):
    """A run without tokenizers and options. A task implements `build`."""

    supports = {
        "predict": (),
        "evaluate": (),
        "attribute": (),
    }

    def __init__(self, config: Any, model: nn.Module) -> None:
        self.config = config
        self.model = model

    @staticmethod
    @abstractmethod
    def build(config: Any) -> nn.Module:
        """Return the model of a run file with initial weights."""

    @classmethod
    def open(cls, run: RunDirectory, config: Any) -> Any:
        """Open the run in a folder, its model with initial weights."""
        return cls(config, cls.build(config))


class LineRun(ModelRun[str, TextPrediction]):
    """A run of generated data, whose examples are lines.

    The `data:` section's `parse` returns the example of a line and raises ValueError for
    other lines than its `form` describes.

    Attributes:
        key: What an example is called in JSON.
    """

    key: ClassVar[str]

    def parse(self, line: str, place: str = "text 1") -> str:
        self.read_line(line, place)
        return line

    def read_line(self, line: str, place: str) -> Any:
        """Return the example that a line describes. Raises InputError for none."""
        data = self.config.data
        try:
            return data.parse(line)
        except ValueError as error:
            message = f"{place}: {quote(line)}; expected {data.form}"
            raise InputError(message) from error

    def record(self, example: str) -> Json:
        return {self.key: example}

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[TextPrediction]:
        return self.predict_examples(
            [
                self.read_line(line, f"text {number}")
                for number, line in enumerate(examples, 1)
            ]
        )

    @abstractmethod
    def predict_examples(self, examples: Sequence[Any], /) -> list[TextPrediction]:
        """Return the predictions for examples of `read_line`."""


class TokenizerRun(Run[E, P], Generic[E, P]):
    """A run with one tokenizer. A task gives `build`, or another `open`."""

    tokenizer: Tokenizer
    build: ClassVar[Callable[[Any, Tokenizer], nn.Module]]
    """Returns the model of a run file with initial weights."""

    def __init__(self, config: Any, model: Any, tokenizer: Tokenizer) -> None:
        self.config = config
        self.model = model
        self.tokenizer = tokenizer

    @classmethod
    def open(cls: type[R], run: RunDirectory, config: Any) -> R:
        """Open the run in a folder, its model with initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, cls.build(config, tokenizer), tokenizer)

    @property
    def kinds(self) -> Sequence[Kind]:
        if "attribute" not in self.supports:
            return ()
        return text_kinds(self.model, self.model.self_attention)

    @property
    def cut_modules(self) -> Sequence[str]:
        if "effect" not in self.kinds:  # then a model may lack self-attention
            return ()
        names = self.model.self_attention
        return (names,) if isinstance(names, str) else names


class ReadingRun(TokenizerRun[E, P], Generic[E, P]):
    """A run that predicts something about texts: their tags, spans or labels.

    A model gets the parts of texts. A task implements `collate` and `compute_loss`.

    Attributes:
        rows: Parts in one batch of inference.
        metric: The metric that chooses the best weights.
        higher_is_better: Whether the best weights have the highest value of it.
    """

    supports = {
        "predict": (),
        "evaluate": ("files", "columns", "skip_bad"),
        "attribute": ("kinds", "maps", "cut"),
    }
    rows: ClassVar[int] = 64
    metric: str = "f1"
    higher_is_better: bool = True

    @abstractmethod
    def collate(self, parts: Sequence[Any], /) -> TextBatch:
        """Pad parts of texts into a batch."""

    @abstractmethod
    def compute_loss(self, outputs: Tensor, batch: TextBatch) -> Loss:
        """Return the summed loss of the model's outputs for a batch."""

    def call(self, parts: Sequence[Any]) -> Tensor:
        """Return the outputs of the model for a batch of parts."""
        return self.model(*self.collate(parts).to(self.device).inputs)

    @torch.no_grad()
    def compute_outputs(self, parts: Sequence[Any], rows: int = 0) -> Iterator[Tensor]:
        """Return the outputs for each of many parts, on the CPU."""
        rows = rows or self.rows
        starts = range(0, len(parts), rows)
        batches = compute_batches(
            lambda first: self.call(parts[first : first + rows]).cpu(), starts
        )
        return chain.from_iterable(batches)

    def warnings(self, example: E) -> list[str]:
        return text_warnings(self.tokenizer, self.record(example))


class ReadingObjective(TokenBatchObjective[Any, TextBatch]):
    """The loss of a run for texts, on the parts of its training texts."""

    def __init__(
        self,
        run: ReadingRun[Any, Any],
        splits: Splits[Any],
        parts: Chunks[Any],
        unit: str = "texts",
    ) -> None:
        """Prepare the batches of parts, which are called `unit` in messages."""
        self.run = run
        self.metric = run.metric
        self.higher_is_better = run.higher_is_better
        self.texts = splits.train
        self.owners = parts.owners
        settings = run.config.training
        super().__init__(
            parts, splits.valid, settings, parts.sides, unit, run=run.with_model
        )

    def place(self, index: int) -> str:
        return self.texts[int(self.owners[index])].place

    def collate(self, examples: Sequence[Any]) -> TextBatch:
        return self.run.collate(examples)

    def loss(
        self,
        model: nn.Module,
        batch: TextBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        return self.run.compute_loss(model(*batch.inputs), batch)


class TextRun(TokenizerRun[str, P], Generic[P]):
    """A run whose examples are texts, with one tokenizer."""

    def warnings(self, text: str) -> list[str]:
        return text_warnings(self.tokenizer, {"text": text})

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Any]:
        data = with_column(self.config.data, options.columns)
        return [example for file in files for example in data.read(str(file))]


@dataclass(frozen=True)
class Explained:
    """What a gradient explains: the log-probability of a choice in each of some rows."""

    names: Sequence[str]
    """The names of the choices; without one, nothing can be explained."""
    choices: Sequence[int]
    logits: Callable[[], Tensor]
    """Runs the model on the text and returns the rows."""
    refusal: str = ""
    """What to say where there is nothing to explain."""


def attribute_tokens(
    model: Any,
    side: Side,
    explained: Explained,
    options: AttributionOptions,
    call: Callable[[], object] | None = None,
    before: str = "",
    names: Names = (),
) -> tuple[Lookups, Alignment]:
    """Attribute the tokens of one text to each other, in the kinds of the options.

    Args:
        model: The model, whose `self_attention` names the modules that attend.
        side: Labels and words of the tokens.
        explained: What a gradient explains.
        options: The kinds and the maps.
        call: Runs the model on the text, by default for the logits to explain.
        before: Label of a key in front of the first token.
        names: The modules that attend to the tokens. Default: the self-attention.

    Returns:
        The lookups of all kinds, and the one map of the first kind.

    Raises:
        InputError: The model has no such map, or there is nothing to explain.
    """
    maps = options.maps
    call = call or explained.logits
    names = names or model.self_attention
    results = []
    for kind in options.list_kinds():
        if kind not in WHOLE_MODEL:
            results.append(
                attribute_text(model, names, side, call, maps, kind=kind, before=before)
            )
            continue
        if not explained.names:
            raise InputError(explained.refusal)

        def score(copies: int = 1) -> Tensor:
            logits = explained.logits()
            return select_log_probabilities(logits, explained.choices)

        if kind == "effect":
            results.append(
                attribute_effects(
                    model,
                    names,
                    side,
                    explained.names,
                    score,
                    maps,
                    options.cut,
                    before,
                )
            )
            continue
        gradient = attribute_gradient(
            model, side.pieces, explained.names, score, maps, GRADIENTS[kind]
        )
        results.append((to_single_map(gradient, kind), gradient))
    return with_maps(*(lookups for lookups, _ in results)), results[0][1]
