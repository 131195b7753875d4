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
* A run whose model writes texts is a `GeneratingRun`: implement `prepare`, `encode`,
  `label_source` and, for attribution, use `write_output`.
* A run that attributes within one text calls `TextAttribution(...).collect(options)`.
* A prediction of a written text is a `GeneratedText`.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from regard.attribution.aggregation import to_single_map
from regard.attribution.kinds import Kind
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
from regard.data.splits import Splits
from regard.decoding.constraints import BannedTexts, DecodingConstraints, writable
from regard.decoding.streaming import (
    StepOptions,
    StreamEvent,
    StreamSource,
    check_prefixes,
)
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, with_maps
from regard.tasks.options import AttributionOptions, PredictOptions, StreamOptions
from regard.tasks.prediction import GeneratedText, TextPrediction, rank_distinct
from regard.tasks.run import Run
from regard.tasks.summary import DataSummary
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
S = TypeVar("S")
B = TypeVar("B", bound=Batch)


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
        self.train, self.valid, self.settings = train, valid, settings
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
    notes: tuple[str, ...] = ()
    """Lines on the settings of training."""


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


def digest_on_disk(
    splits: Splits[E],
    reading: str,
    decodable: Callable[[E], E],
    line: Callable[[E], str],
) -> str:
    """Return the digest of images on disk, cached by how they are read.

    Args:
        splits: The sets.
        reading: Describes how images are read.
        decodable: Returns an image after decoding it once.
        line: Returns the text that identifies an image.

    Raises:
        InputError: An image cannot be read.
    """

    def check_and_describe(images: Sequence[E]) -> Iterator[str]:
        return (line(decodable(image)) for image in images)

    def digest_once(images: Sequence[E]) -> str:
        return cache_value(images, reading, lambda: digest(check_and_describe(images)))

    valid = digest_once(splits.valid)
    digest_once(splits.test)
    parts = chain(check_and_describe(splits.train), map(line, splits.valid))
    return cache_value(splits.train, f"{reading} {valid}", lambda: digest(parts))


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


