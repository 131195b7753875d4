"""Logits processors: they forbid or force tokens at every step of a search."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from regard.config.loader import RegisteredName, Registry
from regard.shapes import Float, Int, RowIds
from regard.text.kinds import SPECIAL, SpecialTokens


class LogitsProcessor(ABC):
    """Forbid tokens by a score of minus infinity, or change scores.

    Attributes:
        on_logits: Whether greedy decoding and sampling apply it to logits, before they
            are normalized. A beam applies all processors to log-probabilities.
    """

    on_logits: ClassVar[bool] = False

    def forbidden(self, length: int) -> Sequence[int] | None:
        """Return the tokens that it forbids in every row after `length` tokens.

        None if it does anything else. A search then needs no scores of all tokens.
        """
        return None

    @abstractmethod
    def __call__(
        self,
        scores: Float[Tensor, "row vocabulary"],
        tokens: Int[Tensor, "row length"],
        sources: RowIds,
    ) -> Float[Tensor, "row vocabulary"]:
        """Process the scores of each row's next token; forbidden ones get minus infinity.

        Args:
            scores: Log-probabilities of the model, or logits.
            tokens: The tokens of each row so far.
            sources: Index of each row's source in the batch.
        """


@dataclass(frozen=True)
class NoRepeat(LogitsProcessor):
    """Forbid n-grams of `size` tokens that the text contains already.

    See Paulus 2017, 1705.04304, section 2.5.

    The `ends` are never forbidden. If all other tokens are forbidden, repetition is
    allowed.

    Raises:
        ValueError: Size below 1.
    """

    size: int
    ends: Sequence[int] = (SPECIAL.end,)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"no_repeat is {self.size}; it must be at least 1")

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        length = tokens.shape[1]
        if length < self.size:
            return scores
        runs = tokens.unfold(1, self.size, 1)
        same = (runs[..., :-1] == tokens[:, None, length - self.size + 1 :]).all(-1)
        repeats = torch.zeros_like(scores)
        repeats.scatter_add_(1, runs[..., -1], same.to(scores))
        repeats[:, list(self.ends)] = 0.0
        return forbid(scores, repeats > 0)


@dataclass(frozen=True)
class RepetitionPenalty(LogitsProcessor):
    """Divide the positive scores of tokens that the text contains by `penalty`.

    Negative scores are multiplied by it (Keskar 2019, 1909.05858, section 4.1).

    Every log-probability is negative.

    Raises:
        ValueError: Penalty not positive.
    """

    penalty: float
    on_logits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.penalty < float("inf"):
            raise ValueError(
                f"repetition_penalty is {self.penalty}; it must be above 0, where 1 changes nothing"
            )

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        present = scores.gather(1, tokens)
        smaller = torch.where(
            present < 0, present * self.penalty, present / self.penalty
        )
        return scores.scatter(1, tokens, smaller)


@dataclass(frozen=True)
class Banned(LogitsProcessor):
    """Forbid sequences of tokens.

    The last token of each wherever the text ends with the others. If all other tokens
    are forbidden, they are allowed.

    Raises:
        ValueError: A sequence is empty.
    """

    sequences: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        if any(not sequence for sequence in self.sequences):
            raise ValueError(
                "banned has an empty sequence; give at least one id in each"
            )

    def forbidden(self, length: int) -> Sequence[int] | None:
        if any(len(sequence) > 1 for sequence in self.sequences):
            return None
        return [token for (token,) in self.sequences]

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        forbidden = torch.zeros_like(scores, dtype=torch.bool)
        for *before, last in self.sequences:
            if len(before) <= tokens.shape[1]:
                ending = tokens[:, tokens.shape[1] - len(before) :]
                begun = ending == tokens.new_tensor(before)
                forbidden[:, last] |= begun.all(-1)
        return forbid(scores, forbidden)


@dataclass(frozen=True)
class MinimumLength(LogitsProcessor):
    """Forbid the `ends` until a text has `least` tokens, the end included.

    The first `begins` tokens of a source do not count.

    If all other tokens are forbidden, they are allowed.
    """

    least: int
    ends: Sequence[int] = (SPECIAL.end,)
    begins: Sequence[int] = ()

    def forbidden(self, length: int) -> Sequence[int] | None:
        if self.begins:
            return None
        return self.ends if self.least > length + 1 else ()

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        begins = tokens.new_tensor(self.begins)[sources] if self.begins else sources * 0
        short = begins + self.least > tokens.shape[1] + 1
        allowed = scores.clone()
        for end in self.ends:
            allowed[:, end].masked_fill_(short, -torch.inf)
        return unless_empty(allowed, scores)


@dataclass(frozen=True, eq=False)
class ForceToken(LogitsProcessor):
    """Force `token` behind the first `lengths (source,)` tokens of each source's text.

    Its log-probability counts as 0.
    """

    token: int
    lengths: Tensor

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        only = torch.full_like(scores, -torch.inf)
        only[:, self.token] = 0.0
        is_next = self.lengths[sources] == tokens.shape[1]
        return torch.where(is_next[:, None], only, scores)


@dataclass(frozen=True)
class Renormalize(LogitsProcessor):
    """Normalise scores to log-probabilities, so that the allowed tokens share the probability of the forbidden.

    A row without any allowed token, such as one of an empty place of a beam, stays as
    it is.
    """

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        is_empty = (scores == -torch.inf).all(-1, keepdim=True)
        return torch.where(is_empty, scores, scores.log_softmax(-1))


@dataclass(frozen=True)
class AfterPrompt(LogitsProcessor):
    """Apply a processor to texts that continue the tokens `before`, `(source, position)`."""

    processor: LogitsProcessor
    before: Int[Tensor, "source position"]

    @property
    def on_logits(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.processor.on_logits

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        text = torch.cat([self.before[sources], tokens], 1)
        return self.processor(scores, text, sources)


@dataclass(frozen=True)
class Prefix(LogitsProcessor):
    """Force the first tokens of each source's text.

    The `processors` apply behind them only. Their scores stay the model's own, but
    those of the first `begins` tokens of each source are 0: they are known, not
    predicted.
    """

    prefixes: Sequence[Sequence[int]]
    processors: Sequence[LogitsProcessor] = ()
    begins: Sequence[int] = ()

    def __call__(self, scores: Tensor, tokens: Tensor, sources: Tensor) -> Tensor:
        at = tokens.shape[1]
        result = scores
        for processor in self.processors:
            result = processor(result, tokens, sources)
        result = result.clone()
        for row, source in enumerate(sources.tolist()):
            if at < len(self.prefixes[source]):
                token = self.prefixes[source][at]
                is_known = self.begins and at < self.begins[source]
                result[row] = -torch.inf
                result[row, token] = 0.0 if is_known else scores[row, token]
        return result


def forbid(scores: Tensor, forbidden: Tensor) -> Tensor:
    """Return scores with minus infinity where `forbidden (row, vocabulary)` is true.

    Rows in which nothing else would be left keep their scores.
    """
    return unless_empty(scores.masked_fill(forbidden, -torch.inf), scores)


def unless_empty(allowed: Tensor, scores: Tensor) -> Tensor:
    """Return `allowed (row, vocabulary)`, with the row of `scores` in place of each that has no token left."""
    is_empty = allowed.amax(-1) == -torch.inf
    if is_empty.any():
        allowed[is_empty] = scores[is_empty]
    return allowed


PROCESSORS = Registry(
    "regard.decoding",
    {"no-unknown": "processors:no_unknown"},
    group="regard.processors",
)
ProcessorName = Annotated[str, RegisteredName(PROCESSORS)]


def no_unknown(special: SpecialTokens, vocabulary: int) -> LogitsProcessor:
    """No output contains the unknown piece."""
    return Banned(((special.unknown,),))
