"""Services that follow the metrics of a run: TensorBoard by its files, wandb and MLflow through accelerate."""

import importlib.util
import io
import logging
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from regard.errors import InputError, RunError
from regard.extras import EXTRAS, how_to_install
from regard.storage import atomic

TrackerName = Literal["tensorboard", "wandb", "mlflow"]
PROJECT = "regard"
"""The project of Weights & Biases, and the experiment of MLflow."""

log = logging.getLogger("regard")


def check_tracker(name: TrackerName | None) -> None:
    """Raises InputError for a service whose package is not installed."""
    if name is not None and importlib.util.find_spec(name) is None:
        command = how_to_install(name) if name in EXTRAS else f"pip install {name}"
        raise InputError(
            f"training.tracker is {name}, whose package is not installed: {command}, or leave it out"
        )


class Board:
    """A file of events for TensorBoard, written at once: its own writer is a thread, whose errors nobody catches."""

    def __init__(self, folder: Path) -> None:
        with atomic.explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self._path = folder / name
        self._append({"file_version": "brain.Event:2"})

    def write(self, values: Mapping[str, float | int], update: int) -> None:
        """Append the values of an update. Raises RunError when the disk is full or read-only."""
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]

        found = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in values.items()
        ]
        self._append({"step": update, "summary": Summary(value=found)})

    def close(self) -> None:
        """Nothing is open between writes."""

    def _append(self, content: Mapping[str, Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.summary.writer.record_writer import RecordWriter

        record = io.BytesIO()
        RecordWriter(record).write(
            Event(wall_time=time.time(), **content).SerializeToString()
        )
        atomic.append(self._path, record.getvalue())


class Service:
    """A run of Weights & Biases or MLflow, in the project `regard` under the name of its folder. Its address and
    whether it is offline are the service's own settings. A resumed run is a new one there."""

    def __init__(
        self, name: TrackerName, run: str, settings: Mapping[str, Any]
    ) -> None:
        """Start it, with the settings of training. Raises RunError where the service refuses."""
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        names = {"name": run} if name == "wandb" else {"run_name": run}
        self._name = name
        self._tracker = LOGGER_TYPE_TO_CLASS[name](PROJECT, **names)
        try:
            self._tracker.start()
            self._tracker.store_init_configuration(
                {
                    key: str(value) if isinstance(value, tuple) else value
                    for key, value in settings.items()
                }
            )
        except Exception as error:
            raise RunError(
                f"training.tracker {name} cannot start ({_line(error)}); see its settings"
            ) from error
        self._lost = False

    def write(self, values: Mapping[str, float | int], update: int) -> None:
        """Send the values of an update. The first failure is a warning, after which nothing more is sent."""
        if self._lost:
            return
        try:
            self._tracker.log(dict(values), step=update)
        except Exception as error:
            self._lost = True
            log.warning(
                "training.tracker %s failed (%s); the run goes on without it",
                self._name,
                _line(error),
            )

    def close(self) -> None:
        """End the run there; a failure is a warning."""
        try:
            self._tracker.finish()
        except Exception as error:
            log.warning("training.tracker %s failed (%s)", self._name, _line(error))


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
