"""Searches that a decoder does as a whole, where nobody looks at its steps: the same hypotheses in less time."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.hypothesis import Hypothesis, LengthPenalty, NoTokenError
from regard.decoding.logits_processors import LogitsProcessor, MinimumLength
from regard.kernels.fused_search import NO_TOKEN, FusedSearch, SearchPlan
from regard.text.special import SpecialTokens
from regard.work import checkpoint


@runtime_checkable
class Searcher(Protocol):
    """A decoder that can do whole searches."""

    special: SpecialTokens

    def search(self, memory: Memory, plan: SearchPlan) -> FusedSearch | None:
        """A search by a kernel; None where only steps serve."""
        ...


def whole_search(
    decoder: Searcher,
    memory: Memory,
    limit: Tensor,
    beam: int,
    penalty: LengthPenalty,
    processors: Sequence[LogitsProcessor],
    *,
    early: bool = False,
) -> list[list[Hypothesis]] | None:
    """All ended hypotheses of each source, and the open ones where too few have ended; None where only steps serve.

    Args:
        limit: the most tokens of each source, `(batch,)`.
        beam: hypotheses of a source; 0 takes the best token at every step.

    Raises:
        NoTokenError: a hypothesis that no token can follow.
    """
    least = shortest(processors)
    if least is None or penalty.brevity is not None:
        return None
    special = decoder.special
    tokens = special.start, special.ends, special.unwritten, special.unused
    search = decoder.search(
        memory,
        SearchPlan(beam, limit, *tokens, least, penalty.alpha, penalty.offset, early),
    )
    if search is None:
        return None
    for progress in search.steps():
        checkpoint()
        if progress == NO_TOKEN:
            raise NoTokenError
    found: list[list[Hypothesis]] = [[] for _ in limit]
    for each in search.results:
        found[each.source].append(Hypothesis(each.tokens, each.score, each.finished))
    return found


def shortest(processors: Sequence[LogitsProcessor]) -> int | None:
    """The least length of texts; None if there are processors that only Python knows."""
    match [*processors]:
        case []:
            return 0
        case [MinimumLength(least=least, begins=())]:
            return least
    return None
