"""A trained language model: `load(folder).predict(prompts)`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attribution.aggregation import text_kinds
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.data.records import Records
from regard.data.tokens import side
from regard.decoding.beam import missing
from regard.decoding.constraints import (
    DecodingConstraints,
    check_phrases,
    writable,
)
from regard.decoding.streaming import (
    StepOptions,
    StreamEvent,
    StreamSource,
    check_prefixes,
)
from regard.errors import InputError, quote
from regard.maps.heads import Side
from regard.maps.lookups import select_rows
from regard.models.catalog import build_language_model
from regard.models.language_model import LanguageModel
from regard.nn.decoders import Prompted
from regard.shapes import Float
from regard.tasks.attribution import Attribution
from regard.tasks.base import Explanation, TextRun, attribute_tokens
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
from regard.tasks.prediction import GeneratedText, TextPrediction, rank_distinct
from regard.tasks.run import text_warnings
from regard.text import Tokenizer

VOCABULARY = "(vocabulary)"
"""The label of a copying model's entry for its vocabulary."""
SearchInputs = tuple[Prompted, Memory, Tensor, DecodingConstraints]
"""Decoder, memory, limit and constraints of a search that continues prompts."""


class LanguageModelRun(TextRun[GeneratedText]):
    """A trained model with its tokenizer and its run file. Examples are prompts."""

    config: LanguageModelling
    model: LanguageModel
    supports = {
        "predict": frozenset({"beam", "n_best", *SEARCHING, "phrases", "tokens"}),
        "stream": frozenset(
            {*SEARCHING, "tokens", "prefix", "prefix_tokens", "candidates"}
        ),
        "evaluate": frozenset({"files", "cache", "columns"}),
        "attribute": frozenset(
            {"kinds", "maps", "target", "finished", "target_tokens"}
        ),
    }
    data_hint = "give a file of text"

    @staticmethod
    def build(config: LanguageModelling, tokenizer: Tokenizer) -> LanguageModel:
        return build_language_model(config.model, tokenizer.size, tokenizer.special)

    def convention(self) -> str:
        return describe_convention(self.model)

    def warnings(self, text: str) -> list[str]:
        return text_warnings(self.tokenizer, {"prompt": text} if text.strip() else {})

    def record(self, example: str) -> dict[str, Any]:
        return {"prompt": example}

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return text_kinds(self.model, self.model.self_attention)

    def description(self) -> dict[str, Any]:
        return super().description() | {
            "kind": "prompt",
            "model": self.config.model.name,
            "temperature": self.config.search.temperature,
            "end": self.tokenizer.special.end,
        }

    def check_size(self, example: str, options: AttributionOptions, most: int) -> None:
        target = self._encode_target(options) or ()
        size = 1 + len(self.tokenizer.encode(example)) + len(target)
        if size > most:
            raise InputError(f"the text has {size} tokens; a page shows at most {most}")

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[str]:
        if len(files) > 1:
            raise InputError(
                f"{len(files)} files given; expected one text for a language model"
            )
        return super().read(files, options)

    def compute_metrics(
        self, examples: Sequence[str], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the perplexity of consecutive texts, optionally with a cache.

        Raises:
            ValueError: There is a cache for a model with a limited context or a copy
                mechanism.
        """
        cache = None if options.cache is None else ContinuousCache(*options.cache)
        return measure_texts(self.model, self.tokenizer, examples, cache)

    def _predict(
        self, prompts: Sequence[str], options: PredictOptions
    ) -> list[GeneratedText]:
        """Continue each prompt by at most `tokens` tokens.

        A text that reaches the end of the model's context is not finished.
        """
        if not prompts:
            return []
        search = options.search(self.config.search)
        inputs = self._prepare(prompts, options, options.count_hypotheses(search))
        encode = self.tokenizer.encode
        end = self.tokenizer.special.end
        predictions = []
        for prompt, forced, hypotheses in zip(
            prompts, inputs[-1].prompts, search(*inputs), strict=True
        ):
            texts = []
            for hypothesis in hypotheses:
                tokens = hypothesis.tokens[forced:]
                ids = (*tokens, end) if hypothesis.finished else tuple(tokens)
                text = GeneratedText(
                    text_behind(prompt, tokens, self.tokenizer),
                    hypothesis.score,
                    hypothesis.finished,
                    tuple(self.tokenizer.pieces(ids)),
                    missing=tuple(
                        phrase
                        for phrase in options.phrases
                        if missing(tokens, encode(phrase))
                    ),
                    prompt=prompt,
                    ids=ids,
                )
                texts.append(text)
            predictions.append(rank_distinct(texts, options.n_best))
        return predictions

    def _stream(
        self,
        prompts: Sequence[str],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """Yield continuations with weights on the tokens before, the start first."""
        tokenizer = self.tokenizer
        search = options.search(self.config.search)
        prefix = options.encode_prefix(partial(writable, tokenizer))
        check_prefixes([prefix], tokenizer.size, tokenizer.special)
        inputs = self._prepare(prompts, options, 1, prefix)
        growth = options.tokens or self.config.tokens
        sources = [
            StreamSource(tokenizer.pieces(self._ids(text)), None, len(prefix), growth)
            for text in prompts
        ]
        attention = self.model.self_attention
        steps = StepOptions(self.model, attention, options.candidates, active)
        read = inputs[0].prompts.shape[1]
        for step in search.stream(*inputs, steps):
            forced = inputs[-1].prompts[step.row]
            if len(step.tokens) <= forced:
                continue
            text = text_behind(prompts[step.row], step.tokens[forced:], tokenizer)
            weights = align_keys(step.attention, read + len(step.tokens) - 1)
            event = replace(step, attention=weights)
            yield StreamEvent.of(event, sources[step.row], text, tokenizer.pieces)

    def _prepare(
        self,
        prompts: Sequence[str],
        options: PredictOptions,
        n_best: int,
        prefix: tuple[int, ...] = (),
    ) -> SearchInputs:
        """Prepare a search: the shortest prompt is read in one pass, others are forced.

        Raises:
            InputError: A prompt does not fit the model, or a phrase is empty.
        """
        check_phrases(options.phrases)
        tokens = options.tokens or self.config.tokens
        ids = [self._ids(prompt) for prompt in prompts]
        ends = [len(row) + tokens for row in ids]
        read = min(map(len, ids))
        context = self.model.context
        for prompt, row in zip(prompts, ids, strict=True):
            if context is not None and len(row) > context:
                raise InputError(
                    f"the prompt {quote(prompt)} has {len(row)} tokens and leaves no room "
                    f"for another, for the model takes {context}; shorten it"
                )
        if context is not None:
            ends = [min(end, context + 1) for end in ends]
        rows = [row[:read] for row in ids]
        forced = [row[read:] for row in ids]
        empty = torch.zeros(len(ids), 0, 1, device=self.device)
        constraints = DecodingConstraints(
            n_best,
            tuple((*row, *prefix) for row in forced),
            (tuple(writable(self.tokenizer, phrase) for phrase in options.phrases),),
            before=tuple(map(tuple, rows)),
            prompts=tuple(map(len, forced)),
        )
        return (
            Prompted(self.model, torch.tensor(rows, device=self.device)),
            Memory(empty, empty),
            torch.tensor(ends, device=self.device) - read,
            constraints,
        )

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
            target_or_next = [int(self._logits(ids)[-1].argmax())]
            name = self.tokenizer.pieces(target_or_next)[0]
            prediction = TextPrediction(name)
        else:
            target_or_next = target
            prediction = TextPrediction(text_behind(example, target, self.tokenizer))

        def explain() -> Explanation:
            targets = [*ids[1:], target_or_next[-1]]
            return labels.pieces, lambda: select_log_probabilities(
                self._logits(ids), targets
            )

        lookups, weights = attribute_tokens(
            self.model,
            labels,
            lambda: self._logits(ids),
            explain,
            options,
            VOCABULARY,
        )
        if target is not None:
            rows = slice(len(ids) - len(target), None)
            names = side(self.tokenizer, target)
            lookups = select_rows(lookups, rows, names.pieces, names.words)
            chosen = weights.weights[rows]
            weights = replace(weights, weights=chosen, target=names.pieces)
        return Attribution(
            prediction, example, (lookups,), weights, options, has_heads=True
        )

    def _encode_target(self, options: AttributionOptions) -> list[int] | None:
        """Return the tokens of a forced continuation. Raises InputError for none."""
        if options.target_tokens is None and options.target is None:
            return None
        tokens = list(options.target_tokens or ())
        if options.target is not None:
            end = [self.tokenizer.special.end] if options.finished else []
            tokens = [*self.tokenizer.encode(options.target), *end]
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
        ids = [*self._ids(example), *(target or ())[:-1]]
        context = self.model.context
        if context is not None and len(ids) > context:
            raise InputError(
                f"the prompt {quote(example)}, with its continuation if there is one, has "
                f"{len(ids)} tokens, but the model reads {context} at once; shorten it"
            )
        return ids, side(self.tokenizer, ids, texts=[example] if example else [])

    def _logits(self, ids: Sequence[int]) -> Float[Tensor, "position vocabulary"]:
        """Return the logits of the token after each token of a text."""
        inputs = torch.tensor([ids], device=self.device)
        return self.model(inputs, self.model.begin(1))[0][0]

    def _ids(self, text: str) -> list[int]:
        """Encode a text with the token before it; an empty text always has one."""
        ids = self.tokenizer.encode(text)
        special = self.tokenizer.special
        if self.config.before == "nothing" and ids:
            return ids
        first = special.start if self.config.before == "start" else special.end
        return [first, *ids]


def text_behind(prompt: str, tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """Return the text of tokens that follow a prompt, with the blank between if any."""
    ids = tokenizer.encode(prompt)
    text = tokenizer.decode([*ids, *tokens])
    beginning = tokenizer.decode(ids)
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
