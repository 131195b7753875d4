"""A trained language model: `load(folder).predict(prompts)`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attribution.aggregation import single_map
from regard.attribution.available import kinds_within
from regard.attribution.gradients import log_probabilities_of
from regard.attribution.kinds import Kind
from regard.attribution.self_attention import (
    attribute_within,
    contributed,
    greatest_within,
)
from regard.data.memory import Records
from regard.data.texts import with_column
from regard.data.token_words import side
from regard.decoding.constraints import writable
from regard.decoding.continuation import Prompted, Sliding
from regard.decoding.streaming import (
    StepOptions,
    StreamEvent,
    StreamSource,
    check_prefixes,
)
from regard.errors import InputError, quoted
from regard.maps.alignment import Alignment
from regard.maps.greatest import GreatestWeights
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, beside, of_rows
from regard.models.catalog import build_language_model
from regard.models.language_model import LanguageModel
from regard.nn.decoders.protocol import SequenceDecoder
from regard.nonfinite import guarded
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.evaluation import for_evaluation
from regard.tasks.language_model.cache import Cache
from regard.tasks.language_model.config import LanguageModelling
from regard.tasks.language_model.continuation import (
    Begun,
    Continuation,
    NextToken,
    begun_ids,
    behind,
)
from regard.tasks.language_model.forced import check_forced, forced_tokens
from regard.tasks.language_model.training import convention, figures
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
    StreamOptions,
)
from regard.tasks.prediction import TextPrediction
from regard.tasks.run import Run, text_warnings
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer

Beyond = Literal["stop", "slide"]
VOCABULARY = "(vocabulary)"
"""The label of a copying model's entry for its vocabulary."""


