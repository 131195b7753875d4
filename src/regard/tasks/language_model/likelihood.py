"""Likelihoods of texts under a language model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from regard.data.cache import Ragged, Shard, cache_table
from regard.metrics import Metrics, perplexity
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
        pieces = [
            part[max(0, first - start) : max(0, last - start)]
            for start, part in zip(self.starts, self.parts, strict=False)
        ]
        return torch.from_numpy(np.concatenate(pieces).astype(np.int64))


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


@torch.no_grad()
def token_losses(
    model: LanguageModel, tokens: Int[Tensor, " position"]
) -> Float[Tensor, " predicted"]:
    """Return -log p of each token but the first, given those before it.

    A model with a carried state reads the whole text. A model with a limited context
    reads windows that overlap by half, so that all but the first tokens have at least
    half a context.
    """
    tokens = tokens.to(next(model.parameters()).device)
    if model.context is not None:
        return _window_losses(model, tokens, model.context)
    state = model.begin(1)
    chunks = [model.zeros(0)]
    for start in range(0, len(tokens) - 1, CHUNK):
        chunk = tokens[start : start + CHUNK + 1][None]
        features, state = model.run(chunk[:, :-1], state)
        chunks.append(model.output.loss(features, chunk[:, 1:])[1][0])
        state = model.detach_state(state) or state
    return torch.cat(chunks)


def _window_losses(model: LanguageModel, tokens: Tensor, context: int) -> Tensor:
    """Return the losses of the first window, and of the last half of each other one."""
    count = len(tokens) - 1
    if not count:
        return model.zeros(0)
    size = min(context, count)
    step = max(1, context // 2)
    windows = tokens.unfold(0, size + 1, step)
    if (count - size) % step:
        windows = torch.cat([windows, tokens[None, -size - 1 :]])

    def compute(first: int) -> Tensor:
        rows = windows[first : first + BATCH_ROWS] if first else windows[:1]
        new = step if first else size
        features, _ = model.run(rows[:, :-1], model.begin(len(rows)))
        _, losses = model.output.loss(features[:, -new:], rows[:, -new:])
        return losses.flatten().cpu()

    firsts = [0, *range(1, len(windows), BATCH_ROWS)]
    losses = torch.cat(compute_batches(compute, firsts))
    # the last window may repeat tokens of the one before it
    surplus = len(losses) - count
    last = len(losses) - step
    return torch.cat([losses[:last], losses[last + surplus :]])


def measure_texts(
    model: LanguageModel, tokenizer: Tokenizer, texts: Sequence[str]
) -> Metrics:
    """Return the perplexity of consecutive texts, over all tokens and ends of texts.

    Returns:
        `loss`: the natural logarithm, a token; `perplexity`: exp(loss);
        `word_perplexity`: of words between blanks and ends of texts;
        `bits_per_character`: of characters and ends of texts.
    """
    losses = token_losses(model, token_stream(tokenizer, texts)[:]).double()
    total = float(losses.sum())
    tokens = len(losses)
    words = sum(len(text.split()) + 1 for text in texts)
    characters = sum(len(text) + 1 for text in texts)
    return {
        "perplexity": perplexity(total / tokens),
        "loss": total / tokens,
        "word_perplexity": perplexity(total / words),
        "bits_per_character": total / characters / math.log(2),
    }
