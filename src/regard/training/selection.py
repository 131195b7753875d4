"""Which checkpoints are kept, and when validation has said enough."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.training.settings import Training

RECENT = 2
"""Last checkpoints that are always kept: should the newest be damaged, there is one before it."""


@dataclass
class Kept:
    """A checkpoint that was validated."""

    update: int
    value: float
    figures: dict[str, float]


@dataclass
class Selection:
    """The best checkpoints (best first), the recent ones (newest last), those made only because of a stop since the
    last of these, and the validations since the last record."""

    best: list[Kept] = field(default_factory=list)
    recent: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    waited: int = 0
    record: float | None = None

    def observe(self, kept: Kept, settings: Training, higher_is_better: bool) -> bool:
        """Takes note of a validation; True if it is a new record. The earlier of two equals is the better one, and a
        figure that is not a number is never one."""
        sign = 1.0 if higher_is_better else -1.0
        improved = not math.isnan(kept.value) and (self.record is None or sign * kept.value > sign * self.record)
        if improved:
            self.record = kept.value
        self.waited = 0 if improved else self.waited + 1
        if not math.isnan(kept.value):
            ranked = sorted([*self.best, kept], key=lambda one: (-sign * one.value, one.update))
            self.best = ranked[: settings.keep_best]
        return improved

    def exhausted(self, settings: Training) -> bool:
        """Whether training ends early."""
        return 0 < settings.patience <= self.waited

    def saved(self, update: int, settings: Training) -> list[int]:
        """Takes note of a regular checkpoint; returns those no longer wanted, those of stops among them."""
        known = [*(step for step in self.recent if step != update), update]
        newest = known[-max(RECENT, settings.average_last) :]
        best = [kept.update for kept in self.best]
        self.recent = [step for step in known if step in newest or step in best]
        unwanted = [step for step in [*known, *self.stops] if step not in self.recent]
        self.stops = []
        return unwanted

    def stopped(self, update: int) -> list[int]:
        """Takes note of a checkpoint that a run left in peace would not have made: it must not push out another or
        be among the last, or the mean of these would depend on the stop. Returns those no longer wanted."""
        stops = [*self.stops, update]
        self.stops = stops[-RECENT:]
        return stops[:-RECENT]

    def last(self, count: int) -> list[int]:
        """The updates of the last `count` regular checkpoints."""
        return sorted(self.recent)[-count:]

    def state(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "Selection":
        """What `state` was taken from."""
        return cls(**{**state, "best": [Kept(**kept) for kept in state["best"]]})
