"""Runs whose model writes a text for an image or a sound, their run files and training."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attribution.attention import check_kinds, full_names
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.data.batches import Batch, Lengths, collate
from regard.data.records import Records
from regard.data.rows import convert_files
from regard.data.tokens import label_ids
from regard.decoding.search import DecodingConstraints, Search, writable
from regard.decoding.streaming import (
    StepOptions,
    StreamEvent,
    StreamSource,
    check_prefixes,
)
from regard.errors import InputError
from regard.maps.lookups import Breakdown, ImagePatches, Lookups
from regard.shapes import Int
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    TokenBatchObjective,
    TokenizerRun,
    check_beam,
    load_or_train,
    search_batches,
)
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    EvaluationOptions,
    GeneratedText,
    Json,
    PredictOptions,
    StreamOptions,
    TextPrediction,
    rank_distinct,
)
from regard.tasks.run import ScoredOutput
from regard.text import TokenizerSettings
from regard.training.objectives import AttentionLoss, AttentionLosses
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class GeneratingSettings:
    """Tokenizer, metrics, training and search of such a model."""

    task: str
    data: Any
    tokenizer: TokenizerSettings
    metrics: Any
    """Metrics of validation and test; the first chooses the best weights."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    attention_losses: AttentionLosses = field(default_factory=AttentionLosses)
    lower: bool = True
    """Lowercase the texts."""

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.tokenizer.dropout:
            raise ValueError(
                "tokenizer.dropout is for seq2seq; these texts are cut in one way"
            )
        if self.attention_losses.guided:
            raise ValueError(
                "attention_losses.guided needs word links, and images and sounds have "
                "none; remove it"
            )


if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.decoding.hypothesis import Hypothesis
    from regard.decoding.search import Search

E = TypeVar("E")
S = TypeVar("S")
G = TypeVar("G", bound="GeneratingRun[Any, Any]")


