"""A trained sequence-to-sequence model: `load(folder).predict(texts)`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard.attribution.available import kinds_of
from regard.attribution.cross_attention import attribute_cross_attention, by_weights
from regard.attribution.kinds import Kind
from regard.attribution.roles import attribute_self_attention
from regard.data.memory import Records
from regard.data.pair import Pair
from regard.data.readers import read_pair_files
from regard.data.sources import Squad, Table, tests_of
from regard.data.tokenizer_pair import Tokenizers, readable
from regard.data.truncation import report_cut
from regard.decoding.constraints import encode_constraints, encode_prefix, lacks
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.scoring import encoded, log_probabilities
from regard.decoding.search import Search
from regard.decoding.streaming import StreamEvent, StreamSource, check_prefixes
from regard.decoding.texts import limit_of, limited, search_ids, source_ids, stream_ids
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.averages import average_of
from regard.maps.lookups import Lookups, beside
from regard.models.catalog import build
from regard.models.ensemble import Ensemble
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.evaluation import for_evaluation
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    StreamOptions,
)
from regard.tasks.prediction import TextPrediction, distinct
from regard.tasks.run import Run, text_warnings
from regard.tasks.seq2seq.config import Seq2Seq
from regard.tasks.seq2seq.conversation import Conversation
from regard.tasks.seq2seq.metrics import Scoring, figures
from regard.tasks.seq2seq.prediction import Prediction
from regard.tasks.seq2seq.word_maps import WordMaps, word_maps_of
from regard.tasks.tokenizer_file import SOURCE, TARGET
from regard.text import Tokenizer


def load_tokenizers(run: RunDirectory, config: Seq2Seq) -> Tokenizers:
    """The run's tokenizers. Raises InputError for a file that is damaged or not a tokenizer."""
    source = Tokenizer.load(run.file(SOURCE))
    target = source if config.tokenizers.shared else Tokenizer.load(run.file(TARGET))
    return Tokenizers(source, target, copying=config.copying)


