"""A trained language model: `load(folder).predict(prompts)`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attribution.aggregation import text_kinds
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
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

    def check_size(
        self, example: str, options: AttributionOptions, largest: int
    ) -> None:
        target = self._encode_target(options) or ()
        size = 1 + len(self.tokenizer.encode(example)) + len(target)
        if size > largest:
            raise InputError(
                f"the text has {size} tokens; a page shows at most {largest}"
            )

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
        tokenizer = self.tokenizer
        search = options.search(self.config.search)
        inputs = self._prepare(prompts, options, options.count_hypotheses(search))
        phrases = [(phrase, tokenizer.encode(phrase)) for phrase in options.phrases]
        predictions = []
        for prompt, forced, hypotheses in zip(
            prompts, inputs[-1].prompts, search(*inputs), strict=True
        ):
            texts = []
            for hypothesis in hypotheses:
                tokens = hypothesis.tokens[forced:]
                ids = (*tokens, *[tokenizer.special.end] * hypothesis.finished)
                text = GeneratedText(
                    text_behind(prompt, tokens, tokenizer),
                    hypothesis.score,
                    hypothesis.finished,
                    tuple(tokenizer.pieces(ids)),
                    missing=tuple(
                        name for name, row in phrases if missing(tokens, row)
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
        model = self.model
        steps = StepOptions(model, model.self_attention, options.candidates, active)
        read = inputs[0].prompts.shape[1]
        for step in search.stream(*inputs, steps):
            forced = inputs[-1].prompts[step.row]
            if len(step.tokens) <= forced:
                continue
            text = text_behind(prompts[step.row], step.tokens[forced:], tokenizer)
            if step.attention is not None:
                # without a copying model's entry for its vocabulary; a tape lacks the
                # last token
                count = read + len(step.tokens) - 1
                lacking = max(0, count - step.attention.shape[-1])
                weights = np.pad(step.attention, ((0, 0), (0, 0), (0, lacking)))
                step = replace(step, attention=weights[..., -count:])
            yield StreamEvent.of(step, sources[step.row], text, tokenizer.pieces)

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
        ids = [self._ids(prompt) for prompt in prompts]
        read = min(map(len, ids))
        tokens = options.tokens or self.config.tokens
        ends = [min(len(row) + tokens, self._context + 1) for row in ids]
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
        tokenizer = self.tokenizer
        target = self._encode_target(options)
        ids = self._ids(example, (target or ())[:-1])
        labels = side(tokenizer, ids, texts=[example] if example else [])
        if target is None:
            following = int(self._logits(ids)[-1].argmax())
            text = tokenizer.pieces([following])[0]
        else:
            following = target[-1]
            text = text_behind(example, target, tokenizer)

        def explain() -> Explanation:
            targets = [*ids[1:], following]
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
            names = side(tokenizer, target)
            lookups = select_rows(lookups, rows, names.pieces, names.words)
            chosen = weights.weights[rows]
            weights = replace(weights, weights=chosen, target=names.pieces)
        prediction = TextPrediction(text)
        return Attribution(
            prediction, example, (lookups,), weights, options, has_heads=True
        )

    def _encode_target(self, options: AttributionOptions) -> list[int] | None:
        """Return the tokens of a forced continuation. Raises InputError for none."""
        if options.target_tokens is not None:
            tokens = list(options.target_tokens)
        elif options.target is not None:
            end = [self.tokenizer.special.end] * options.finished
            tokens = [*self.tokenizer.encode(options.target), *end]
        else:
            return None
        if not tokens:
            raise InputError(
                "the target is empty and not finished, so there is nothing to attribute; "
                "give a text"
            )
        return tokens

    def _logits(self, ids: Sequence[int]) -> Float[Tensor, "position vocabulary"]:
        """Return the logits of the token after each token of a text."""
        inputs = torch.tensor([ids], device=self.device)
        return self.model(inputs, self.model.begin(1))[0][0]

    @property
    def _context(self) -> int:
        """The most tokens that the model reads."""
        return self.model.context or sys.maxsize

    def _ids(self, text: str, target: Sequence[int] = ()) -> list[int]:
        """Encode a text with the token before it and a target behind it.

        An empty text always has a token before it.

        Raises:
            InputError: They are more than the model reads.
        """
        ids = [*self.tokenizer.encode(text)]
        special = self.tokenizer.special
        if self.config.before != "nothing" or not ids:
            ids.insert(
                0, special.start if self.config.before == "start" else special.end
            )
        ids += target
        if len(ids) > self._context:
            raise InputError(
                f"the prompt {quote(text)}, with its continuation if there is one, has "
                f"{len(ids)} tokens, but the model reads {self._context} at once; shorten it"
            )
        return ids


def text_behind(prompt: str, tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    """Return the text of tokens that follow a prompt, with the blank between if any."""
    ids = tokenizer.encode(prompt)
    text = tokenizer.decode([*ids, *tokens])
    beginning = tokenizer.decode(ids)
    if text.startswith(beginning):
        return text.removeprefix(beginning)
    return tokenizer.decode(tokens)