class LanguageModelRun(Run[str, Continuation]):
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

    def __init__(
        self, config: LanguageModelling, model: LanguageModel, tokenizer: Tokenizer
    ):
        self.config, self.model, self.tokenizer = config, model, tokenizer

    @classmethod
    def open(cls, run: RunDirectory, config: LanguageModelling) -> "LanguageModelRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        return cls(
            config,
            build_language_model(config.model, tokenizer.size, tokenizer.special),
            tokenizer,
        )

    def convention(self) -> str:
        return convention(self.model)

    def warnings(self, prompt: str) -> list[str]:
        return (
            text_warnings(self.tokenizer, {"prompt": prompt}) if prompt.strip() else []
        )

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"prompt": example}

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return kinds_within(self.model, self.model.self_attention)

    def description(self) -> dict[str, Any]:
        model, search, end = (
            self.config.model.name,
            self.config.search,
            self.tokenizer.special.end,
        )
        form = {
            "kind": "prompt",
            "model": model,
            "temperature": search.temperature,
            "end": end,
        }
        return super().description() | form

    def check_size(self, example: str, options: AttributionOptions, most: int) -> None:
        target = options.target_tokens
        if target is None:
            target = [
                *self.tokenizer.encode(options.target or ""),
                *([0] if options.finished else []),
            ]
        if (size := 1 + len(self.tokenizer.encode(example)) + len(target)) > most:
            raise InputError(f"the text has {size} tokens; a page shows at most {most}")

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[str]:
        """The texts of one file. Raises InputError for several files."""
        if len(files) > 1:
            raise InputError(
                f"{len(files)} files given; expected one text for a language model"
            )
        data = with_column(self.config.data, options.columns)
        return [each for file in files for each in data.read(str(file))]

    def _evaluate(
        self, examples: Sequence[str] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The perplexity of consecutive texts, optionally with a cache.

        Raises:
            InputError: there are neither texts nor a test set.
            ValueError: a cache for a model with a limited context or with a copy mechanism.
        """
        texts = for_evaluation(examples, self.config.data, "give a file of text")
        cache = None if options.cache is None else Cache(*options.cache)
        with guarded(self.model):
            return figures(self.model, self.tokenizer, texts, cache, counted=True)

    @torch.no_grad()
    def _predict(
        self, prompts: Sequence[str], options: PredictOptions
    ) -> list[Continuation]:
        """The continuation of each prompt by at most `tokens` tokens. A text longer than the model's context ends
        (`beyond` is `stop`), or the model restarts from the last half of a context (`slide`).

        Raises:
            InputError: prompt and tokens exceed the model's context without `beyond`, or the prompt leaves no room for
                a token.
            ValueError: the numbers of the search do not fit together.
        """
        if not prompts:
            return []
        search, tokens = options.search(self.config.search), self._most(options)
        with guarded(self.model):
            begun = self._begun(prompts, tokens, options.beyond)
            constraints = begun.constraints(
                options.hypotheses(search), self.tokenizer, options
            )
            found = search(begun.decoder, begun.nothing, begun.limit, constraints)
        return [
            Continuation.ranked(
                prompt, hypotheses, len(forced), self.tokenizer, options
            )
            for prompt, forced, hypotheses in zip(
                prompts, begun.rest, found, strict=True
            )
        ]

    def _stream(
        self,
        prompts: Sequence[str],
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """Stream continuations. A token's weights are on the tokens before it, the start of the text first.

        Raises:
            InputError and ValueError: as `predict`, and for a prefix with a token that no text contains.
        """
        prefix, search = (
            options.forced(partial(writable, self.tokenizer)),
            options.search(self.config.search),
        )
        tokens = self._most(options)
        check_prefixes([prefix], self.tokenizer.size, self.tokenizer.special)
        texts = [self._ids(prompt) for prompt in prompts]
        sources = [
            StreamSource(self.tokenizer.pieces(ids), None, len(prefix), tokens)
            for ids in texts
        ]
        with guarded(self.model):
            begun = self._begun(prompts, tokens, options.beyond)
            chosen = StepOptions(
                self.model, self.model.self_attention, options.candidates, active
            )
            constraints = begun.constraints(1, self.tokenizer, options, prefix)
            for step in search.stream(
                begun.decoder, begun.nothing, begun.limit, constraints, chosen
            ):
                rest = len(begun.rest[step.row])
                if len(step.tokens) > rest:
                    text = behind(prompts[step.row], step.tokens[rest:], self.tokenizer)
                    read = _of_tokens(step.attention, begun.read + len(step.tokens) - 1)
                    event = replace(step, attention=read)
                    yield StreamEvent.of(
                        event, sources[step.row], text, self.tokenizer.pieces
                    )

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """The attention of each token of a text at the prediction of the next one; for the kind gradient, gradient x
        input of the next token's log-probability. The start of the text is the first token; the entry of a copying
        model for its vocabulary precedes it. A forced continuation has a row for each of its tokens only.

        Raises:
            InputError: the model does not attend and the kind is not gradient; the text is too long; a continuation is
                empty; or the model has no such map, or no rollout.
        """
        tokens = forced_tokens(self.tokenizer, options)
        with guarded(self.model), torch.no_grad():
            ids, labels = self._labelled(example, tokens)
            if tokens is None:
                following = int(self._next(ids)[-1].argmax())
                prediction = NextToken(self.tokenizer.pieces([following])[0])
            else:
                following = tokens[-1]
                prediction = TextPrediction(behind(example, tokens, self.tokenizer))
            found = [
                self._kind(ids, labels, following, options, kind)
                for kind in options.each_kind()
            ]
        lookups, weights = beside(*(each for each, _ in found)), found[0][1]
        if tokens is not None:
            rows, target = (
                slice(len(ids) - len(tokens), None),
                side(self.tokenizer, tokens),
            )
            lookups = of_rows(lookups, rows, target.pieces, target.words)
            weights = replace(
                weights, weights=weights.weights[rows], target=target.pieces
            )
        return Attribution(
            prediction, example, (lookups,), weights, options, has_heads=True
        )

    def _labelled(
        self, example: str, tokens: Sequence[int] | None
    ) -> tuple[list[int], Side]:
        """The tokens that predict a text's next one, or each of a forced continuation, with their labels. Raises
        InputError for more than the model reads."""
        ids = self._ids(example)
        if tokens is None:
            self._check([example], [ids], 1, None)
        else:
            ids = [*ids, *tokens[:-1]]
            check_forced(example, tokens, ids, self.model.context)
        return ids, side(self.tokenizer, ids, texts=[example] if example else [])

    def _greatest(
        self, example: str, count: int, options: AttributionOptions
    ) -> GreatestWeights:
        """They are recorded instead of the weights, so that no tensor of all queries by all keys exists."""
        if options.each_kind() != ("weights",):
            return super()._greatest(example, count, options)
        tokens = forced_tokens(self.tokenizer, options)
        with guarded(self.model):
            ids, labels = self._labelled(example, tokens)
            answers = None if tokens is None else side(self.tokenizer, tokens).pieces
            names, call = (
                self.model.self_attention,
                lambda length: self._next(ids[:length]),
            )
            return greatest_within(
                self.model,
                names,
                labels,
                call,
                count,
                target=answers,
                before=VOCABULARY,
            )

    def _kind(
        self,
        ids: Sequence[int],
        labels: Side,
        following: int,
        options: AttributionOptions,
        kind: Kind,
    ) -> tuple[Lookups, Alignment]:
        """One kind of attribution of the token after each token of a text, `following` being the last."""
        if kind == "gradient":
            tokens, targets = labels.pieces, [*ids[1:], following]
            attention = contributed(
                self.model,
                tokens,
                tokens,
                lambda: log_probabilities_of(self._next(ids), targets),
                options.maps,
            )
            return single_map(attention, kind), attention
        names = self.model.self_attention
        return attribute_within(
            self.model,
            names,
            labels,
            lambda: self._next(ids),
            options.maps,
            kind=kind,
            before=VOCABULARY,
        )

    def _next(self, ids: Sequence[int]) -> Float[Tensor, "position vocabulary"]:
        """The logits of the token after each token of a text."""
        inputs = torch.tensor([ids], device=next(self.model.parameters()).device)
        return self.model(inputs, self.model.begin(1))[0][0]

    def _begun(
        self, prompts: Sequence[str], tokens: int, beyond: Beyond | None
    ) -> Begun:
        """Prompts of any lengths in one batch. Raises InputError for a prompt that does not fit the model."""
        ids = [self._ids(prompt) for prompt in prompts]
        self._check(prompts, ids, tokens, beyond)
        read = min(
            map(len, ids)
        )  # all of the shortest in one pass; the rest of the others is forced
        device = next(self.model.parameters()).device
        ends = [
            len(each) + tokens if beyond != "stop" else self._end(len(each), tokens)
            for each in ids
        ]
        nothing = torch.zeros(len(ids), 0, 1, device=device)
        return Begun(
            Prompted(
                self._model(beyond),
                torch.tensor([each[:read] for each in ids], device=device),
            ),
            Memory(nothing, nothing),
            torch.tensor(ends, device=device) - read,
            read,
            tuple(tuple(each[read:]) for each in ids),
        )

    def _most(self, options: PredictOptions) -> int:
        return self.config.tokens if options.tokens is None else options.tokens

    def _ids(self, text: str) -> list[int]:
        return begun_ids(text, self.tokenizer, self.config.before)

    def _model(self, beyond: Beyond | None) -> SequenceDecoder:
        """The model; with `beyond` = `slide` and a limited context, a decoder that slides."""
        context = self.model.context
        return (
            self.model
            if context is None or beyond != "slide"
            else Sliding(self.model, context)
        )

    def _end(self, length: int, tokens: int) -> int:
        """The length at which a text of `length` tokens ends under `stop`."""
        context = self.model.context
        return length + tokens if context is None else min(length + tokens, context + 1)

    def _check(
        self,
        prompts: Sequence[str],
        ids: Sequence[list[int]],
        tokens: int,
        beyond: Beyond | None,
    ) -> None:
        """Raises InputError for a prompt that does not fit the model."""
        if tokens < 1:
            raise InputError(f"tokens is {tokens}; expected at least 1")
        context = self.model.context
        if context is None or beyond == "slide":
            return
        least = tokens if beyond is None else 1
        for prompt, each in zip(prompts, ids, strict=True):
            room = context - len(each) + 1
            if room < 1:
                raise InputError(
                    f"the prompt {quoted(prompt)} has {len(each)} tokens and leaves no room for another, for the model "
                    f"takes {context}; shorten it, or set beyond to slide (--beyond slide), which drops its beginning"
                )
            if room < least:
                raise InputError(
                    f"the prompt {quoted(prompt)} has {len(each)} tokens and {tokens} more are requested, but the "
                    f"model takes {context}; shorten it, request at most {room} (--tokens {room}), or set beyond "
                    "(--beyond) to stop, or to slide, which drops its beginning"
                )


def _of_tokens(read: np.ndarray | None, known: int) -> np.ndarray | None:
    """Weights `(layer, head, key)` on the known tokens: the entry of a copying model for its vocabulary is left out,
    and a tape, which lacks the last token, is padded."""
    if read is None:
        return None
    return np.pad(read, ((0, 0), (0, 0), (0, max(0, known - read.shape[-1]))))[
        ..., -known:
    ]
