"""What may follow a text: rules that a search holds every step to."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.shapes import Float, Int
from regard.text.special import END


class Rule(ABC):
    """Forbids tokens, by minus infinity; never changes another score."""

    @abstractmethod
    def __call__(
        self,
        scores: Float[Tensor, "row vocabulary"],
        written: Int[Tensor, "row length"],
        sources: Int[Tensor, " row"],
    ) -> Float[Tensor, "row vocabulary"]:
        """Log-probabilities of what may follow each text written so far, for its source's number in the batch."""


@dataclass(frozen=True)
class NoRepeat(Rule):
    """No `size` tokens in a row twice in one text (Paulus 2017, 1705.04304, section 2.5). END may always follow; a text
    that nothing else could follow may repeat itself.

    Raises:
        ValueError: size below 1.
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"no_repeat is {self.size}; it must be at least 1")

    def __call__(self, scores: Tensor, written: Tensor, sources: Tensor) -> Tensor:
        length = written.shape[1]
        if length < self.size:
            return scores
        runs = written.unfold(1, self.size, 1)
        same = (runs[..., :-1] == written[:, None, length - self.size + 1 :]).all(-1)
        repeats = torch.zeros_like(scores).scatter_add_(1, runs[..., -1], same.to(scores)).bool()
        repeats[:, END] = False
        allowed = scores.masked_fill(repeats, -torch.inf)
        return torch.where((allowed == -torch.inf).all(-1, keepdim=True), scores, allowed)


@dataclass(frozen=True)
class Prefix(Rule):
    """Each source's text begins with the given tokens; their scores stay the model's own."""

    prefixes: Sequence[Sequence[int]]

    def __call__(self, scores: Tensor, written: Tensor, sources: Tensor) -> Tensor:
        at = written.shape[1]
        wanted = [self.prefixes[source][at : at + 1] for source in sources.tolist()]
        forced = [(row, token) for row, tokens in enumerate(wanted) for token in tokens]
        if not forced:
            return scores
        rows, tokens = torch.tensor(forced, device=scores.device).unbind(1)
        only = scores.clone()
        only[rows] = -torch.inf
        only[rows, tokens] = scores[rows, tokens]
        return only


def held(rules: Sequence[Rule], scores: Tensor, written: Tensor, sources: Tensor) -> Tensor:
    """The scores under all rules, in their order."""
    for rule in rules:
        scores = rule(scores, written, sources)
    return scores
