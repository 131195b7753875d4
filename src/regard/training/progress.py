"""Progress on standard error, the metrics file, and TensorBoard's files."""

import logging
import math
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from tqdm.asyncio import tqdm_asyncio

with warnings.catch_warnings(action="ignore"):  # without widgets the bar is text
    from tqdm.auto import tqdm

from regard.storage.atomic import explain_errors
from regard.storage.run_folder import METRICS, RunDirectory
from regard.training.settings import Training
from regard.training.update import UpdateResult
from regard.work import cancellable

log = logging.getLogger("regard")


SILENT = 30.0
"""Seconds after which a line says that a validation goes on."""


def duration(seconds: float) -> str:
    """Return seconds as `m:ss` or `h:mm:ss`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


@dataclass
class UpdateSums:
    """Sums over the updates since the last record."""

    loss: float = 0.0
    terms: int = 0
    norm: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, outcome: UpdateResult, seconds: float) -> None:
        """Add an update and its seconds."""
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
        """Return the mean loss per token, the largest gradient norm, and the speed."""
        return {
            "loss": self.loss / max(self.terms, 1),
            "gradient_norm": self.norm,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens_per_second,
        }


LINE_SECONDS = 10.0
"""Seconds of training after which a line is printed without a terminal."""


class Progress:
    """Shows loss, speed (`unit` names what it counts) and time left on standard error.

    Silent unless `visible` (one process shows it).

    A terminal and a notebook get tqdm's bar; anything else gets a line every `interval`
    updates, and after ten seconds without one. Training goes on when standard error is closed or its reader is gone.
    """

    def __init__(
        self,
        steps: int,
        interval: int,
        visible: bool = True,
        unit: str = "tokens",
    ) -> None:
        self.steps = steps
        self.interval = interval
        self.visible = visible
        self.unit = unit
        self.began = time.monotonic()
        self.first: int | None = None
        self.bar: tqdm | None = None
        self.said = self.began

    def update(self, update: int, loss: float, per_second: float) -> None:
        """Show an update (counted from 1)."""
        if not self.visible:
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
            return
        now = time.monotonic()
        is_due = update % self.interval == 0 or now - self.said >= LINE_SECONDS
        if is_due or update == self.steps:
            self.said = now
            elapsed = now - self.began
            future = elapsed / (update - self.first) * (self.steps - update)
            place = f"{update}/{self.steps}"
            self.note(f"{place}  loss {loss:.4f}  {speed}  {duration(future)} left")

    @contextmanager
    def show_elapsed(self, activity: str) -> Iterator[None]:
        """Show how long an activity takes, whenever it calls `regard.work.checkpoint`.

        It is shown on the bar, or in a line every half a minute.
        """
        began = last = time.monotonic()

        def show() -> bool:
            nonlocal last
            now = time.monotonic()
            if self.bar is not None:
                with self._read():
                    self.bar.set_postfix_str(f"{activity}, {duration(now - began)}")
            elif now - last >= SILENT:
                last = now
                self.note(f"{activity}, {duration(now - began)}")
            return True

        show()
        with cancellable(show):
            yield

    def note(self, text: str) -> None:
        """Print a line of its own, above the bar."""
        if not self.visible or sys.stderr is None:
            return
        with self._read():
            tqdm.write(text, file=sys.stderr)
            sys.stderr.flush()

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
            self.visible = False


def _bar(steps: int, done: int) -> tqdm | None:
    """Return tqdm's bar for a notebook or a terminal; None if neither shows it."""
    is_notebook = "ipykernel" in sys.modules
    is_text = tqdm is tqdm_asyncio and not is_notebook
    if sys.stderr is None or (is_text and not sys.stderr.isatty()):
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


class MetricsFile:
    """Write records in the main process; do nothing in the others, where `run` is None.

    TensorBoard's files get them too.
    """

    def __init__(self, run: RunDirectory | None, settings: Training) -> None:
        self._run = run
        self._writes_board = settings.tensorboard
        self._board: Any = None

    def open_board(self) -> None:
        """Begin TensorBoard's files, where it is installed."""
        if self._run is None or not self._writes_board or not find_spec("tensorboard"):
            return
        from torch.utils.tensorboard import SummaryWriter

        path = self._run.path / "tensorboard"
        with explain_errors(path):
            self._board = SummaryWriter(str(path))

    def write(self, kind: str, update: int, values: Mapping[str, float | int]) -> None:
        """Append a record.

        A value that is not finite becomes null, since JSON has no other word for it.
        """
        if self._run is None:
            return
        record: dict[str, Any] = {"kind": kind, "update": update}
        for name, value in values.items():
            record[name] = value if math.isfinite(value) else None
        self._run.append_jsonl(METRICS, record)
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, update)
            self._board.flush()

    def rewind(self, update: int) -> None:
        """Drop the records after an update; a resumed run writes them again."""
        if self._run is not None:
            self._run.keep_jsonl(METRICS, lambda record: record["update"] <= update)

    def close(self) -> None:
        """End TensorBoard's files."""
        if self._board is not None:
            self._board.close()
