"""Likelihoods of texts under a language model, also with a continuous cache."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.attention import attend
from regard.attention.masks import window
from regard.attention.scores import Dot
from regard.data.cache import cache_table
from regard.data.shards import Ragged, Shard
from regard.metrics import perplexity
from regard.models.language_model import LanguageModel
from regard.shapes import Float, Int
from regard.text import Tokenizer
from regard.work import compute_batches

CHUNK = 512
"""Tokens in one pass of a model without a limited context."""
BATCH_ROWS = 8
"""Windows in one pass of a model with a limited context."""


@dataclass(frozen=True)
class TokenStream:
    """The tokens of consecutive parts. A slice of it, without a step, is a tensor."""

    parts: Sequence[np.ndarray]

    @cached_property
    def starts(self) -> list[int]:
        """The start of each part, and the number of all tokens."""
        return [0, *accumulate(map(len, self.parts))]

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, item: slice) -> Tensor:
        first, last, _ = item.indices(len(self))
        number = bisect_right(self.starts, first) - 1
        chunks = [np.empty(0)]
        while number < len(self.parts) and self.starts[number] < last:
            start = self.starts[number]
            chunks.append(self.parts[number][max(0, first - start) : last - start])
            number += 1
        return torch.from_numpy(np.concatenate(chunks).astype(np.int64))


def token_stream(tokenizer: Tokenizer, texts: Sequence[str]) -> TokenStream:
    """Encode consecutive texts, END behind each and one END before all.

    Those of a set on disk are encoded once.
    """
    end = tokenizer.special.end
    dtype = np.uint16 if tokenizer.size <= 1 << 16 else np.int32

    def encode(texts: Sequence[str]) -> Shard:
        rows = [[*ids, end] for ids in tokenizer.encode_all(texts)]
        return Shard({"tokens": Ragged.of_ids(rows, dtype)}, {})

    table = cache_table(texts, f"running {tokenizer.digest}", encode)
    parts = [shard.columns["tokens"].values for shard in table.shards]
    return TokenStream([np.array([end], dtype=dtype), *parts])


@dataclass(frozen=True)
class ContinuousCache:
    """The continuous cache (Grave 2017, 1612.04426, equations 2 and 3).

        p(w) = (1 - share) p_model(w)
             + share sum_i softmax_i(sharpness h_t . h_i) [y_{i+1} = w]

    over the last `size` states, h being the input of the output layer. Without a past,
    p is the model's.
    """

    size: Annotated[int, Field(ge=1)] = 2000
    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    sharpness: Annotated[float, Field(ge=0)] = 0.3

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"the cache's size is {self.size}; it must be at least 1")
        if not 0 < self.share < 1:
            raise ValueError(
                f"the cache's share is {self.share}; it must be above 0 and below 1"
            )
        if not self.sharpness >= 0:
            raise ValueError(
                f"the cache's sharpness is {self.sharpness}; it must be at least 0"
            )

    def empty(self, like: Float[Tensor, "batch position width"]) -> "CachePast":
        """Return the empty past."""
        tokens = torch.zeros(len(like), 0, dtype=torch.int64, device=like.device)
        return CachePast(like[:, :0], tokens)

    def mix(
        self,
        losses: Float[Tensor, "batch position"],
        features: Float[Tensor, "batch position width"],
        expected: Int[Tensor, "batch position"],
        past: "CachePast",
    ) -> tuple[Float[Tensor, "batch position"], "CachePast"]:
        """Return -log p of the tokens `expected`, and the past that includes them.

        Args:
            losses: -log p under the model alone.
            features: The inputs of the output layer.
            expected: The tokens.
            past: The states before.
        """
        states = torch.cat([past.states, features], 1)
        tokens = torch.cat([past.tokens, expected], 1)
        queries, keys = features.shape[1], states.shape[1]
        mask = window(
            queries,
            keys,
            before=self.size - 1,
            after=0,
            first=keys - queries - 1,
            device=states.device,
        )
        _, weights = attend(
            self.sharpness * features, states, states, score=Dot(), mask=mask
        )
        repeated = (weights * (tokens[:, None] == expected[..., None])).sum(-1)
        share = self.share * weights.sum(-1)  # zero where there is no past
        mixed = -((1 - share) * (-losses).exp() + self.share * repeated).log()
        return mixed, CachePast(states[:, -self.size :], tokens[:, -self.size :])


@dataclass(frozen=True)
class CachePast:
    """States `(batch, past, width)` and the token after each, `(batch, past)`."""

    states: Tensor
    tokens: Tensor


@torch.no_grad()
def token_losses(
    model: LanguageModel,
    tokens: Int[Tensor, " position"],
    cache: ContinuousCache | None = None,
) -> Float[Tensor, " predicted"]:
    """Return -log p of each token but the first, given those before it.

    A model with a carried state reads the whole text, optionally with a cache. A model
    with a limited context reads windows that overlap by half, so that all but the first
    tokens have at least half a context.

    Raises:
        ValueError: A model with a limited context or a copy mechanism has a cache.
    """
    tokens = tokens.to(next(model.parameters()).device)
    if model.context is None:
        return _stateful_losses(model, tokens, cache)
    if cache is not None:
        raise ValueError(
            "a cache needs a model with a carried state; this one has a limited context"
        )
    return _window_losses(model, tokens, model.context)


def _stateful_losses(
    model: LanguageModel, tokens: Tensor, cache: ContinuousCache | None
) -> Tensor:
    state, past = model.begin(1), None
    chunks = [model.zeros(0)]
    for start in range(0, len(tokens) - 1, CHUNK):
        chunk = tokens[start : start + CHUNK + 1][None]
        features, state = model.run(chunk[:, :-1], state)
        _, losses = model.output.loss(features, chunk[:, 1:])
        if cache is not None:
            if not isinstance(features, Tensor):
                raise ValueError(
                    "a cache is for models that do not copy; this one has a copy mechanism"
                )
            past = past or cache.empty(features)
            losses, past = cache.mix(losses, features, chunk[:, 1:], past)
        chunks.append(losses[0])
        state = model.detach_state(state) or state
    return torch.cat(chunks)


def _window_losses(model: LanguageModel, tokens: Tensor, context: int) -> Tensor:
    count, step = len(tokens) - 1, max(1, context // 2)
    done = min(context, count)
    result = model.zeros(count)
    if done:
        result[:done] = _last_losses(model, tokens[None, : done + 1], done)[0]
    ends = [*range(done + step, count, step), count] if count > done else []
    batches = [
        ends[start : start + BATCH_ROWS] for start in range(0, len(ends), BATCH_ROWS)
    ]

    def compute(ends: list[int]) -> Tensor:
        windows = torch.stack([tokens[end - context : end + 1] for end in ends])
        return _last_losses(model, windows, step).cpu()

    for batch, losses in zip(batches, compute_batches(compute, batches), strict=True):
        for end, row in zip(batch, losses, strict=True):
            result[done:end] = row[done - end :]
            done = end
    return result


def _last_losses(
    model: LanguageModel, windows: Int[Tensor, "row position"], count: int
) -> Float[Tensor, "row last"]:
    """Return the losses of the last tokens of each window, each window independent."""
    features, _ = model.run(windows[:, :-1], model.begin(len(windows)))
    assert isinstance(features, Tensor)
    return model.output.loss(features[:, -count:], windows[:, -count:])[1]


def measure_texts(
    model: LanguageModel,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    cache: ContinuousCache | None = None,
) -> dict[str, float]:
    """Return the perplexity of consecutive texts, over all tokens and ends of texts.

    Returns:
        `loss`: the natural logarithm, a token; `perplexity`: exp(loss);
        `word_perplexity`: of words between blanks and ends of texts;
        `bits_per_character`: of characters and ends of texts.
    """
    losses = token_losses(model, token_stream(tokenizer, texts)[:], cache).double()
    total, tokens = float(losses.sum()), len(losses)
    words = sum(len(text.split()) + 1 for text in texts)
    characters = sum(len(text) + 1 for text in texts)
    return {
        "perplexity": perplexity(total / tokens),
        "loss": total / tokens,
        "word_perplexity": perplexity(total / words),
        "bits_per_character": total / characters / math.log(2),
    }


def describe_convention(model: LanguageModel) -> str:
    """Return the convention of the metrics, in a line."""
    reading = "what was read is carried on from text to text"
    if model.context is not None:
        reading = f"read in windows of {model.context} that overlap by half"
    return (
        "perplexity counts every token and the end of every text, the last window too; "
        f"{reading}"
    )
