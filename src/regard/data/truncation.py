"""Texts that are longer than a model reads: one rule for all tasks.

Without `truncate` in the run file such a text is refused, in training and afterwards. With it, the text is cut to its
beginning, and a line of the log counts the cut ones of a call. `with counted_together():` makes one line of several
calls.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from regard.errors import InputError

log = logging.getLogger("regard")


@dataclass(frozen=True)
class Limit:
    """The most tokens that a model reads of a text.

    tokens: their number, special tokens included.
    special: how many of them are special.
    key: the key of the run file that sets the number.
    unit: what the texts are, in the plural.
    """

    tokens: int
    special: int
    key: str
    unit: str = "texts"

    def refusal(self, place: str, tokens: int) -> InputError:
        """The error for a text of more tokens, special ones not included."""
        around = (
            f" and {self.special} special token{'s' * (self.special > 1)}"
            if self.special
            else ""
        )
        return InputError(
            f"{place}: {tokens} tokens{around}, but the model takes {self.tokens}; shorten it, or train with a "
            f"larger {self.key} (--set truncate=true cuts such texts in training and prediction)"
        )

    def report(self, cut: int, texts: int) -> str:
        """What was done with so many of so many texts, and what keeps all of them."""
        which = (
            f"the {self.unit.removesuffix('s')} was"
            if texts == 1
            else f"{cut:,} of {texts:,} {self.unit} were"
        )
        return (
            f"{which} cut to the model's maximum of {self.tokens} tokens, as in training; shorten "
            f"{'it' if texts == 1 else 'them'}, or train with a larger {self.key}"
        )


_counts: ContextVar[dict[Limit, tuple[int, ...]] | None] = ContextVar(
    "regard_cut", default=None
)


def limit_lengths(
    limit: Limit,
    sequences: Sequence[list[int]],
    places: Sequence[str],
    *,
    truncate: bool = False,
) -> tuple[list[list[int]], int]:
    """The sequences, without special tokens, cut to the limit, and the number of those that were cut.

    Raises InputError naming the place of the first longer sequence, unless `truncate` is set."""
    most = limit.tokens - limit.special
    for ids, place in zip(sequences, places, strict=True):
        if len(ids) > most and not truncate:
            raise limit.refusal(place, len(ids))
    return [ids[:most] for ids in sequences], sum(len(ids) > most for ids in sequences)


def report_cut(limit: Limit, cut: int, texts: int) -> None:
    """Log how many of how many texts were cut, if any were; inside `counted_together` once at its end."""
    counts = _counts.get()
    if counts is not None:
        counts[limit] = tuple(
            map(sum, zip(counts.get(limit, (0, 0)), (cut, texts), strict=True))
        )
    elif cut:
        log.warning(limit.report(cut, texts))


@contextmanager
def counted_together(*, logged: bool = True) -> Iterator[None]:
    """Log the texts that are cut inside in one line; unless `logged`, log none."""
    token = _counts.set(counts := {})
    try:
        yield
    finally:
        _counts.reset(token)
        for limit, (cut, texts) in counts.items() if logged else ():
            report_cut(limit, cut, texts)
