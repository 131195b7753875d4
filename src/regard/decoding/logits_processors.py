"""Logits processors: they forbid or force tokens at every step of a search."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.shapes import Float, Int
from regard.text.special import SPECIAL


class LogitsProcessor(ABC):
    """Forbid tokens by a score of minus infinity; the other scores stay as they are."""

    @abstractmethod
    def __call__(
        self,
        scores: Float[Tensor, "row vocabulary"],
        tokens: Int[Tensor, "row length"],
        sources: Int[Tensor, " row"],
    ) -> Float[Tensor, "row vocabulary"]:
        """Log-probabilities of each row's next token, minus infinity for forbidden tokens.

        Args:
            scores: log-probabilities of the model.
            tokens: the tokens of each row so far.
            sources: index of each row's source in the batch.
        """


@dataclass(frozen=True)
class NoRepeat(LogitsProcessor):
    """Forbid n-grams of `size` tokens that the text contains already (Paulus 2017, 1705.04304, section 2.5). `end` is
    never forbidden. If all other tokens are forbidden, repetition is allowed.

    Raises:
        ValueError: size below 1.
    """

    size: int
    end: int = SPECIAL.end

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"no_repeat is {self.size}; it must be at least 1")

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        length = tokens.shape[1]
        if length < self.size:
            return scores
        runs = tokens.unfold(1, self.size, 1)
        same = (runs[..., :-1] == tokens[:, None, length - self.size + 1 :]).all(-1)
        repeats = torch.zeros_like(scores).scatter_add_(1, runs[..., -1], same.to(scores)).bool()
        repeats[:, self.end] = False
        allowed = scores.masked_fill(repeats, -torch.inf)
        return torch.where((allowed == -torch.inf).all(-1, keepdim=True), scores, allowed)


@dataclass(frozen=True)
class Prefix(LogitsProcessor):
    """Force the first tokens of each source's text; their scores stay the model's own."""

    prefixes: Sequence[Sequence[int]]

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        at = tokens.shape[1]
        following = [self.prefixes[source][at : at + 1] for source in sources.tolist()]
        forced = [(row, token) for row, few in enumerate(following) for token in few]
        if not forced:
            return scores
        rows, ids = torch.tensor(forced, device=scores.device).unbind(1)
        only = scores.clone()
        only[rows] = -torch.inf
        only[rows, ids] = scores[rows, ids]
        return only


def process(processors: Sequence[LogitsProcessor], scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
    """The scores after all processors, in order."""
    for processor in processors:
        scores = processor(scores, tokens, sources)
    return scores
