"""A trained sequence-to-sequence model: `load(folder).predict(texts)`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.attribution.aggregation import supported_kinds
from regard.attribution.cross_attention import (
    attribute_by_weights,
    attribute_cross_attention,
    record_source_attention,
)
from regard.attribution.kinds import Kind
from regard.attribution.self_attention import attribute_self_attention
from regard.data.pairs import Pair, Squad, Table, read_pair_files, tests_of
from regard.data.records import Records
from regard.data.texts import Dialogue, context
from regard.data.tokens import Tokenizers, replace_absent_copies, report_cut
from regard.decoding.constraints import encode_constraints, encode_prefix, lacks
from regard.decoding.engine import Engine, can_convert
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.decoding.streaming import StreamEvent, StreamSource, check_prefixes
from regard.decoding.texts import (
    check_lengths,
    encode_pairs,
    limit_of,
    log_probabilities,
    search_ids,
    source_ids,
    stream_ids,
)
from regard.errors import InputError
from regard.maps.alignment import Alignment, join_words
from regard.maps.lookups import Lookups, with_maps
from regard.maps.reductions import average_maps
from regard.models.catalog import build
from regard.models.ensemble import Ensemble
from regard.nn.encoder_decoder import EncoderDecoder
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    StreamOptions,
)
from regard.tasks.prediction import GeneratedText, TextPrediction, drop_repeats
from regard.tasks.run import Run, text_warnings
from regard.tasks.seq2seq.config import Seq2Seq
from regard.tasks.seq2seq.metrics import Scoring, log_tokenization, score_pairs
from regard.tasks.tokenizers import SOURCE, TARGET
from regard.text import Tokenizer
from regard.text.words import word_indices

WordMaps = Float[np.ndarray, "map _target _source"]


def load_tokenizers(run: RunDirectory, config: Seq2Seq) -> Tokenizers:
    """Load the run's tokenizers. Raises InputError for a damaged file."""
    source = Tokenizer.load(run.file(SOURCE))
    target = source if config.tokenizers.shared else Tokenizer.load(run.file(TARGET))
    return Tokenizers(source, target, copying=config.copying)


