"""The metrics log of a run: `metrics.jsonl`, and TensorBoard's files where it is installed."""

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.storage.run_folder import RunDirectory

FILE = "metrics.jsonl"


class Metrics:
    """Write records in the main process; do nothing in the others, where `run` is None."""

    def __init__(self, run: RunDirectory | None, tensorboard: Path | None) -> None:
        self._run = run
        self._board: Any = None
        if run is not None and tensorboard is not None and importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter  # an optional dependency, slow to import

            self._board = SummaryWriter(str(tensorboard))

    def write(self, kind: str, update: int, values: Mapping[str, float | int]) -> None:
        """Append a record; a value that is not finite becomes null, since JSON has no other word for it."""
        if self._run is None:
            return
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._run.append_jsonl(FILE, {"kind": kind, "update": update, **finite})
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, update)

    def rewind(self, update: int) -> None:
        """Drop the records after an update; a resumed run writes them again."""
        if self._run is not None:
            self._run.keep_jsonl(FILE, lambda record: record["update"] <= update)

    def close(self) -> None:
        """Flush TensorBoard's files."""
        if self._board is not None:
            self._board.close()
