"""The progress of training on standard error: a bar on a terminal and in a notebook, plain lines anywhere else."""

import importlib.util
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from tqdm.asyncio import tqdm_asyncio
from tqdm.auto import tqdm

from regard.storage.run_folder import METRICS, RunDirectory
from regard.training.settings import Training
from regard.training.trackers import Board, Service
from regard.training.update import Outcome
from regard.work import cancellable

SILENT = 30.0
"""Seconds after which a line says that a validation goes on."""


def duration(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass
class Window:
    """Sums over the updates since the last record."""

    loss: float = 0.0
    terms: int = 0
    norm: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, outcome: Outcome, seconds: float) -> None:
        """One update and its seconds."""
        self.loss += outcome.loss * outcome.tokens
        self.terms += outcome.tokens
        self.norm = max(self.norm, outcome.norm)
        self.tokens += outcome.read
        self.seconds += seconds

    @property
    def tokens_per_second(self) -> float:
        """Of all processes together."""
        return self.tokens / max(self.seconds, 1e-9)

    def figures(self) -> dict[str, float | int]:
        """The mean loss per token, the largest gradient norm (before clipping), and the speed."""
        return {
            "loss": self.loss / max(self.terms, 1),
            "gradient_norm": self.norm,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens_per_second,
        }


class Progress:
    """Shows loss, speed (`unit` names what it counts) and time left on standard error; silent unless `shown` (one
    process shows it).

    A terminal and a notebook get tqdm's bar; anything else gets a line every `every` updates. Training goes on when
    standard error is closed or its reader is gone.
    """

    def __init__(
        self, steps: int, every: int, shown: bool = True, unit: str = "tokens"
    ) -> None:
        self.steps, self.every, self.shown, self.unit = steps, every, shown, unit
        self.began = time.monotonic()
        self.first: int | None = None
        self.bar: tqdm | None = None

    def update(self, update: int, loss: float, per_second: float) -> None:
        """Show an update (counted from 1)."""
        if not self.shown:
            return
        if self.first is None:
            self.first = update - 1
            with self._read():
                self.bar = _bar(self.steps, self.first)
        speed = f"{per_second:,.0f} {self.unit}/s"
        if self.bar is not None:
            self.bar.set_postfix_str(f"loss {loss:.4f}, {speed}", refresh=False)
            with self._read():
                self.bar.update(update - self.bar.n)
        elif update % self.every == 0 or update == self.steps:
            left = (
                (time.monotonic() - self.began)
                / (update - self.first)
                * (self.steps - update)
            )
            self.note(
                f"{update}/{self.steps}  loss {loss:.4f}  {speed}  {duration(left)} left"
            )

    @contextmanager
    def elapsed(self, what: str) -> Iterator[None]:
        """Show inside how long `what` has taken, whenever it calls `regard.work.checkpoint`: on the bar, or in a line
        every half a minute."""
        began = last = time.monotonic()

        def show() -> bool:
            nonlocal last
            now = time.monotonic()
            if self.bar is not None:
                with self._read():
                    self.bar.set_postfix_str(f"{what}, {duration(now - began)}")
            elif now - last >= SILENT:
                last = now
                self.note(f"{what}, {duration(now - began)}")
            return True

        show()
        with cancellable(show):
            yield

    def note(self, text: str) -> None:
        """Print a line of its own, above the bar."""
        if not self.shown or sys.stderr is None:
            return
        with self._read():
            if self.bar is not None:
                self.bar.write(text, file=sys.stderr)
            else:
                print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Draw the bar once more and end its line."""
        if self.bar is not None:
            with self._read():
                self.bar.close()
            self.bar = None

    @contextmanager
    def _read(self) -> Iterator[None]:
        """Show nothing more once standard error cannot be written."""
        try:
            yield
        except (OSError, ValueError):  # its reader is gone, or it was closed
            self.shown = False


def _bar(steps: int, done: int) -> tqdm | None:
    """tqdm's bar in the form for a notebook or a terminal; None where neither shows it."""
    if sys.stderr is None or (tqdm is tqdm_asyncio and not sys.stderr.isatty()):
        return None
    bar = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
    return tqdm(
        total=steps,
        initial=done,
        file=sys.stderr,
        bar_format=bar,
        dynamic_ncols=True,
        miniters=1,
    )


class Metrics:
    """Write records in the main process; do nothing in the others, where `run` is None. The trackers get them too."""

    def __init__(self, run: RunDirectory | None, settings: Training) -> None:
        self._run = run
        self._trackers: list[Board | Service] = []
        if run is None:
            return
        if importlib.util.find_spec("tensorboard") and (
            settings.tensorboard or settings.tracker == "tensorboard"
        ):
            self._trackers.append(Board(run.path / "tensorboard"))
        if settings.tracker is not None and settings.tracker != "tensorboard":
            self._trackers.append(
                Service(settings.tracker, run.path.name, asdict(settings))
            )

    def write(self, kind: str, update: int, values: Mapping[str, float | int]) -> None:
        """Append a record; a value that is not finite becomes null, since JSON has no other word for it."""
        if self._run is None:
            return
        finite = {
            name: value if math.isfinite(value) else None
            for name, value in values.items()
        }
        self._run.append_jsonl(METRICS, {"kind": kind, "update": update, **finite})
        for each in self._trackers:
            each.write(
                {f"{kind}/{name}": value for name, value in values.items()}, update
            )

    def rewind(self, update: int) -> None:
        """Drop the records after an update; a resumed run writes them again."""
        if self._run is not None:
            self._run.keep_jsonl(METRICS, lambda record: record["update"] <= update)

    def close(self) -> None:
        """Close the trackers."""
        for each in self._trackers:
            each.close()
