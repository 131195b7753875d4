"""What is computed of rows by a run: predictions, or vectors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard.data.spans import RawRow
from regard.tasks.options import PredictOptions
from regard.tasks.row_examples import row_example
from regard.tasks.run import Run

BATCH = 256
"""The rows that are computed together."""


@runtime_checkable
class Worker(Protocol):
    """A loaded model and what is computed of rows."""

    @property
    def together(self) -> int:
        """The most rows that are computed together."""
        ...

    def example(self, row: RawRow, place: str) -> Any:
        """The example of a row. Raises InputError with its place."""
        ...

    def records(
        self, examples: Sequence[Any], rows: Sequence[RawRow]
    ) -> list[dict[str, Any]]:
        """A record for each example, in plain values. Raises InputError for one that the model cannot take."""
        ...


@dataclass(frozen=True)
class Predictor:
    """Predictions of a run."""

    run: Run[Any, Any]
    options: PredictOptions

    @property
    def together(self) -> int:
        # What is sampled must not depend on the rows beside it.
        return 1 if self.run.samples(self.options) else BATCH

    def example(self, row: RawRow, place: str) -> Any:
        return row_example(self.run, row.content, place)

    def records(
        self, examples: Sequence[Any], rows: Sequence[RawRow]
    ) -> list[dict[str, Any]]:
        predictions = self.run.predict(examples, self.options)
        return [
            ({} if _has_bytes(row) else self.run.record(example)) | prediction.to_json()
            for example, row, prediction in zip(
                examples, rows, predictions, strict=True
            )
        ]


@dataclass(frozen=True)
class Embedder:
    """Values of texts, such as vectors: `embed` computes those of several texts."""

    embed: Callable[[Sequence[str]], list[dict[str, Any]]]
    together: int = BATCH

    def example(self, row: RawRow, place: str) -> str:
        return row.content if isinstance(row.content, str) else str(row.content["text"])

    def records(
        self, examples: Sequence[str], rows: Sequence[RawRow]
    ) -> list[dict[str, Any]]:
        return [
            {"text": text} | values
            for text, values in zip(examples, self.embed(examples), strict=True)
        ]


def _has_bytes(row: RawRow) -> bool:
    values = row.content.values() if isinstance(row.content, Mapping) else ()
    return any(isinstance(value, bytes | np.ndarray) for value in values)