class GeneratingRun(TokenizerRun[E, GeneratedText], Generic[E, S]):
    """A run whose model writes a text for an image, a sound or another source.

    All verbs are implemented here: prepare the sources, encode them to a memory, search,
    and make texts of the hypotheses. A task implements `build`, `prepare`, `encode`,
    `label_source`, `plot` and its metrics.

    Attributes:
        rows: Sources in one batch of a search.
        tables: The `data:` section of files with sources and texts.
        source_name: What a source is: `image` or `audio`, a key of requests.
        has_contrast: Whether `plot` takes `contrast`.
        detail: What the figure of an attribution shows, a line below its title.
    """

    supports = {
        "predict": ("beam", "n_best", *SEARCHING),
        "stream": (*SEARCHING, "prefix", "prefix_tokens", "candidates"),
        "evaluate": ("files", "beam", "columns", "skip_bad"),
        "attribute": ("beam", "kinds", "target", "finished", "target_tokens"),
    }
    rows: ClassVar[int] = 64
    source_name: ClassVar[str]
    has_contrast: ClassVar[bool] = False
    tables: ClassVar[Any]
    detail: ClassVar[str] = ""

    @classmethod
    def create(
        cls: type[G], config: Any, folder: RunDirectory, texts: Iterable[str]
    ) -> G:
        """Return a run to train, with the folder's tokenizer or one of the texts.

        Raises:
            InputError: The beam is wider than the vocabulary, or all texts are blank.
        """
        tokenizer = load_or_train(folder, config.tokenizer, texts)
        check_beam(config.search.beam, tokenizer.size, "vocabulary")
        return cls(config, cls.build(config, tokenizer), tokenizer)

    @abstractmethod
    def prepare(self, example: E, name: str) -> S:
        """Return the source of an example, called `name` in messages.

        Raises:
            InputError: The example cannot be read.
        """

    @abstractmethod
    def check(self, source: S) -> S:
        """Return the source. Raises InputError for one that can't be read."""

    @abstractmethod
    def encode(self, sources: Sequence[S]) -> tuple[Memory, Tensor]:
        """Encode a batch of sources on the model's device.

        Returns:
            The memory, and the length of each source, by which the search limits outputs.
        """

    @abstractmethod
    def label_source(self, source: S) -> StreamSource:
        """Return the labels of the memory's keys, and the picture whose parts they are."""

    @abstractmethod
    def normalize_target(self, text: str) -> str:
        """Return a forced output as the tokenizer reads it."""

    @abstractmethod
    def plot(
        self,
        source: S,
        patches: ImagePatches,
        tokens: tuple[str, ...],
        weights: np.ndarray,
        remarks: tuple[str, ...],
        title: str,
        **options: Any,
    ) -> "Figure":
        """Plot the weights `(token, row, column)` of an output over its source.

        Args:
            patches: The picture of the source.
            tokens: The tokens of the output without END.
            weights: The mean over layers and heads.
            remarks: The gate of each token, none for a model without one.
            options: `contrast`, if the run `has_contrast`.
        """

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return () if self.model.decoder.source_attention is None else ("weights",)

    @property
    def cut_modules(self) -> Sequence[str]:
        names = self.model.decoder.source_attention
        return () if names is None else full_names("decoder", names)

    def description(self) -> Json:
        model = self.config.model.name
        end = self.tokenizer.special.end
        form = {"kind": self.source_name, "model": model, "end": end}
        return super().description() | form

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[S]:
        data = self.config.data
        table = data if isinstance(data, self.tables) else self.tables()
        table = table.with_columns(options.columns, skip_bad=options.skip_bad)
        return convert_files(files, table.read, self.check, skip_bad=table.skip_bad)

    def record(self, example: E) -> Json:
        is_file = isinstance(example, str | Path)
        return {self.source_name: str(example)} if is_file else {}

    def prepare_all(self, examples: Sequence[E]) -> list[S]:
        """Return the sources of examples, numbered from 1 in messages."""
        return [
            self.prepare(example, f"{self.source_name} {number}")
            for number, example in enumerate(examples, 1)
        ]

    def search(
        self,
        sources: Sequence[S],
        search: "Search",
        constraints: DecodingConstraints | None = None,
    ) -> "list[list[Hypothesis]]":
        """Return hypotheses for each source, best first."""

        def encode(batch: Sequence[S]) -> tuple[Memory, Tensor]:
            memory, lengths = self.encode(batch)
            return memory, search.limit(lengths)

        decoder = self.model.decoder
        return search_batches(
            decoder,
            encode,
            sources,
            self.rows,
            search,
            constraints,
        )

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

    def _predict(
        self, examples: Sequence[E], options: PredictOptions
    ) -> list[GeneratedText]:
        search = options.search(self.config.search)
        constraints = DecodingConstraints(options.count_hypotheses(search))
        results = self.search(self.prepare_all(examples), search, constraints)
        return [
            rank_distinct([*map(self.make_text, hypotheses)], options.n_best)
            for hypotheses in results
        ]

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
        memory, lengths = self.encode(sources)
        decoder = self.model.decoder
        steps = search.stream(
            decoder,
            memory,
            search.limit(lengths),
            DecodingConstraints(prefixes=(prefix,)),
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
        tokens = options.encode_target(
            lambda text: self.tokenizer.encode(self.normalize_target(text)), end
        )
        if tokens is not None:
            ids = [token for token in tokens if token != end]
            return TextPrediction(self.tokenizer.decode(ids)), tokens
        search = self.config.search.with_beam(options.beam)
        ((best, *_),) = self.search([source], search)
        return self.make_text(best), self._end(best)

    def _end(self, output: "Hypothesis") -> list[int]:
        """Return the tokens of an output, with the end if it is finished."""
        return [*output.tokens, *[self.tokenizer.special.end] * output.finished]

    def record_output(
        self, source: S, ids: Sequence[int]
    ) -> tuple[np.ndarray, tuple[float, ...] | None, Breakdown | None]:
        """Record the attention to a source in one pass with teacher forcing.

        Returns:
            The weights `(layer, head, position, key)`, END last; the gate on the context
            of each token but END, None for a model without one; the breakdown of the
            weights.
        """
        decoder = self.model.decoder
        modules = decoder.source_attention
        gate = decoder.source_gate
        assert modules is not None
        observed = [modules] if isinstance(modules, str) else list(modules)
        observed += [] if gate is None else [gate]
        memory, _ = self.encode([source])
        inputs = torch.tensor([[decoder.special.start, *ids]], device=self.device)
        with record(decoder, observed, breakdown=True) as maps:
            decoder.features(inputs, decoder.start(memory))
        weights = maps.exclude(gate).stack_layers()[0].double().cpu().numpy()
        gates = None
        if gate is not None:
            gates = tuple(maps[gate][0, : len(ids), 0].tolist())
        return weights, gates, maps.breakdown(weights)

    def _find_output(
        self, example: E, options: AttributionOptions, forced: int
    ) -> ScoredOutput:
        source = self.prepare(example, f"the {self.source_name}")
        _, tokens = self.write_output(source, options)
        prefix = tuple(tokens[:forced])
        check_prefixes([prefix], self.tokenizer.size, self.tokenizer.special)
        pieces = label_ids(self.tokenizer, tokens)
        decoder = self.model.decoder

        def score() -> Tensor:
            memory, _ = self.encode([source])
            inputs = torch.tensor([[decoder.special.start, *tokens[:-1]]])
            state = decoder.start(memory)
            features = decoder.features(inputs.to(self.device), state)
            return select_log_probabilities(decoder.output(features)[0], tokens)

        def predict() -> tuple[Sequence[str], GeneratedText]:
            search = self.config.search.with_beam(options.beam)
            constraints = DecodingConstraints(1, (prefix,))
            ((best, *_),) = self.search([source], search, constraints)
            text = self.make_text(best)
            return label_ids(self.tokenizer, self._end(best)), text

        return ScoredOutput(pieces, pieces, score, predict)

    @torch.no_grad()
    def _attribute(self, example: E, options: AttributionOptions) -> Attribution:
        """Attribute each token of the predicted or forced output to the source."""
        if self.model.decoder.source_attention is None:
            raise InputError(
                f"the run's model reads its {self.source_name} once and has no attention "
                "over it; there is nothing to draw"
            )
        check_kinds(options.kinds, self.kinds)
        source = self.prepare(example, f"the {self.source_name}")
        output, tokens = self.write_output(source, options)
        ids = [token for token in tokens if token != self.tokenizer.special.end]
        maps, gates, breakdown = self.record_output(source, ids)
        # a forced output has a row for END; the run's own output is drawn without it
        rows = ids if isinstance(output, GeneratedText) else tokens
        count = len(rows)
        pieces = tuple(label_ids(self.tokenizer, rows))
        words = pieces[: len(ids)]
        labels = self.label_source(source)
        patches = labels.patches
        assert patches is not None
        notes = tuple(f"gate {gate:.2f}" for gate in gates or ())
        lookups = Lookups(
            maps[:, :, :count],
            tuple(labels.labels),
            pieces,
            notes=notes and (*notes, *[""] * (count - len(notes))),
            patches=patches,
            recording=labels.recording,
            breakdown=breakdown and breakdown.select_rows(slice(count)),
        )
        weights = maps.mean((0, 1))[: len(ids)]
        weights = weights.reshape(len(ids), patches.rows, patches.columns)
        return Attribution(
            output,
            output.text,
            (lookups,),
            weights,
            options,
            draw=lambda title, **options: self.plot(
                source, patches, words, weights, notes, title, **options
            ),
            has_contrast=self.has_contrast,
            detail=self.detail,
        )


@dataclass(frozen=True, repr=False)
class GeneratingBatch(Batch):
    """Images of one size, or features of sounds, with texts for a decoder.

    The decoder reads `target_in` and predicts `target_out`, padded with `IGNORED`.
    """

    source: Tensor
    lengths: Int[Tensor, " batch"]
    """The frames of each sound, which is padded on the right, or the cells of an image."""
    source_lengths: Int[Tensor, " batch"]
    """The keys of each source."""
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_tokens: int
    """The tokens of all texts, the end included."""
    links: None = None


class GeneratingObjective(TokenBatchObjective[E, GeneratingBatch]):
    """Maximum likelihood of each text given its source, one token at a time."""

    def __init__(
        self,
        run: GeneratingRun[Any, E],
        train: Sequence[E],
        valid: Sequence[E],
        lengths: Sequence[Lengths],
        unit: str,
    ) -> None:
        """Prepare the batches of a run to train; for the others see the base class."""
        self.run = run
        self.config = run.config
        self.metric = self.config.metrics[0]
        losses = self.config.attention_losses
        self.attention_loss = AttentionLoss(losses, run.model.decoder)
        super().__init__(
            train,
            valid,
            self.config.training,
            lengths,
            unit,
            run=run.with_model,
        )

    def make_batch(
        self,
        source: Tensor,
        lengths: Tensor,
        source_lengths: Tensor,
        ids: Sequence[list[int]],
    ) -> GeneratingBatch:
        """Return a batch of sources with the ids of a text each."""
        special = self.run.tokenizer.special
        words = collate([([], row) for row in ids], target=special)
        return GeneratingBatch(
            source,
            lengths,
            source_lengths,
            words.target_in,
            words.target_out,
            words.target_tokens,
        )
