"""Runs whose model writes a text for an image, a sound or another source."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.record import record_breakdown
from regard.attribution.aggregation import check_kinds
from regard.attribution.kinds import Kind
from regard.data.tokens import label_ids
from regard.decoding.constraints import DecodingConstraints, writable
from regard.decoding.streaming import (
    StepOptions,
    StreamEvent,
    StreamSource,
    check_prefixes,
)
from regard.errors import InputError
from regard.maps.breakdown import Breakdown
from regard.maps.lookups import Lookups, Patches
from regard.nn.encoder_decoder import decode_target
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import search_batches
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    PredictOptions,
    StreamOptions,
)
from regard.tasks.prediction import GeneratedText, TextPrediction, rank_distinct
from regard.tasks.run import Run
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

if TYPE_CHECKING:
    from regard.decoding.hypothesis import Hypothesis
    from regard.decoding.search import Search

E = TypeVar("E")
S = TypeVar("S")
G = TypeVar("G", bound="GeneratingRun[Any, Any]")


class GeneratingRun(Run[E, GeneratedText], Generic[E, S]):
    """A run whose model writes a text for an image, a sound or another source.

    All verbs are implemented here: prepare the sources, encode them to a memory, search,
    and make texts of the hypotheses. A task implements `build`, `prepare`, `encode`,
    `label_source`, `draw_weights` and its metrics.

    Attributes:
        tokenizer: The tokenizer of outputs.
        rows: Sources in one batch of a search.
        source_name: What a source is: `image` or `audio`, a key of requests.
        detail: What the figure of an attribution shows, a line below its title.
    """

    tokenizer: Tokenizer
    supports = {
        "predict": frozenset({"beam", "n_best", *SEARCHING}),
        "stream": frozenset({*SEARCHING, "prefix", "prefix_tokens", "candidates"}),
        "evaluate": frozenset({"files", "beam", "columns", "skip_bad"}),
        "attribute": frozenset(
            {"beam", "kinds", "target", "finished", "target_tokens"}
        ),
    }
    rows: ClassVar[int] = 64
    source_name: ClassVar[str]
    detail: ClassVar[str] = ""

    def __init__(self, config: Any, model: Any, tokenizer: Tokenizer) -> None:
        self.config = config
        self.model = model
        self.tokenizer = tokenizer

    @classmethod
    def open(cls: "type[G]", run: RunDirectory, config: Any) -> "G":
        """Open the run in a folder, its model with initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(config, cls.build(config, tokenizer.size), tokenizer)

    @staticmethod
    @abstractmethod
    def build(config: Any, vocabulary: int) -> nn.Module:
        """Return the model of a run file with initial weights."""

    @abstractmethod
    def prepare(self, example: E, name: str) -> S:
        """Return the source of an example, called `name` in messages.

        Raises:
            InputError: The example cannot be read.
        """

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
    def draw_weights(
        self,
        source: S,
        patches: Patches | None,
        tokens: tuple[str, ...],
        weights: np.ndarray,
        gates: tuple[float, ...] | None,
    ) -> Any:
        """Return the weights `(token, key)` of an output without END, with a `figure`."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return () if self.model.decoder.source_attention is None else ("weights",)

    def description(self) -> dict[str, Any]:
        model = self.config.model.name
        end = self.tokenizer.special.end
        form = {"kind": self.source_name, "model": model, "end": end}
        return super().description() | form

    def record(self, example: E) -> dict[str, Any]:
        is_file = isinstance(example, str | Path)
        return {self.source_name: str(example)} if is_file else {}

    def prepare_all(self, examples: Sequence[E]) -> list[S]:
        """Return the sources of examples, numbered from 1 in messages."""
        numbers = range(1, len(examples) + 1)
        return [
            self.prepare(example, f"{self.source_name} {number}")
            for example, number in zip(examples, numbers, strict=True)
        ]

    def encode_with_limits(
        self, sources: Sequence[S], search: "Search"
    ) -> tuple[Memory, Tensor]:
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
        """Return the constraints of options: the number of hypotheses."""
        return DecodingConstraints(options.count_hypotheses(search))

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
        if gate is not None:
            observed.append(gate)
        memory, _ = self.encode([source])
        rows = [[decoder.special.start, *ids]]
        inputs = torch.tensor(rows, device=self.device)
        with record_breakdown(decoder, observed) as maps:
            decode_target(decoder, memory, inputs, 1.0)
        layers = maps.exclude(gate).stack_layers()
        weights = layers[0].double().cpu().numpy()
        gates = None
        if gate is not None:
            values = maps[gate][0, : len(ids), 0]
            gates = tuple(values.tolist())
        return weights, gates, maps.breakdown(weights)

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
        pieces = tuple(label_ids(self.tokenizer, rows))
        labels = self.label_source(source)
        count = len(rows)
        notes = tuple(f"gate {gate:.2f}" for gate in gates or ())
        lookups = Lookups(
            maps[:, :, :count],
            tuple(labels.labels),
            pieces,
            notes=notes and (*notes, *[""] * (count - len(notes))),
            patches=labels.patches,
            breakdown=breakdown and breakdown.select_rows(slice(count)),
        )
        words = pieces[: len(ids)]
        mean = maps.mean((0, 1))[: len(ids)]
        weights = self.draw_weights(source, labels.patches, words, mean, gates)
        return Attribution(
            output,
            output.text,
            (lookups,),
            weights,
            options,
            draw=weights.figure,
            detail=self.detail,
        )
