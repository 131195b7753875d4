"""The run file of sequence-to-sequence, and a trained run: `load(folder).predict(texts)`."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from regard.attribution.attention import (
    attribute_by_weights,
    attribute_cross_attention,
    attribute_self_attention,
    full_names,
    record_source_attention,
    score_output,
    source_attention_names,
    source_kinds,
)
from regard.attribution.kinds import GRADIENTS, Kind
from regard.data.generated.pairs import (
    Bitext,
    Conversations,
    Dates,
    GeneratedQuestions,
    Letters,
    Templates,
)
from regard.data.pairs import (
    Pair,
    Parallel,
    Squad,
    Table,
    make_pairs,
    read_pair_files,
)
from regard.data.records import Records
from regard.data.texts import Dialogue, context
from regard.data.tokens import Tokenizers, replace_absent_copies, report_cut
from regard.decoding.engine import Engine, can_convert
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import (
    DecodingConstraints,
    Search,
    encode_constraints,
    encode_prefix,
)
from regard.decoding.streaming import StreamEvent, StreamSource, check_prefixes
from regard.decoding.texts import (
    best_texts,
    check_lengths,
    encode_pairs,
    limit_of,
    log_probabilities,
    search_ids,
    search_texts,
    source_ids,
    stream_ids,
)
from regard.errors import InputError
from regard.maps.alignment import Alignment, join_words
from regard.maps.lookups import Lookups, with_maps
from regard.maps.reductions import average_maps
from regard.metrics import (
    METRICS,
    Metrics,
    TextMetricName,
    bleu_tokenization,
    perplexity,
)
from regard.models.catalog import MODELS, ModelConfig
from regard.models.span_reader import SpanEncoder
from regard.nn.decoders import EncoderDecoder
from regard.storage.run_folder import CONFIG, WEIGHTS, RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import SOURCE, TARGET
from regard.tasks.fine_tuning import WordVectors
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
from regard.tasks.run import Run, ScoredOutput, text_warnings
from regard.text import Tokenizer, TokenizerSettings
from regard.training.objectives import AttentionLosses
from regard.training.settings import Training

PERPLEXITY = "perplexity"
MetricName = TextMetricName | Literal["perplexity"]
"""The perplexity is of the targets' tokens and needs no search; lower is better."""


@dataclass(frozen=True)
class TokenizerPair:
    """One tokenizer a side, or with `shared` one for both."""

    source: TokenizerSettings
    target: TokenizerSettings | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        if self.shared and self.target is not None:
            raise ValueError(
                "shared tokenizers have one description, `source`; remove `target` or `shared`"
            )
        if not self.shared and self.target is None:
            raise ValueError("`target` is missing; describe it or set `shared: true`")

    @property
    def one_vocabulary(self) -> bool:
        """Whether both sides have the same entries.

        A published model has two segmentations of one vocabulary.
        """
        return self.shared or (
            self.target is not None
            and self.source.kind == self.target.kind == "pipeline"
        )


UNDECIDED = TokenizerPair(TokenizerSettings("pipeline"), shared=True)
"""The tokenizers of a pretrained model before training has read them."""


@dataclass(frozen=True, kw_only=True)
class Seq2Seq:
    """The run file of sequence-to-sequence."""

    task: Literal["seq2seq"] = "seq2seq"
    data: (
        Dates
        | GeneratedQuestions
        | Templates
        | Conversations
        | Bitext
        | Letters
        | Parallel
        | Table
        | Dialogue
        | Squad
    )
    model: ModelConfig
    metrics: tuple[MetricName, ...]
    """Metrics of validation and test; the first chooses the best weights."""
    tokenizers: TokenizerPair = UNDECIDED
    vectors: WordVectors | None = None
    """Word vectors that the table of the source's words starts from."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    truncate: bool = False
    """Cut texts that are longer than the model takes, instead of refusing them."""
    attention_losses: AttentionLosses = field(default_factory=AttentionLosses)
    """Losses of the attention weights, each with its weight; 0 leaves one out."""
    output_bias: Literal["zeros", "frequencies"] = "zeros"
    """The initial output bias: zeros, or the logarithm of each token's frequency."""

    @property
    def command(self) -> str:
        """The use of a run: one of dialogue replies to what was said before."""
        is_dialogue = isinstance(self.data, Dialogue | Conversations)
        return "regard chat {}" if is_dialogue else "regard predict {} TEXT"

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.tokenizers == UNDECIDED and self.model.name != "pretrained":
            raise ValueError("tokenizers is missing; describe source and target")
        if self.vectors is not None:
            self.vectors.check_start(self.training.start)
        if self.model.one_tokenizer and not self.tokenizers.shared:
            raise ValueError(
                f"model {self.model.name} needs one vocabulary; set tokenizers.shared: true"
            )
        if self.model.shared and not self.tokenizers.one_vocabulary:
            raise ValueError(
                "model.shared needs one vocabulary; set tokenizers.shared: true, or model.shared: false"
            )


