"""A trained language model: `load(folder).predict(prompts)`."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attribution.aggregation import supported_text_kinds
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.attribution.self_attention import greatest_text_weights
from regard.data.records import Records
from regard.data.texts import with_column
from regard.data.tokens import side
from regard.decoding.beam import missing
from regard.decoding.constraints import (
    BannedTexts,
    DecodingConstraints,
    check_phrases,
    writable,
)
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.streaming import (
    StepOptions,
    StreamEvent,
    StreamSource,
    check_prefixes,
)
from regard.errors import InputError, quote
from regard.maps.heads import GreatestWeights, Side
from regard.maps.lookups import select_rows
from regard.models.catalog import build_language_model
from regard.models.language_model import LanguageModel
from regard.nn.decoders import Prompted, SequenceDecoder, Sliding
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import Explanation, TextAttribution
from regard.tasks.language_model.config import LanguageModelling
from regard.tasks.language_model.likelihood import (
    ContinuousCache,
    describe_convention,
    measure_texts,
)
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    StreamOptions,
)
from regard.tasks.prediction import GeneratedText, TextPrediction, flat, rank_distinct
from regard.tasks.run import Run, text_warnings
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

Beyond = Literal["stop", "slide"]
VOCABULARY = "(vocabulary)"
"""The label of a copying model's entry for its vocabulary."""
log = logging.getLogger("regard")


@dataclass(frozen=True, eq=False)
class PromptBatch:
    """Prompts of any lengths, ready for a search."""

    decoder: Prompted
    """The decoder with the beginnings of the prompts as context."""
    memory: Memory
    """An empty memory for each."""
    limit: Tensor
    """The most tokens of each behind the context."""
    read: int
    """The tokens of each prompt in the context."""
    forced: tuple[tuple[int, ...], ...]
    """The tokens of each prompt behind the context."""


@dataclass(frozen=True, repr=False)
class NextToken(TextPrediction):
    """The most probable token after a text."""

    def lines(self) -> list[str]:
        """Return the token with what it is, since many a token is a single letter."""
        return [f"next token: {flat(self.text)}"]


