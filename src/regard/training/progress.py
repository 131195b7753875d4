"""Progress on standard error, the metrics file, and the services that follow it."""

import importlib.util
import logging
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm.asyncio import tqdm_asyncio
from tqdm.auto import tqdm

from regard.errors import InputError, RunError
from regard.extras import EXTRAS, how_to_install
from regard.storage.run_folder import METRICS, RunDirectory
from regard.training.settings import TrackerName, Training
from regard.training.update import UpdateResult
from regard.work import cancellable

PROJECT = "regard"
"""The project of Weights & Biases, and the experiment of MLflow."""

log = logging.getLogger("regard")


def check_tracker(name: TrackerName | None) -> None:
    """Raise InputError for a service whose package is not installed."""
    if name is not None and importlib.util.find_spec(name) is None:
        command = how_to_install(name) if name in EXTRAS else f"pip install {name}"
        raise InputError(
            f"training.tracker is {name}, whose package is not installed: {command}, or leave it out"
        )


class Service:
    """A run of Weights & Biases or MLflow, or TensorBoard's files in the run's folder.

    A run of a service belongs to the project `regard` and has the name of the run's
    folder. Its address and whether it is offline are the service's own settings. A
    resumed run is a new one there.
    """

    def __init__(self, name: TrackerName, folder: Path, settings: Training) -> None:
        """Start it, with the settings of training.

        Raises RunError where the service refuses.
        """
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        names = {
            "tensorboard": {"run_name": name, "logging_dir": folder},
            "wandb": {"run_name": PROJECT, "name": folder.name},
            "mlflow": {"experiment_name": PROJECT, "run_name": folder.name},
        }
        self._name = name
        self._tracker = LOGGER_TYPE_TO_CLASS[name](**names[name])
        try:
            self._tracker.start()
            if name != "tensorboard":
                values = asdict(settings) | {"betas": str(settings.betas)}
                self._tracker.store_init_configuration(values)
        except Exception as error:
            raise RunError(
                f"training.tracker {name} cannot start ({_line(error)}); see its settings"
            ) from error
        self._lost = False

    def write(self, values: Mapping[str, float | int], update: int) -> None:
        """Send the values of an update.

        The first failure is a warning, after which nothing more is sent.
        """
        if self._lost:
            return
        with self._warn():
            self._tracker.log(dict(values), step=update)

    def close(self) -> None:
        """End the run there; a failure is a warning."""
        with self._warn():
            self._tracker.finish()

    @contextmanager
    def _warn(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._lost = True
            message = "training.tracker %s failed (%s); the run goes on without it"
            log.warning(message, self._name, _line(error))


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


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
        """Return the mean loss per token, the largest gradient norm, and the speed."""
        return {
            "loss": self.loss / max(self.terms, 1),
            "gradient_norm": self.norm,
            "tokens": self.tokens,
            "tokens_per_second": self.tokens_per_second,
        }


class Progress:
    """Shows loss, speed (`unit` names what it counts) and time left on standard error.

    Silent unless `visible` (one process shows it).

    A terminal and a notebook get tqdm's bar; anything else gets a line every `interval`
    updates. Training goes on when standard error is closed or its reader is gone.
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
        elif update % self.interval == 0 or update == self.steps:
            elapsed = time.monotonic() - self.began
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
    """Tqdm's bar in the form for a notebook or a terminal.

    None where neither shows it.
    """
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
    """Write records in the main process; do nothing in the others, where `run` is None.

    The trackers get them too.
    """

    def __init__(self, run: RunDirectory | None, settings: Training) -> None:
        self._run = run
        self._settings = settings
        self._trackers: list[Service] = []

    def open_trackers(self) -> None:
        """Start the services that the settings name."""
        if self._run is None:
            return
        settings = self._settings
        names: set[TrackerName | None] = {settings.tracker}
        if settings.tensorboard and importlib.util.find_spec("tensorboard"):
            names.add("tensorboard")
        for name in names:
            if name is not None:
                self._trackers.append(Service(name, self._run.path, settings))

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
        named = {f"{kind}/{name}": value for name, value in values.items()}
        for tracker in self._trackers:
            tracker.write(named, update)

    def rewind(self, update: int) -> None:
        """Drop the records after an update; a resumed run writes them again."""
        if self._run is not None:
            self._run.keep_jsonl(METRICS, lambda record: record["update"] <= update)

    def close(self) -> None:
        """Close the trackers."""
        for tracker in self._trackers:
            tracker.close()