class GeneratingRun(Run[E, GeneratedText], Generic[E, S]):
    """A run whose model writes a text for an image, a sound or another source.

    `predict`, `stream` and the forced or predicted output of `attribute` are implemented
    here: prepare the sources, encode them to a memory, search, and make texts of the
    hypotheses. A task implements `prepare`, `encode` and `label_source`; its metrics call
    `search_texts`.

    Attributes:
        tokenizer: The tokenizer of outputs.
        rows: Sources in one batch of a search.
        source_name: What to call a source in messages.
    """

    tokenizer: Tokenizer
    rows: ClassVar[int] = 64
    source_name: ClassVar[str] = "example"

    @abstractmethod
    def prepare(self, example: E, name: str) -> S:
        """Return the source of an example, called `name` in messages.

        Raises:
            InputError: The example cannot be read.
        """

    @abstractmethod
    def encode(self, sources: Sequence[S]) -> "tuple[Memory, Tensor]":
        """Encode a batch of sources on the model's device.

        Returns:
            The memory, and the length of each source, by which the search limits outputs.
        """

    @abstractmethod
    def label_source(self, source: S) -> StreamSource:
        """Return the labels of the memory's keys, for streamed attention."""

    def normalize_target(self, text: str) -> str:
        """Return a forced output as the tokenizer reads it."""
        return text

    def prepare_all(self, examples: Sequence[E]) -> list[S]:
        """Return the sources of examples, numbered from 1 in messages."""
        numbers = range(1, len(examples) + 1)
        return [
            self.prepare(example, f"{self.source_name} {number}")
            for example, number in zip(examples, numbers, strict=True)
        ]

    def encode_with_limits(
        self, sources: Sequence[S], search: "Search"
    ) -> "tuple[Memory, Tensor]":
        """Return the memory of sources, and the largest number of tokens of each output."""
        memory, lengths = self.encode(sources)
        return memory, search.limit(lengths)

    def search(
        self,
        sources: Sequence[S],
        search: "Search",
        constraints: DecodingConstraints | None = None,
    ) -> "list[list[Hypothesis]]":
        """Return hypotheses for each source, best first."""
        return search_batches(
            self.model.decoder,
            lambda batch: self.encode_with_limits(batch, search),
            sources,
            self.rows,
            search,
            constraints,
        )

    def search_texts(self, sources: Sequence[S], search: "Search") -> list[str]:
        """Return the text of the best hypothesis for each source, for metrics."""
        results = self.search(sources, search)
        return [self.tokenizer.decode(best.tokens) for best, *_ in results]

    def make_text(self, hypothesis: "Hypothesis") -> GeneratedText:
        """Return the text of a hypothesis."""
        tokens = hypothesis.tokens
        return GeneratedText(
            self.tokenizer.decode(tokens),
            hypothesis.score,
            hypothesis.finished,
            tuple(self.tokenizer.pieces(tokens)),
            ids=tuple(tokens),
        )

    def constrain(
        self, options: PredictOptions, search: "Search"
    ) -> DecodingConstraints:
        """Return the constraints of options: the number of hypotheses and banned texts.

        Raises:
            InputError: A banned text is blank.
        """
        banned = None
        if options.banned:
            banned = BannedTexts.of(self.tokenizer, options.banned)
        return DecodingConstraints(options.count_hypotheses(search), banned=banned)

    def _predict(
        self, examples: Sequence[E], options: PredictOptions
    ) -> list[GeneratedText]:
        search = options.search(self.config.search)
        constraints = self.constrain(options, search)
        results = self.search(self.prepare_all(examples), search, constraints)
        predictions = []
        for hypotheses in results:
            texts = [self.make_text(hypothesis) for hypothesis in hypotheses]
            predictions.append(rank_distinct(texts, options.n_best))
        return predictions

    def _stream(
        self,
        examples: Sequence[E],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        search = options.search(self.config.search)
        prefix = options.encode_prefix(lambda text: writable(self.tokenizer, text))
        check_prefixes([prefix], self.tokenizer.size, self.tokenizer.special)
        sources = self.prepare_all(examples)
        labels = [
            replace(self.label_source(source), forced=len(prefix)) for source in sources
        ]
        memory, limit = self.encode_with_limits(sources, search)
        decoder = self.model.decoder
        steps = search.stream(
            decoder,
            memory,
            limit,
            self.constrain(options, search).with_prefixes((prefix,)),
            StepOptions(decoder, decoder.source_attention, options.candidates, active),
        )
        for step in steps:
            text = self.tokenizer.decode(step.tokens)
            yield StreamEvent.of(step, labels[step.row], text, self.tokenizer.pieces)

    def write_output(
        self, source: S, options: AttributionOptions
    ) -> tuple[GeneratedText | TextPrediction, list[int]]:
        """Return the output that an attribution explains, and its tokens.

        It is the forced output of the options, or else the run's own. The end is among
        the tokens of a finished output.
        """
        end = self.tokenizer.special.end
        if options.target_tokens is not None:
            tokens = list(options.target_tokens)
            return TextPrediction(self.tokenizer.decode(tokens)), tokens
        if options.target is not None:
            text = self.normalize_target(options.target)
            tokens = self.tokenizer.encode(text)
            prediction = TextPrediction(text)
            return prediction, [*tokens, end] if options.finished else tokens
        search = self.config.search.with_beam(options.beam)
        ((best, *_),) = self.search([source], search)
        tokens = list(best.tokens)
        return self.make_text(best), [*tokens, end] if best.finished else tokens


Explanation = tuple[Sequence[str], Callable[[], Tensor]]
"""Names of the targets of a gradient, and a function that returns their scores."""


@dataclass(frozen=True)
class TextAttribution:
    """The attribution within one text, in every kind that `attribute` supports."""

    model: nn.Module
    """The model, whose `self_attention` names the modules that attend."""
    side: Side
    """Labels and words of the tokens."""
    call: Callable[[], object]
    """Runs the model on the text."""
    explain: Callable[[], Explanation]
    """Returns what a gradient explains. Raises InputError where there is nothing."""
    before: str = ""
    """Label of a key in front of the first token."""

    def collect(
        self, options: AttributionOptions, default: Kind = "weights"
    ) -> tuple[Lookups, Alignment]:
        """Return the lookups of all kinds, and the one map of the first kind.

        Raises:
            InputError: The model has no such map, or there is nothing to explain.
        """
        results = [
            self.attribute(kind, options.maps) for kind in options.list_kinds(default)
        ]
        return with_maps(*(lookups for lookups, _ in results)), results[0][1]

    def attribute(
        self, kind: Kind, maps: Sequence[int] | None
    ) -> tuple[Lookups, Alignment]:
        """Return every layer and head of one kind, and one map of those in `maps`."""
        if kind == "gradient":
            targets, scores = self.explain()
            pieces = self.side.pieces
            gradient = attribute_gradient(self.model, pieces, targets, scores, maps)
            return to_single_map(gradient, kind), gradient
        names: Any = self.model.self_attention
        return attribute_text(
            self.model,
            names,
            self.side,
            self.call,
            maps,
            kind=kind,
            before=self.before,
        )