class Seq2SeqRun(Run[str, Prediction]):
    """A trained model with its tokenizers and its run file. Examples are texts."""

    config: Seq2Seq
    model: EncoderDecoder
    supports = {
        "predict": frozenset(
            {"beam", "n_best", *SEARCHING, "prefix", "phrases", "mbr", "attention"}
        ),
        "stream": frozenset({*SEARCHING, "prefix", "prefix_tokens", "candidates"}),
        "evaluate": frozenset({"files", "beam", "columns", "skip_bad"}),
        "attribute": frozenset(
            {"beam", "role", "kinds", "maps", "target", "finished", "target_tokens"}
        ),
    }

    def __init__(self, config: Seq2Seq, model: EncoderDecoder, tokenizers: Tokenizers):
        self.config, self.model, self.tokenizers = config, model, tokenizers

    @classmethod
    def open(cls, run: RunDirectory, config: Seq2Seq) -> "Seq2SeqRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizers = load_tokenizers(run, config)
        return cls(
            config,
            build(config.model, *tokenizers.sizes, tokenizers.special),
            tokenizers,
        )

    def warnings(self, text: str) -> list[str]:
        return (
            []
            if self.tokenizers.copying and text.strip()
            else text_warnings(self.tokenizers.source, {"text": text})
        )

    def cut(self, text: str) -> str:
        limit = limit_of(self.model.max_source)
        whole = limit is None or len(self.tokenizers.source_ids(text)) < limit.tokens
        return "" if limit is None or whole else limit.report(1, 1)

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"source": example}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Pair]:
        data = self.config.data
        if isinstance(data, Table | Squad) and len(files) == 1:
            return data.with_columns(
                options.columns, skip_bad=options.skip_bad
            ).read_pairs(str(files[0]))
        return read_pair_files(
            files, options.columns or "source,target", skip_bad=options.skip_bad
        )

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return kinds_of(self.model)

    def description(self) -> dict[str, Any]:
        model, beam, end = (
            self.config.model.name,
            self.config.search.beam,
            self.tokenizers.target.special.end,
        )
        return super().description() | {
            "kind": "text",
            "model": model,
            "beam": beam,
            "end": end,
        }

    def check_size(self, example: str, options: AttributionOptions, most: int) -> None:
        """As `Run.check_size`: at most `most` x `most` cells of source and forced target, or a source of `most`."""
        source, target = len(self.tokenizers.source_ids(example)) + 1, most
        if options.target_tokens is not None:
            target = len(options.target_tokens)
        elif options.target is not None:
            target = len(self.tokenizers.target_ids(options.target, example)) + 1
        if source * target > most * most:
            raise InputError(
                f"the text has {source} tokens and its output up to {target}; a page shows {most} x {most} cells"
            )

    def ensemble(self, others: Sequence[Run[Any, Any]]) -> "Seq2SeqRun":
        """A run that predicts each token by the mean of its own and the others' probabilities, with its own settings.

        Raises InputError for runs of other tasks or tokenizers, and if not all can read words that only a source has.
        """
        mine, models = self.tokenizers, [self.model]
        for number, other in enumerate(others, 1):
            if not isinstance(other, Seq2SeqRun):
                raise InputError(
                    f"run {number} to add is of the task {other.config.task}; expected {self.config.task}"
                )
            theirs = other.tokenizers
            if (mine.source.digest, mine.target.digest) != (
                theirs.source.digest,
                theirs.target.digest,
            ):
                raise InputError(
                    f"run {number} to add has other tokenizers; train it with the same data and settings"
                )
            models.append(other.model)
        try:
            return Seq2SeqRun(self.config, Ensemble(models).eval(), mine)
        except ValueError as error:
            raise InputError(f"the runs make no ensemble: {error}") from None

    def conversation(self, options: PredictOptions) -> Conversation:
        """A new conversation. Raises InputError for a run that was trained on other data than dialogue."""
        return Conversation(self, self.tokenizers, options)

    def search(self, beam: int | None = None) -> Search:
        """The run's own search, or one with this beam and without sampling."""
        return self.config.search.searching(beam)

    def _predict(
        self, texts: Sequence[str], options: PredictOptions
    ) -> list[Prediction]:
        """The output for each text, with its alternatives, and its attention unless it is off."""
        search, sides = options.search(self.config.search), self.tokenizers
        required = options.prefix, options.phrases, options.banned
        constraints = encode_constraints(
            sides, texts, options.hypotheses(search), *required
        )
        with guarded(self.model):
            (found,) = search_ids(
                [self.model], self._sources(texts), search, constraints
            )
        if not options.mbr:
            pairs = zip(texts, found, strict=True)
            found = [
                distinct(
                    each, lambda one, t=t: sides.text(one.tokens, t), options.n_best
                )
                for t, each in pairs
            ]
        predictions = self.predictions(
            texts, found, attention=options.attention is not False
        )
        lacking = [
            lacks(sides, text, each, options.phrases)
            for text, each in zip(texts, found, strict=True)
        ]
        complete = [
            one.without(each) for one, each in zip(predictions, lacking, strict=True)
        ]
        return [each.least_risk() for each in complete] if options.mbr else complete

    def _stream(
        self,
        texts: Sequence[str],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """Stream outputs. A token's weights are on the pieces of its source, END last.

        Raises:
            InputError: a text is refused as too long, or a prefix has a token that no output has.
            ValueError: a prefix is longer than its output may be.
        """
        sides, search = self.tokenizers, options.search(self.config.search)
        prefixes = tuple(
            options.forced(partial(encode_prefix, sides, text)) for text in texts
        )
        for text, prefix in zip(texts, prefixes, strict=True):
            check_prefixes(
                [prefix],
                sides.target.size + len(sides.own_words(text)),
                sides.target.special,
            )
        constraints = encode_constraints(
            sides, texts, 1, "", (), options.banned
        ).behind(prefixes)
        ids, _ = source_ids(
            self.model.max_source, sides, texts, truncate=self.config.truncate
        )
        sources = [
            StreamSource(
                sides.source_labels(sides.ended_source(each), text), forced=len(prefix)
            )
            for each, text, prefix in zip(ids, texts, prefixes, strict=True)
        ]
        with guarded(self.model):
            for step in stream_ids(
                self.model,
                ids,
                search,
                constraints,
                candidates=options.candidates,
                active=active,
            ):
                text, pieces = (
                    texts[step.row],
                    partial(sides.target_pieces, source=texts[step.row]),
                )
                yield StreamEvent.of(
                    step, sources[step.row], sides.text(step.tokens, text), pieces
                )

    def predictions(
        self,
        texts: Sequence[str],
        found: Sequence[Sequence[Hypothesis]],
        *,
        attention: bool = True,
    ) -> list[Prediction]:
        """The predictions of the hypotheses for each text, best first, with their attention if requested."""
        flat = [
            (text, each)
            for text, hypotheses in zip(texts, found, strict=True)
            for each in hypotheses
        ]
        attends = attention and self.model.decoder.source_attention is not None
        alignments = self._attended(flat) if attends else [None] * len(flat)
        predictions = iter(
            [
                self._prediction(*each, alignment)
                for each, alignment in zip(flat, alignments, strict=True)
            ]
        )
        return [
            replace(
                next(predictions), alternatives=tuple(next(predictions) for _ in rest)
            )
            for _, *rest in found
        ]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """The attention of the predicted or forced output to the text; with another role the self-attention of the
        encoder or the decoder.

        Raises:
            InputError: as `predict` and `attribute_self_attention`; the model does not attend to its source and the
                kind is not gradient; or the model has no such map, or no rollout.
            ValueError: beam and vocabulary do not fit together.
        """
        cross, kinds = options.role in (None, "cross"), options.each_kind()
        if (
            cross
            and self.model.decoder.source_attention is None
            and kinds != ("gradient",)
        ):
            raise InputError(
                "the run's model does not attend to its source, so there is nothing to draw"
            )
        with guarded(self.model):
            (source,) = self._sources([example])
            prediction, written = self._written(example, source, options)
            found = [
                self._kind(example, source, written, kind, options) for kind in kinds
            ]
        lookups = beside(*(each for each, _ in found))
        return Attribution(
            prediction, example, (lookups,), found[0][1], options, has_heads=True
        )

    def _sources(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of sources. One beyond the model's maximum is cut, and the log has their number, or it is refused."""
        ids, cut = source_ids(
            self.model.max_source, self.tokenizers, texts, truncate=self.config.truncate
        )
        if limit := limit_of(self.model.max_source):
            report_cut(limit, cut, len(texts))
        return ids

    def _written(
        self, text: str, source: list[int], options: AttributionOptions
    ) -> tuple[Prediction | TextPrediction, list[int]]:
        """The forced or predicted output and its tokens, END included if it is finished."""
        if options.target_tokens is not None:
            tokens = list(options.target_tokens)  # a text drops its end
            return TextPrediction(self.tokenizers.text(tokens, text)), tokens
        if options.target is not None:
            target = self.tokenizers.target_ids(options.target, text)
            limited(self.model.max_target, [target], ["the target"], side="target")
            target = readable(target, source, self.tokenizers.target)
            return TextPrediction(options.target), self.tokenizers.ended_target(
                target
            ) if options.finished else target
        (((best, *_),),) = search_ids([self.model], [source], self.search(options.beam))
        return self._prediction(text, best, None), self._ids(text, best)[1]

    def _kind(
        self,
        text: str,
        source: list[int],
        written: list[int],
        kind: Kind,
        options: AttributionOptions,
    ) -> tuple[Lookups, Alignment]:
        """One kind of attribution of output tokens: every layer and head, and the one map of those chosen."""
        if options.role in (None, "cross"):
            sides = self.tokenizers.sides(
                self.tokenizers.ended_source(source), written, text, options.target
            )
            return attribute_cross_attention(
                self.model, (source, written), sides, kind, options.maps
            )
        inputs = written[
            :-1
        ]  # the step after the last token exists only where the end was its result
        begun = [self.tokenizers.target.special.start, *inputs]
        sides = self.tokenizers.sides(
            self.tokenizers.ended_source(source), begun, text, options.target
        )
        return attribute_self_attention(
            self.model, options.role, (source, inputs), sides, options.maps, kind
        )

    def score(self, pairs: Sequence[Pair]) -> list[list[float]]:
        """The log-probability of each token of each target, the end last, given its source.

        Raises:
            InputError: a text is longer than the model can take.
        """
        return log_probabilities(
            self.model, encoded(self.model, self.tokenizers, pairs)
        )

    def word_maps(self, pairs: Sequence[Pair]) -> list[WordMaps]:
        """The word maps of each pair (`word_maps_of`). Raises InputError as it does."""
        return word_maps_of(self.model, self.tokenizers, pairs)

    def align(
        self, pairs: Sequence[Pair], maps: Sequence[int] | None = None
    ) -> list[Alignment]:
        """The mean of all word maps of each pair, or of the maps with these numbers.

        Raises:
            InputError: as `word_maps`, and where the model has no such map.
        """
        return [
            Alignment(
                average_of(weights, maps),
                tuple(pair.source.split()),
                tuple(pair.target.split()),
            )
            for pair, weights in zip(pairs, self.word_maps(pairs), strict=True)
        ]

    def _evaluate(
        self, pairs: Sequence[Pair] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        data = self.config.data
        pairs = for_evaluation(
            pairs, data, "give files of pairs", tests=lambda: tests_of(data)
        )
        scoring = Scoring(
            self.config.metrics, self.search(options.beam), self.config.truncate
        )
        if self.config.truncate:
            self._sources(
                [pair.source for pair in pairs]
            )  # those that are cut are counted
        with guarded(self.model):
            return figures(self.model, self.tokenizers, pairs, scoring)

    def _prediction(
        self, source: str, hypothesis: Hypothesis, alignment: Alignment | None
    ) -> Prediction:
        text = self.tokenizers.text(hypothesis.tokens, source)
        return Prediction(
            text,
            hypothesis.score,
            hypothesis.finished,
            self._labels(source, hypothesis),
            alignment,
        )

    def _labels(self, source: str, hypothesis: Hypothesis) -> tuple[str, ...]:
        tokens = (
            self.tokenizers.ended_target(hypothesis.tokens)
            if hypothesis.finished
            else hypothesis.tokens
        )
        return tuple(self.tokenizers.target_pieces(tokens, source))

    def _ids(self, text: str, output: Hypothesis) -> tuple[list[int], list[int]]:
        """The ids of a source, as far as the model reads it, and of its output, END included if it is finished."""
        tokens = list(output.tokens)
        (source,), _ = source_ids(
            self.model.max_source, self.tokenizers, [text], truncate=True
        )
        return source, self.tokenizers.ended_target(
            tokens
        ) if output.finished else tokens

    def _attended(self, outputs: Sequence[tuple[str, Hypothesis]]) -> list[Alignment]:
        """The attention of each output to its text."""
        written = [self._ids(*each) for each in outputs]
        found, sides = by_weights(self.model, written), self.tokenizers
        return [
            Alignment(
                weights,
                *(
                    each.pieces
                    for each in sides.sides(sides.ended_source(source), target, text)
                ),
            )
            for weights, (source, target), (text, _) in zip(
                found, written, outputs, strict=True
            )
        ]