class Seq2SeqRun(Run[str, GeneratedText]):
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
    data_hint = "give files of pairs"

    def __init__(self, config: Seq2Seq, model: EncoderDecoder, tokenizers: Tokenizers):
        self.config, self.model, self.tokenizers = config, model, tokenizers
        self.engine: Engine | None = None

    @classmethod
    def open(cls, run: RunDirectory, config: Seq2Seq) -> "Seq2SeqRun":
        """Open the run in a folder, its model with initial weights."""
        tokenizers = load_tokenizers(run, config)
        model = build(config.model, *tokenizers.sizes, tokenizers.special)
        return cls(config, model, tokenizers)

    def use_engine(self, folder: RunDirectory, *, int8: bool = False) -> None:
        if can_convert(self.model, self.tokenizers):
            self.engine = Engine(
                self.model, self.tokenizers, folder.path, folder.digest, int8=int8
            )
        else:
            super().use_engine(folder, int8=int8)

    def warnings(self, text: str) -> list[str]:
        if self.tokenizers.copying and text.strip():
            return []
        return text_warnings(self.tokenizers.source, {"text": text})

    def cut(self, text: str) -> str:
        limit = limit_of(self.model.max_source)
        if limit is None or len(self.tokenizers.source_ids(text)) < limit.tokens:
            return ""
        return limit.report(1, 1)

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"source": example}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Pair]:
        data = self.config.data
        if isinstance(data, Table | Squad) and len(files) == 1:
            data = data.with_columns(options.columns, skip_bad=options.skip_bad)
            return list(data.read(str(files[0])))
        columns = options.columns or "source,target"
        return read_pair_files(files, columns, skip_bad=options.skip_bad)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return supported_kinds(self.model)

    def description(self) -> dict[str, Any]:
        return super().description() | {
            "kind": "text",
            "model": self.config.model.name,
            "beam": self.config.search.beam,
            "end": self.tokenizers.target.special.end,
        }

    def check_size(self, example: str, options: AttributionOptions, most: int) -> None:
        source, target = len(self.tokenizers.source_ids(example)) + 1, most
        if options.target_tokens is not None:
            target = len(options.target_tokens)
        elif options.target is not None:
            target = len(self.tokenizers.target_ids(options.target, example)) + 1
        if source * target > most * most:
            raise InputError(
                f"the text has {source} tokens and its output up to {target}; a page shows "
                f"{most} x {most} cells"
            )

    def ensemble(self, others: Sequence[Run[Any, Any]]) -> "Seq2SeqRun":
        """Return a run that predicts by the mean of all probabilities.

        Raises:
            InputError: A run is of another task or has other tokenizers, or not all can
                read words that only a source has.
        """
        sides, models = self.tokenizers, [self.model]
        digests = sides.source.digest, sides.target.digest
        if self.engine is not None and self.engine.int8:
            raise InputError("an ensemble has no 8-bit form. Remove --int8.")
        for number, run in enumerate(others, 1):
            if not isinstance(run, Seq2SeqRun):
                raise InputError(
                    f"run {number} to add is of the task {run.config.task}; expected "
                    f"{self.config.task}"
                )
            added = run.tokenizers
            if digests != (added.source.digest, added.target.digest):
                raise InputError(
                    f"run {number} to add has other tokenizers; train it with the same "
                    "data and settings"
                )
            models.append(run.model)
        try:
            return Seq2SeqRun(self.config, Ensemble(models).eval(), sides)
        except ValueError as error:
            raise InputError(f"the runs make no ensemble: {error}") from None

    def conversation(self, options: PredictOptions) -> "DialogueSession":
        """Begin a conversation. Raises InputError for a run without dialogue."""
        return DialogueSession(self, options)

    def search(self, beam: int | None = None) -> Search:
        """Return the run's search, or one with this beam and without sampling."""
        return self.config.search.with_beam(beam)

    def _predict(
        self, texts: Sequence[str], options: PredictOptions
    ) -> list[GeneratedText]:
        search, sides = options.search(self.config.search), self.tokenizers
        constraints = encode_constraints(
            sides,
            texts,
            options.count_hypotheses(search),
            options.prefix,
            options.phrases,
            options.banned,
        )
        ids = self._encode(texts)
        (results,) = search_ids([self.model], ids, search, constraints, self.engine)
        if not options.mbr:
            results = [
                drop_repeats(
                    hypotheses,
                    lambda output, text=text: sides.text(output.tokens, text),
                    options.n_best,
                )
                for text, hypotheses in zip(texts, results, strict=True)
            ]
        attention = options.attention is not False
        predictions = self.predictions(texts, results, attention=attention)
        complete = []
        for text, hypotheses, prediction in zip(
            texts, results, predictions, strict=True
        ):
            missing = lacks(sides, text, hypotheses, options.phrases)
            prediction = prediction.with_missing(missing)
            complete.append(
                prediction.choose_least_risk() if options.mbr else prediction
            )
        return complete

    def _stream(
        self,
        texts: Sequence[str],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """Yield tokens with weights on the pieces of their source, END last."""
        sides, search = self.tokenizers, options.search(self.config.search)
        ids, _ = source_ids(
            self.model.max_source, sides, texts, truncate=self.config.truncate
        )
        prefixes, sources = [], []
        for text, source in zip(texts, ids, strict=True):
            prefix = options.encode_prefix(partial(encode_prefix, sides, text))
            size = sides.target.size + len(sides.own_words(text))
            check_prefixes([prefix], size, sides.target.special)
            labels = sides.source_labels(sides.ended_source(source), text)
            prefixes.append(prefix)
            sources.append(StreamSource(labels, forced=len(prefix)))
        constraints = encode_constraints(sides, texts, 1, "", (), options.banned)
        steps = stream_ids(
            self.model,
            ids,
            search,
            constraints.with_prefixes(tuple(prefixes)),
            candidates=options.candidates,
            active=active,
        )
        for step in steps:
            source = texts[step.row]
            text = sides.text(step.tokens, source)
            pieces = partial(sides.target_pieces, source=source)
            yield StreamEvent.of(step, sources[step.row], text, pieces)

    def predictions(
        self,
        texts: Sequence[str],
        results: Sequence[Sequence[Hypothesis]],
        *,
        attention: bool = True,
    ) -> list[GeneratedText]:
        """Return the predictions of hypotheses for each text, best first."""
        pairs = [
            (text, hypothesis)
            for text, hypotheses in zip(texts, results, strict=True)
            for hypothesis in hypotheses
        ]
        alignments: Sequence[Alignment | None] = [None] * len(pairs)
        if attention and self.model.decoder.source_attention is not None:
            alignments = self._align(pairs)
        outputs = iter(
            [
                self._make_text(*pair, alignment)
                for pair, alignment in zip(pairs, alignments, strict=True)
            ]
        )
        predictions = []
        for hypotheses in results:
            best, *alternatives = [next(outputs) for _ in hypotheses]
            predictions.append(replace(best, alternatives=tuple(alternatives)))
        return predictions

    def _make_text(
        self, source: str, hypothesis: Hypothesis, alignment: Alignment | None
    ) -> GeneratedText:
        tokens = self._end(hypothesis)
        return GeneratedText(
            self.tokenizers.text(hypothesis.tokens, source),
            hypothesis.score,
            hypothesis.finished,
            tuple(self.tokenizers.target_pieces(tokens, source)),
            alignment,
        )

    def _end(self, hypothesis: Hypothesis) -> list[int]:
        """Return the tokens of an output, END included if it is finished."""
        tokens = list(hypothesis.tokens)
        return self.tokenizers.ended_target(tokens) if hypothesis.finished else tokens

    def _align(self, outputs: Sequence[tuple[str, Hypothesis]]) -> list[Alignment]:
        """Return the attention of each output to its text."""
        sides, longest = self.tokenizers, self.model.max_source
        texts = [text for text, _ in outputs]
        sources, _ = source_ids(longest, sides, texts, truncate=True)
        targets = [self._end(hypothesis) for _, hypothesis in outputs]
        pairs = list(zip(sources, targets, strict=True))
        alignments = []
        for weights, (source, target), text in zip(
            attribute_by_weights(self.model, pairs), pairs, texts, strict=True
        ):
            labels = sides.sides(sides.ended_source(source), target, text)
            pieces = [side.pieces for side in labels]
            alignments.append(Alignment(weights, *pieces))
        return alignments

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute the predicted or forced output to the text.

        With another role it is the self-attention of the encoder or the decoder.
        """
        cross, kinds = options.role in (None, "cross"), options.list_kinds()
        attends = self.model.decoder.source_attention is not None
        if cross and not attends and kinds != ("gradient",):
            raise InputError(
                "the run's model does not attend to its source, so there is nothing to draw"
            )
        (source,) = self._encode([example])
        prediction, target = self._write_output(example, source, options)
        results = [
            self._attribute_kind(example, source, target, kind, options)
            for kind in kinds
        ]
        lookups = with_maps(*(lookups for lookups, _ in results))
        return Attribution(
            prediction, example, (lookups,), results[0][1], options, has_heads=True
        )

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode sources, and log how many were cut.

        Raises:
            InputError: One is longer than the model takes, without `truncate`.
        """
        longest, truncate = self.model.max_source, self.config.truncate
        ids, cut = source_ids(longest, self.tokenizers, texts, truncate=truncate)
        if limit := limit_of(longest):
            report_cut(limit, cut, len(texts))
        return ids

    def _write_output(
        self, text: str, source: list[int], options: AttributionOptions
    ) -> tuple[GeneratedText | TextPrediction, list[int]]:
        """Return the forced or predicted output and its tokens."""
        sides = self.tokenizers
        if options.target_tokens is not None:
            tokens = list(options.target_tokens)
            return TextPrediction(sides.text(tokens, text)), tokens
        if options.target is not None:
            target = sides.target_ids(options.target, text)
            check_lengths(
                self.model.max_target, [target], ["the target"], side="target"
            )
            target = replace_absent_copies(target, source, sides.target)
            target = sides.ended_target(target) if options.finished else target
            return TextPrediction(options.target), target
        (((best, *_),),) = search_ids([self.model], [source], self.search(options.beam))
        return self._make_text(text, best, None), self._end(best)

    def _attribute_kind(
        self,
        text: str,
        source: list[int],
        target: list[int],
        kind: Kind,
        options: AttributionOptions,
    ) -> tuple[Lookups, Alignment]:
        """Return every layer and head of one kind, and the one map of those chosen."""
        sides, forced = self.tokenizers, options.target
        ended = sides.ended_source(source)
        if options.role in (None, "cross"):
            labels = sides.sides(ended, target, text, forced)
            pair = source, target
            return attribute_cross_attention(
                self.model, pair, labels, kind, options.maps
            )
        # the step after the last token exists only where the end was its result
        inputs = target[:-1]
        rows = [sides.target.special.start, *inputs]
        labels = sides.sides(ended, rows, text, forced)
        return attribute_self_attention(
            self.model, options.role, (source, inputs), labels, options.maps, kind
        )

    def score(self, pairs: Sequence[Pair]) -> list[list[float]]:
        """Return the log-probability of each token of each target, the end last.

        Raises:
            InputError: A text is longer than the model takes.
        """
        examples = encode_pairs(self.model, self.tokenizers, pairs)
        return log_probabilities(self.model, examples)

    def word_maps(self, pairs: Sequence[Pair]) -> list[WordMaps]:
        """Return the attention of targets to sources, between words, without END.

        Targets are forced. There is one map a layer and head, in that order.

        Raises:
            InputError: The model does not attend to its source, or a text is too long.
        """
        if self.model.decoder.source_attention is None:
            raise InputError(
                "the run's model does not attend to its source, so it aligns nothing"
            )
        source, target = self.tokenizers.source, self.tokenizers.target
        examples = encode_pairs(self.model, self.tokenizers, pairs)
        maps = []
        for pair, weights in zip(
            pairs, record_source_attention(self.model, examples), strict=True
        ):
            columns = word_indices(pair.source, source.offsets(pair.source))
            rows = word_indices(pair.target, target.offsets(pair.target))
            maps.append(join_words(weights.numpy()[:, :-1, :-1], columns, rows))
        return maps

    def align(
        self, pairs: Sequence[Pair], maps: Sequence[int] | None = None
    ) -> list[Alignment]:
        """Return the mean of all word maps of each pair, or of some by number.

        Raises:
            InputError: As `word_maps`, or the model has no such map.
        """
        return [
            Alignment(
                average_maps(weights, maps),
                tuple(pair.source.split()),
                tuple(pair.target.split()),
            )
            for pair, weights in zip(pairs, self.word_maps(pairs), strict=True)
        ]

    def _load_test_set(self, data: Any) -> Sequence[Pair]:
        return tests_of(data)

    def compute_metrics(
        self, examples: Sequence[Pair], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the run's metrics on pairs, and on each of their groups."""
        config = self.config
        search = self.search(options.beam)
        scoring = Scoring(config.metrics, search, config.truncate, self.engine)
        if config.truncate:
            self._encode(
                [pair.source for pair in examples]
            )  # counts those that are cut
        log_tokenization(examples, config.metrics)
        return score_pairs(self.model, self.tokenizers, examples, scoring)


class DialogueSession:
    """The turns of a conversation so far, and the run that replies to them."""

    def __init__(self, run: Seq2SeqRun, options: PredictOptions):
        data = run.config.data
        if not isinstance(data, Dialogue):
            raise InputError(
                f"the run was trained on data of kind {data.kind}; a chat needs one trained "
                "on dialogue"
            )
        run.check_supported("predict", options)
        self.run, self.options, self.data = run, options, data
        self.turns: list[str] = []

    def reply(self, text: str, place: str = "text 1") -> GeneratedText:
        """Reply to a turn and those before it; both become turns.

        Raises:
            InputError: The turn is longer than the model takes; it names the `place`.
        """
        self.turns.append(text)
        (prediction,) = self.run.predict([self.source(place)], self.options)
        if reply := " ".join(prediction.text.split()):
            self.turns.append(reply)
        return prediction

    def source(self, place: str) -> str:
        """Return the last turns, as many as the model was trained on and reads."""
        count, longest = self.data.turns, self.data.longest
        limit, encode = self.run.model.max_source, self.run.tokenizers.source_ids
        source = context(self.turns, count, longest)
        while limit is not None and count > 1 and len(encode(source)) >= limit:
            count -= 1
            source = context(self.turns, count, longest)
        truncate = self.run.config.truncate
        check_lengths(limit, [encode(source)], [place], truncate=truncate)
        return source
