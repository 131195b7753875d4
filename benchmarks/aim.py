"""What is aimed at, and whether it is reached: one row of the table of aims."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import report

COLUMNS = "work", "ours", "peer", "peer's", "peer's / ours", "aim", "met", "limited by"


@dataclass(frozen=True)
class Aim:
    """A measured cost beside a peer's, in one unit of time or memory.

    It is met if `ours` is at most `most` and the peer's is at least `times` as much; a bound that is None does not
    count. `limited_by` names where most of the time goes.
    """

    what: str
    unit: str
    ours: float
    peer: str = ""
    theirs: float | None = None
    times: float | None = None
    most: float | None = None
    limited_by: str = ""

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None else self.theirs / self.ours

    @property
    def met(self) -> bool:
        far = self.times is not None and (self.ratio is None or self.ratio < self.times)
        return not far and (self.most is None or self.ours <= self.most)

    @property
    def limit(self) -> str:
        """Both bounds, for a reader."""
        bounds = [] if self.most is None else [f"at most {self.most:g} {self.unit}"]
        return ", ".join(bounds + ([] if self.times is None else [f"ratio at least {self.times:.3g}"]))

    def cells(self) -> tuple[str, ...]:
        """As a row of `COLUMNS`."""
        theirs = "" if self.theirs is None else f"{self.theirs:.3g} {self.unit}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        met = "yes" if self.met else "NO"
        return self.what, f"{self.ours:.3g} {self.unit}", self.peer, theirs, ratio, self.limit, met, self.limited_by

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": self.ratio, "met": self.met}


def show(aims: Sequence[Aim]) -> None:
    """Return the table, with those that are not met counted below it."""
    report.head(*COLUMNS)
    for aim in aims:
        report.row(*aim.cells())
    missed = sum(not aim.met for aim in aims)
    print(f"\n{len(aims) - missed} of {len(aims)} aims met")