class LanguageModelRun(Run[str, GeneratedText]):
    """A trained model with its tokenizer and its run file. Examples are prompts."""

    config: LanguageModelling
    model: LanguageModel
    supports = {
        "predict": frozenset(
            {"beam", "n_best", *SEARCHING, "phrases", "tokens", "beyond"}
        ),
        "stream": frozenset(
            {*SEARCHING, "tokens", "beyond", "prefix", "prefix_tokens", "candidates"}
        ),
        "evaluate": frozenset({"files", "cache", "columns"}),
        "attribute": frozenset(
            {"kinds", "maps", "target", "finished", "target_tokens"}
        ),
    }
    data_hint = "give a file of text"

    def __init__(
        self, config: LanguageModelling, model: LanguageModel, tokenizer: Tokenizer
    ):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: LanguageModelling) -> "LanguageModelRun":
        """Open the run in a folder, its model with initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        special = tokenizer.special
        model = build_language_model(config.model, tokenizer.size, special)
        return cls(config, model, tokenizer)

    def convention(self) -> str:
        return describe_convention(self.model)

    def warnings(self, prompt: str) -> list[str]:
        if not prompt.strip():
            return []
        return text_warnings(self.tokenizer, {"prompt": prompt})

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"prompt": example}

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return supported_text_kinds(self.model, self.model.self_attention)

    def description(self) -> dict[str, Any]:
        return super().description() | {
            "kind": "prompt",
            "model": self.config.model.name,
            "temperature": self.config.search.temperature,
            "end": self.tokenizer.special.end,
        }

    def check_size(self, example: str, options: AttributionOptions, most: int) -> None:
        if options.target_tokens is not None:
            target = len(options.target_tokens)
        else:
            target = len(self.tokenizer.encode(options.target or ""))
            target += options.finished
        size = 1 + len(self.tokenizer.encode(example)) + target
        if size > most:
            raise InputError(f"the text has {size} tokens; a page shows at most {most}")

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[str]:
        if len(files) > 1:
            raise InputError(
                f"{len(files)} files given; expected one text for a language model"
            )
        data = with_column(self.config.data, options.columns)
        return [text for file in files for text in data.read(str(file))]

    def compute_metrics(
        self, examples: Sequence[str], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the perplexity of consecutive texts, optionally with a cache.

        Raises:
            ValueError: There is a cache for a model with a limited context or a copy
                mechanism.
        """
        cache = None if options.cache is None else ContinuousCache(*options.cache)
        count = sum(len(self.tokenizer.encode(text)) + 1 for text in examples)
        log.info("scored: %s tokens, the ends of texts included", f"{count:,}")
        return measure_texts(self.model, self.tokenizer, examples, cache)

    def _predict(
        self, prompts: Sequence[str], options: PredictOptions
    ) -> list[GeneratedText]:
        """Continue each prompt by at most `tokens` tokens.

        A text longer than the model's context ends (`beyond` is `stop`), or the model
        restarts from the last half of a context (`slide`).
        """
        if not prompts:
            return []
        search = options.search(self.config.search)
        batch = self._batch(prompts, self._limit(options), options.beyond)
        constraints = self._constrain(batch, options.count_hypotheses(search), options)
        results = search(batch.decoder, batch.memory, batch.limit, constraints)
        predictions = []
        for prompt, forced, hypotheses in zip(
            prompts, batch.forced, results, strict=True
        ):
            texts = [
                self._make_text(prompt, hypothesis, len(forced), options.phrases)
                for hypothesis in hypotheses
            ]
            predictions.append(rank_distinct(texts, options.n_best))
        return predictions

    def _make_text(
        self, prompt: str, hypothesis: Hypothesis, forced: int, phrases: Sequence[str]
    ) -> GeneratedText:
        """Return a continuation; the first `forced` tokens belong to the prompt."""
        tokens = hypothesis.tokens[forced:]
        ends = (self.tokenizer.special.end,) if hypothesis.finished else ()
        ids = (*tokens, *ends)
        encode = self.tokenizer.encode
        return GeneratedText(
            text_behind(prompt, tokens, self.tokenizer),
            hypothesis.score,
            hypothesis.finished,
            tuple(self.tokenizer.pieces(ids)),
            missing=tuple(
                phrase for phrase in phrases if missing(tokens, encode(phrase))
            ),
            prompt=prompt,
            ids=ids,
        )

    def _constrain(
        self,
        batch: PromptBatch,
        n_best: int,
        options: PredictOptions,
        prefix: tuple[int, ...] = (),
    ) -> DecodingConstraints:
        """Return the constraints of a search; the tokens of prompts cost nothing.

        Raises:
            InputError: A phrase or a banned text is empty.
        """
        check_phrases(options.phrases)
        banned = None
        if options.banned:
            banned = BannedTexts.of(self.tokenizer, options.banned)
        return DecodingConstraints(
            n_best,
            tuple((*forced, *prefix) for forced in batch.forced),
            (tuple(writable(self.tokenizer, phrase) for phrase in options.phrases),),
            before=tuple(map(tuple, batch.decoder.prompts.tolist())),
            prompts=tuple(len(forced) for forced in batch.forced),
            banned=banned,
        )

    def _stream(
        self,
        prompts: Sequence[str],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """Yield continuations with weights on the tokens before, the start first."""
        tokenizer, search = self.tokenizer, options.search(self.config.search)
        prefix = options.encode_prefix(partial(writable, tokenizer))
        tokens = self._limit(options)
        check_prefixes([prefix], tokenizer.size, tokenizer.special)
        sources = [
            StreamSource(tokenizer.pieces(self._ids(text)), None, len(prefix), tokens)
            for text in prompts
        ]
        batch = self._batch(prompts, tokens, options.beyond)
        steps = search.stream(
            batch.decoder,
            batch.memory,
            batch.limit,
            self._constrain(batch, 1, options, prefix),
            StepOptions(
                self.model, self.model.self_attention, options.candidates, active
            ),
        )
        for step in steps:
            forced = len(batch.forced[step.row])
            if len(step.tokens) <= forced:
                continue
            text = text_behind(prompts[step.row], step.tokens[forced:], tokenizer)
            keys = batch.read + len(step.tokens) - 1
            event = replace(step, attention=align_keys(step.attention, keys))
            yield StreamEvent.of(event, sources[step.row], text, tokenizer.pieces)

    @torch.no_grad()
    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute the prediction of each token to the tokens before it.

        The start of the text is the first token; the entry of a copying model for its
        vocabulary precedes it. A forced continuation has a row for each of its tokens
        only.
        """
        target = self._encode_target(options)
        ids, labels = self._label(example, target)
        if target is None:
            expected = int(self._logits(ids)[-1].argmax())
            prediction = NextToken(self.tokenizer.pieces([expected])[0])
        else:
            expected = target[-1]
            prediction = TextPrediction(text_behind(example, target, self.tokenizer))

        def explain() -> Explanation:
            targets = [*ids[1:], expected]
            return labels.pieces, lambda: select_log_probabilities(
                self._logits(ids), targets
            )

        attribution = TextAttribution(
            self.model, labels, lambda: self._logits(ids), explain, VOCABULARY
        )
        lookups, weights = attribution.collect(options)
        if target is not None:
            rows = slice(len(ids) - len(target), None)
            names = side(self.tokenizer, target)
            lookups = select_rows(lookups, rows, names.pieces, names.words)
            chosen = weights.weights[rows]
            weights = replace(weights, weights=chosen, target=names.pieces)
        return Attribution(
            prediction, example, (lookups,), weights, options, has_heads=True
        )

    def _greatest(
        self, example: str, count: int, options: AttributionOptions
    ) -> GreatestWeights:
        """Record them instead of the weights, which are a tensor of queries by keys."""
        if options.list_kinds() != ("weights",):
            return super()._greatest(example, count, options)
        target = self._encode_target(options)
        ids, labels = self._label(example, target)
        return greatest_text_weights(
            self.model,
            self.model.self_attention,
            labels,
            lambda length: self._logits(ids[:length]),
            count,
            target=None if target is None else side(self.tokenizer, target).pieces,
            before=VOCABULARY,
        )

    def _encode_target(self, options: AttributionOptions) -> list[int] | None:
        """Return the tokens of a forced continuation. Raises InputError for none."""
        if options.target_tokens is None and options.target is None:
            return None
        tokens = list(options.target_tokens or ())
        if options.target is not None:
            tokens = self.tokenizer.encode(options.target)
            if options.finished:
                tokens.append(self.tokenizer.special.end)
        if not tokens:
            raise InputError(
                "the target is empty and not finished, so there is nothing to attribute; "
                "give a text"
            )
        return tokens

    def _label(
        self, example: str, target: Sequence[int] | None
    ) -> tuple[list[int], Side]:
        """Return the tokens that predict the next one, or a forced continuation.

        Raises:
            InputError: They are more than the model reads.
        """
        ids = self._ids(example)
        if target is None:
            self._check([example], [ids], 1, None)
        else:
            ids = [*ids, *target[:-1]]
            context = self.model.context
            if context is not None and len(ids) > context:
                room = max(0, context - len(ids) + len(target))
                raise InputError(
                    f"the prompt {quote(example)} and its continuation have {len(ids)} "
                    f"tokens, but the model reads {context} at once; write at most {room}"
                )
        return ids, side(self.tokenizer, ids, texts=[example] if example else [])

    def _logits(self, ids: Sequence[int]) -> Float[Tensor, "position vocabulary"]:
        """Return the logits of the token after each token of a text."""
        inputs = torch.tensor([ids], device=self.device)
        return self.model(inputs, self.model.begin(1))[0][0]

    def _batch(
        self, prompts: Sequence[str], tokens: int, beyond: Beyond | None
    ) -> PromptBatch:
        """Batch prompts: the shortest is read in one pass, others are forced behind it.

        Raises:
            InputError: A prompt does not fit the model.
        """
        ids = [self._ids(prompt) for prompt in prompts]
        self._check(prompts, ids, tokens, beyond)
        read, context = min(map(len, ids)), self.model.context
        model: SequenceDecoder = self.model
        ends = [len(row) + tokens for row in ids]
        if context is not None and beyond == "stop":
            ends = [min(end, context + 1) for end in ends]
        if context is not None and beyond == "slide":
            model = Sliding(self.model, context)
        beginnings = torch.tensor([row[:read] for row in ids], device=self.device)
        empty = torch.zeros(len(ids), 0, 1, device=self.device)
        return PromptBatch(
            Prompted(model, beginnings),
            Memory(empty, empty),
            torch.tensor(ends, device=self.device) - read,
            read,
            tuple(tuple(row[read:]) for row in ids),
        )

    def _limit(self, options: PredictOptions) -> int:
        return self.config.tokens if options.tokens is None else options.tokens

    def _ids(self, text: str) -> list[int]:
        """Encode a text with the token before it; an empty text always has one."""
        ids, special = self.tokenizer.encode(text), self.tokenizer.special
        if self.config.before == "nothing" and ids:
            return ids
        first = special.start if self.config.before == "start" else special.end
        return [first, *ids]

    def _check(
        self,
        prompts: Sequence[str],
        ids: Sequence[list[int]],
        tokens: int,
        beyond: Beyond | None,
    ) -> None:
        """Raise InputError for a prompt that does not fit the model."""
        if tokens < 1:
            raise InputError(f"tokens is {tokens}; expected at least 1")
        context = self.model.context
        if context is None or beyond == "slide":
            return
        for prompt, row in zip(prompts, ids, strict=True):
            room = context - len(row) + 1
            if room < 1:
                raise InputError(
                    f"the prompt {quote(prompt)} has {len(row)} tokens and leaves no room "
                    f"for another, for the model takes {context}; shorten it, or set "
                    "beyond to slide (--beyond slide), which drops its beginning"
                )
            if beyond is None and room < tokens:
                raise InputError(
                    f"the prompt {quote(prompt)} has {len(row)} tokens and {tokens} more "
                    f"are requested, but the model takes {context}; shorten it, request at "
                    f"most {room} (--tokens {room}), or set beyond (--beyond) to stop, or "
                    "to slide, which drops its beginning"
                )


def text_behind(prompt: str, tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """Return the text of tokens that follow a prompt, with the blank between if any."""
    ids = tokenizer.encode(prompt)
    text, beginning = tokenizer.decode([*ids, *tokens]), tokenizer.decode(ids)
    if text.startswith(beginning):
        return text.removeprefix(beginning)
    return tokenizer.decode(tokens)


def align_keys(weights: np.ndarray | None, count: int) -> np.ndarray | None:
    """Return weights `(layer, head, key)` on `count` tokens.

    The entry of a copying model for its vocabulary is left out, and a tape, which lacks
    the last token, is padded.
    """
    if weights is None:
        return None
    padding = max(0, count - weights.shape[-1])
    return np.pad(weights, ((0, 0), (0, 0), (0, padding)))[..., -count:]
