"""Likelihoods of texts under a language model, also with a continuous cache."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain

import numpy as np
import torch
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
CachePast = tuple[Tensor, Tensor]
"""States `(batch, past, width)` and the token after each, `(batch, past)`."""


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


@dataclass(frozen=True)
class ContinuousCache:
    """The continuous cache (Grave 2017, 1612.04426, equations 2 and 3).

        p(w) = (1 - share) p_model(w)
             + share sum_i softmax_i(sharpness h_t . h_i) [y_{i+1} = w]

    over the last `size` states, h being the input of the output layer. Without a past,
    p is the model's.
    """

    size: int = 2000
    share: float = 0.1
    sharpness: float = 0.3

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 < self.share < 1 or not self.sharpness >= 0:
            raise ValueError(
                f"the cache is {self.size} {self.share} {self.sharpness}; expected a size "
                "of at least 1, a share between 0 and 1, and a sharpness of at least 0"
            )

    def mix(
        self,
        losses: Float[Tensor, "batch position"],
        features: Float[Tensor, "batch position width"],
        expected: Int[Tensor, "batch position"],
        past: CachePast | None = None,
    ) -> tuple[Float[Tensor, "batch position"], CachePast]:
        """Return -log p of the tokens `expected`, and the past that includes them.

        Args:
            losses: -log p under the model alone.
            features: The inputs of the output layer.
            expected: The tokens.
            past: The states before, if there are any, and the token after each.
        """
        states = features
        tokens = expected
        if past is not None:
            states = torch.cat([past[0], features], 1)
            tokens = torch.cat([past[1], expected], 1)
        queries = features.shape[1]
        keys = states.shape[1]
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
        return mixed, (states[:, -self.size :], tokens[:, -self.size :])


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
    if model.context is not None:
        if cache is not None:
            raise ValueError(
                "a cache needs a model with a carried state; this one has a limited context"
            )
        return _window_losses(model, tokens, model.context)
    state = model.begin(1)
    past = None
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
            losses, past = cache.mix(losses, features, chunk[:, 1:], past)
        chunks.append(losses[0])
        state = model.detach_state(state) or state
    return torch.cat(chunks)


def _window_losses(model: LanguageModel, tokens: Tensor, context: int) -> Tensor:
    count = len(tokens) - 1
    if not count:
        return model.zeros(0)
    step = max(1, context // 2)
    ends = [*range(context, count, step), count]
    batches = [ends[:1]]
    for first in range(1, len(ends), BATCH_ROWS):
        batches.append(ends[first : first + BATCH_ROWS])

    def compute(ends: list[int]) -> Tensor:
        """Return the losses at the end of the windows that end there."""
        size = step if ends[0] > context else ends[0]
        rows = torch.stack([tokens[max(0, end - context) : end + 1] for end in ends])
        features, _ = model.run(rows[:, :-1], model.begin(len(rows)))
        _, losses = model.output.loss(features[:, -size:], rows[:, -size:])
        return losses.cpu()

    rows = chain.from_iterable(compute_batches(compute, batches))
    sizes = np.diff(ends, prepend=0).tolist()
    return torch.cat([row[-size:] for row, size in zip(rows, sizes, strict=True)])


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


def describe_convention(model: LanguageModel) -> str:
    """Return the convention of the metrics, in a line."""
    reading = "what was read is carried on from text to text"
    if model.context is not None:
        reading = f"read in windows of {model.context} that overlap by half"
    return (
        "perplexity counts every token and the end of every text, the last window too; "
        f"{reading}"
    )