log = logging.getLogger("regard")
WordMaps = Float[np.ndarray, "map _target _source"]


def load_tokenizers(run: RunDirectory, config: Seq2Seq) -> Tokenizers:
    """Load the run's tokenizers. Raises InputError for a damaged file."""
    source = Tokenizer.load(run.file(SOURCE))
    target = source if config.tokenizers.shared else Tokenizer.load(run.file(TARGET))
    return Tokenizers(source, target, copying=config.model.copying)


def build_model(config: ModelConfig, tokenizers: Tokenizers) -> EncoderDecoder:
    """Return the model of a configuration for two vocabularies, with fresh weights."""
    model = MODELS.build(config, *tokenizers.sizes)
    model.source_special, model.decoder.special = tokenizers.special
    if isinstance(model.encoder, SpanEncoder):
        source = tokenizers.source
        model.encoder.describe(source.pieces(range(source.size)))
    return model


class Seq2SeqRun(Run[str, GeneratedText]):
    """A trained model with its tokenizers and its run file. Examples are texts."""

    does = "Writes the output for a text, such as its translation."
    config: Seq2Seq
    model: EncoderDecoder
    supports = {
        "predict": ("beam", "n_best", *SEARCHING, "prefix", "attention"),
        "stream": (*SEARCHING, "prefix", "prefix_tokens", "candidates"),
        "evaluate": ("files", "beam", "columns", "skip_bad"),
        "attribute": (
            "beam",
            "role",
            "kinds",
            "maps",
            "cut",
            "target",
            "finished",
            "target_tokens",
        ),
    }
    data_hint = "give files of pairs"

    def __init__(self, config: Seq2Seq, model: EncoderDecoder, tokenizers: Tokenizers):
        self.config = config
        self.model = model
        self.tokenizers = tokenizers
        self.engine: Engine | None = None

    @classmethod
    def open(cls, run: RunDirectory, config: Seq2Seq) -> "Seq2SeqRun":
        """Open the run in a folder, its model with initial weights."""
        tokenizers = load_tokenizers(run, config)
        return cls(config, build_model(config.model, tokenizers), tokenizers)

    def use_engine(self, folder: RunDirectory, *, int8: bool = False) -> None:
        is_transformer = self.config.model.name == "transformer"
        if is_transformer and can_convert(self.model, self.tokenizers):
            target = SOURCE if self.config.tokenizers.shared else TARGET
            self.engine = Engine(
                self.model,
                self.tokenizers,
                folder.path,
                folder.digest,
                search=self.config.search,
                files=(SOURCE, target, CONFIG, WEIGHTS),
                int8=int8,
            )
        else:
            super().use_engine(folder, int8=int8)

    def warnings(self, text: str) -> list[str]:
        if self.tokenizers.copying and text.strip():
            return []
        return text_warnings(self.tokenizers.source, {"text": text})

    def pair_warnings(self, pair: Pair) -> list[str]:
        """Return why what the run finds in a pair may mean nothing.

        A side is empty, or mostly unknown. A run that copies words reads any.
        """
        sides = self.tokenizers
        if sides.copying:
            return []
        source = text_warnings(sides.source, {"source": pair.source})
        return source + text_warnings(sides.target, {"target": pair.target})

    def cut(self, text: str) -> str:
        limit = limit_of(self.model.max_source)
        tokens = self.tokenizers.source_ids(text)
        return limit.report(1, 1) if limit and len(tokens) >= limit.tokens else ""

    def record(self, example: str) -> Json:
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
        return source_kinds(self.model)

    @property
    def effect_modules(self) -> Sequence[str]:
        if "effect" not in self.kinds:
            return ()
        return full_names("decoder", source_attention_names(self.model))

    def input_of(self, example: Pair) -> str:
        return example.source

    def description(self) -> Json:
        return super().description() | {
            "kind": "text",
            "model": self.config.model.name,
            "beam": self.config.search.beam,
            "end": self.tokenizers.target.special.end,
        }

    def check_size(
        self, example: str, options: AttributionOptions, largest: int
    ) -> None:
        tokens = options.encode_target(
            lambda text: self.tokenizers.target_ids(text, example), 0
        )
        target = largest if tokens is None else len(tokens)
        source = len(self.tokenizers.source_ids(example)) + 1
        if source * target > largest * largest:
            raise InputError(
                f"the text has {source} tokens and its output up to {target}; a page shows "
                f"{largest} x {largest} cells"
            )

    def conversation(self, options: PredictOptions) -> "DialogueSession":
        """Begin a conversation. Raises InputError for a run without dialogue."""
        return DialogueSession(self, options)

    def _predict(
        self, texts: Sequence[str], options: PredictOptions
    ) -> list[GeneratedText]:
        search = options.search(self.config.search)
        sides = self.tokenizers
        constraints = encode_constraints(
            sides,
            texts,
            options.count_hypotheses(search),
            options.prefix,
        )
        ids = self.encode_sources(texts)
        (results,) = search_ids(
            [self.model],
            ids,
            search,
            constraints,
            self.engine,
        )
        attention = options.attention is not False
        outputs = self.write_texts(texts, results, attention=attention)
        return [rank_distinct(group, options.n_best) for group in outputs]

    def _stream(
        self,
        texts: Sequence[str],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """Yield tokens with weights on the pieces of their source, END last."""
        sides = self.tokenizers
        ids = self.encode_sources(texts)
        prefixes = []
        sources = []
        for text, source in zip(texts, ids, strict=True):
            prefix = options.encode_prefix(partial(encode_prefix, sides, text))
            size = sides.target.size + len(sides.own_words(text))
            check_prefixes([prefix], size, sides.target.special)
            labels, _ = sides.label_pieces(source, [], text)
            prefixes.append(prefix)
            sources.append(StreamSource([*labels], forced=len(prefix)))
        steps = stream_ids(
            self.model,
            ids,
            options.search(self.config.search),
            DecodingConstraints(1, tuple(prefixes)),
            candidates=options.candidates,
            active=active,
        )
        for step in steps:
            source = texts[step.row]
            pieces = partial(sides.target_pieces, source=source)
            text = sides.text(step.tokens, source)
            yield StreamEvent.of(step, sources[step.row], text, pieces)

    def write_texts(
        self,
        texts: Sequence[str],
        results: Sequence[Sequence[Hypothesis]],
        *,
        attention: bool = True,
    ) -> list[list[GeneratedText]]:
        """Return the outputs of hypotheses for each text, best first.

        Args:
            texts: The sources.
            results: Hypotheses for each source.
            attention: Whether outputs have their attention to the source.
        """
        model = self.model
        sources, _ = source_ids(model.max_source, self.tokenizers, texts, truncate=True)
        pairs = [
            (source, self._end(hypothesis))
            for source, group in zip(sources, results, strict=True)
            for hypothesis in group
        ]
        maps: Iterator[Any] = repeat(None)
        if attention and model.decoder.source_attention is not None:
            maps = iter(attribute_by_weights(model, pairs))
        return [
            [
                self._write_text(text, source, hypothesis, next(maps))
                for hypothesis in group
            ]
            for text, source, group in zip(texts, sources, results, strict=True)
        ]

    def _write_text(
        self,
        text: str,
        source: list[int],
        hypothesis: Hypothesis,
        weights: np.ndarray | None,
    ) -> GeneratedText:
        """Return the output of a hypothesis for a text, with its attention if any."""
        sides = self.tokenizers
        target = self._end(hypothesis)
        alignment = None
        if weights is not None:
            labels = sides.label_pieces(source, target, text)
            alignment = Alignment(weights, *labels)
        return GeneratedText(
            sides.text(hypothesis.tokens, text),
            hypothesis.score,
            hypothesis.finished,
            tuple(sides.target_pieces(target, text)),
            alignment,
        )

    def _end(self, hypothesis: Hypothesis) -> list[int]:
        """Return the tokens of an output, END included if it is finished."""
        tokens = list(hypothesis.tokens)
        end = [self.tokenizers.target.special.end] * hypothesis.finished
        return [*tokens, *end]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute the predicted or forced output to the text.

        With another role it is the self-attention of the encoder or the decoder.
        """
        is_cross = options.role in (None, "cross")
        kinds = options.list_kinds()
        attends = self.model.decoder.source_attention is not None
        if is_cross and not attends and not GRADIENTS.keys() >= {*kinds}:
            raise InputError(
                "the run's model does not attend to its source, so there is nothing to draw"
            )
        sides = self.tokenizers
        forced = options.target
        (source,) = self.encode_sources([example])
        prediction, target = self._write_output(example, source, options)
        # the step after the last token exists only where the end was its result
        inputs = target[:-1]
        rows = target if is_cross else [sides.target.special.start, *inputs]
        labels = sides.sides(source, rows, example, forced)

        def attribute(kind: Kind) -> tuple[Lookups, Alignment]:
            """Return every layer and head of one kind, and the one map of those chosen."""
            if options.role in (None, "cross"):
                return attribute_cross_attention(
                    self.model,
                    (source, target),
                    labels,
                    kind,
                    options.maps,
                    options.cut,
                )
            return attribute_self_attention(
                self.model, options.role, (source, inputs), labels, options.maps, kind
            )

        results = [attribute(kind) for kind in kinds]
        lookups = with_maps(*(lookups for lookups, _ in results))
        return Attribution(
            prediction, example, (lookups,), results[0][1], options, has_heads=True
        )

    def _find_output(
        self, example: str, options: AttributionOptions, forced: int
    ) -> ScoredOutput:
        model, sides = self.model, self.tokenizers
        (source,) = self.encode_sources([example])
        _, target = self._write_output(example, source, options)
        pieces = sides.target_pieces(target, example)  # refuses ids of no piece
        prefix = tuple(target[:forced])
        size = sides.target.size + len(sides.own_words(example))
        check_prefixes([prefix], size, sides.target.special)

        def predict() -> tuple[Sequence[str], GeneratedText]:
            search = self.config.search.with_beam(options.beam)
            constraints = DecodingConstraints(1, (prefix,))
            ((best, *_),) = search_ids([model], [source], search, constraints)[0]
            text = self._write_text(example, source, best, None)
            return text.tokens, text

        return ScoredOutput(
            pieces, pieces, lambda: score_output(model, (source, target))[0], predict
        )

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode sources, and log how many were cut.

        Raises:
            InputError: One is longer than the model takes, without `truncate`.
        """
        longest = self.model.max_source
        truncate = self.config.truncate
        ids, cut = source_ids(longest, self.tokenizers, texts, truncate=truncate)
        if limit := limit_of(longest):
            report_cut(limit, cut, len(texts))
        return ids

    def _write_output(
        self, text: str, source: list[int], options: AttributionOptions
    ) -> tuple[GeneratedText | TextPrediction, list[int]]:
        """Return the forced or predicted output and its tokens."""
        sides = self.tokenizers

        def encode(target: str) -> list[int]:
            tokens = sides.target_ids(target, text)
            limit = self.model.max_target
            check_lengths(limit, [tokens], ["the target"], side="target")
            return replace_absent_copies(tokens, source, sides.target)

        tokens = options.encode_target(encode, sides.target.special.end)
        if tokens is not None:
            written = options.target
            if written is None:
                written = sides.text(tokens, text)
            return TextPrediction(written), tokens
        search = self.config.search.with_beam(options.beam)
        ((best, *_),) = search_ids([self.model], [source], search)[0]
        return self._write_text(text, source, best, None), self._end(best)

    def score(self, pairs: Sequence[Pair | tuple[str, str]]) -> list[list[float]]:
        """Return the log-probability of each token of each target, the end last.

        Raises:
            InputError: A text is longer than the model takes.
        """
        pairs = make_pairs(pairs)
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
        examples = encode_pairs(self.model, self.tokenizers, pairs)
        recorded = record_source_attention(self.model, examples)
        first = int(self.config.attention_losses.guided_input)
        maps = []
        for pair, weights in zip(pairs, recorded, strict=True):
            columns, rows = self.tokenizers.words(pair)
            rows_of_words = weights.numpy()[
                :, first : first + weights.shape[1] - 1, :-1
            ]
            maps.append(join_words(rows_of_words, columns, rows))
        return maps

    def align(
        self,
        pairs: Sequence[Pair | tuple[str, str]],
        maps: Sequence[int] | None = None,
    ) -> list[Alignment]:
        """Return the mean of all word maps of each pair, or of some by number.

        Raises:
            InputError: As `word_maps`, or the model has no such map.
        """
        pairs = make_pairs(pairs)
        return [
            Alignment(
                average_maps(weights, maps),
                tuple(pair.source.split()),
                tuple(pair.target.split()),
            )
            for pair, weights in zip(pairs, self.word_maps(pairs), strict=True)
        ]

    def log_examples(self, examples: Sequence[Pair]) -> None:
        if self.config.truncate:  # count those that are cut
            self.encode_sources([pair.source for pair in examples])
        if "bleu" in self.config.metrics:
            name = bleu_tokenization([pair.references for pair in examples])
            if name != "13a":
                message = "BLEU is of the tokenization %s (as in sacrebleu --tokenize)"
                log.info(message, name)

    def compute_metrics(
        self, examples: Sequence[Pair], options: EvaluationOptions
    ) -> Metrics:
        """Return the metrics on all pairs, and on each group as `metric/group`."""
        sides = self.tokenizers
        metrics = self.config.metrics
        truncate = self.config.truncate
        outputs: list[str] = []
        likelihoods: list[list[float]] = []
        if set(metrics) - {PERPLEXITY}:
            texts = [pair.source for pair in examples]
            results = search_texts(
                self.model,
                sides,
                texts,
                self.config.search.with_beam(options.beam),
                places=[pair.place for pair in examples],
                truncate=truncate,
                engine=self.engine,
            )
            outputs = best_texts(sides, texts, results)
        if PERPLEXITY in metrics:
            encoded = encode_pairs(self.model, sides, examples, truncate=truncate)
            likelihoods = log_probabilities(self.model, encoded)

        def score(rows: Sequence[int], suffix: str = "") -> None:
            for name in metrics:
                if name == PERPLEXITY:
                    values = [value for row in rows for value in likelihoods[row]]
                    result = perplexity(-sum(values) / max(1, len(values)))
                else:
                    references = [examples[row].references for row in rows]
                    result = METRICS[name]([outputs[row] for row in rows], references)
                scores[name + suffix] = result

        scores: Metrics = {}
        score(range(len(examples)))
        groups = sorted({pair.group for pair in examples})
        for group in groups if len(groups) > 1 else ():
            rows = [row for row, pair in enumerate(examples) if pair.group == group]
            score(rows, f"/{group or 'plain'}")
        return scores


class DialogueSession:
    """The turns of a conversation so far, and the run that replies to them."""

    def __init__(self, run: Seq2SeqRun, options: PredictOptions):
        data = run.config.data
        if not isinstance(data, Dialogue | Conversations):
            raise InputError(
                f"the run was trained on data of kind {data.kind}; a chat needs one trained "
                "on dialogue"
            )
        run.check_supported("predict", options)
        self.run = run
        self.options = options
        self.data = data
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
        limit = self.run.model.max_source
        encode = self.run.tokenizers.source_ids
        for count in range(self.data.turns, 0, -1):
            source = context(self.turns, count, self.data.longest)
            if limit is None or len(encode(source)) < limit:
                return source
        source = context(self.turns, min(self.data.turns, 1), self.data.longest)
        truncate = self.run.config.truncate
        check_lengths(limit, [encode(source)], [place], truncate=truncate)
        return source
