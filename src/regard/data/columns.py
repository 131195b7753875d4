"""Columns whose rows differ in length, in memory or mapped from an Arrow file."""

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from regard.storage.atomic import replacing

COUNTS = b"regard.counts"


@dataclass(frozen=True, eq=False)
class Ragged:
    """Row i of a column is `values[offsets[i] : offsets[i + 1]]`: ids, or the bytes of a text (uint8)."""

    values: np.ndarray
    offsets: Int[np.ndarray, " row_and_one"]

    @classmethod
    def of_ids(
        cls, rows: Sequence[Sequence[int]], kind: type[np.generic] = np.int32
    ) -> "Ragged":
        """Rows of integers."""
        offsets = _offsets([len(row) for row in rows])
        return cls(
            np.fromiter(chain.from_iterable(rows), dtype=kind, count=int(offsets[-1])),
            offsets,
        )

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> "Ragged":
        """Texts as UTF-8, lone surrogates as three bytes each."""
        written = [text.encode(errors="surrogatepass") for text in texts]
        return cls(
            np.frombuffer(b"".join(written), dtype=np.uint8),
            _offsets([len(each) for each in written]),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def text(self, row: int) -> str:
        """The text of a row of bytes."""
        return self[row].tobytes().decode(errors="surrogatepass")

    @property
    def lengths(self) -> Int[np.ndarray, " row"]:
        """The length of each row."""
        return np.diff(self.offsets)


def _offsets(lengths: Sequence[int]) -> Int[np.ndarray, " row_and_one"]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Shard:
    """Consecutive rows of a table as columns by name, and numbers about them."""

    columns: Mapping[str, Ragged]
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def write(self, path: Path) -> None:
        """Write an Arrow file with one record batch: binary columns of texts, lists of ids. Raises RunError as
        `replacing` does."""
        pa = _pyarrow()
        arrays = [_array(column) for column in self.columns.values()]
        fields = [
            pa.field(name, array.type)
            for name, array in zip(self.columns, arrays, strict=True)
        ]
        schema = pa.schema(
            fields, metadata={COUNTS: json.dumps(dict(self.counts)).encode()}
        )
        batch = pa.record_batch(arrays, schema=schema)
        with (
            replacing(path) as temporary,
            temporary.open("wb") as file,
            pa.ipc.new_file(file, schema) as writer,
        ):
            writer.write_batch(batch)

    @classmethod
    def read(cls, path: Path) -> "Shard":
        """Map a file that `write` wrote. Raises OSError and ValueError for anything else."""
        pa = _pyarrow()
        batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        metadata = batch.schema.metadata or {}
        columns = {name: _ragged(batch.column(name)) for name in batch.schema.names}
        return cls(columns, json.loads(metadata.get(COUNTS, b"{}")))


def _pyarrow() -> Any:
    """The library, which is imported where a table is on disk only."""
    return importlib.import_module("pyarrow")


def _array(column: Ragged) -> Any:
    pa = _pyarrow()
    if column.values.dtype == np.uint8:
        buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.values)]
        return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
    return pa.LargeListArray.from_arrays(
        pa.array(column.offsets), pa.array(column.values)
    )


def _ragged(array: Any) -> Ragged:
    """Views of the buffers of a column, without a copy."""
    pa = _pyarrow()
    kind = (
        np.uint8
        if pa.types.is_large_binary(array.type)
        else array.type.value_type.to_pandas_dtype()
    )
    _, offsets, *_, values = array.buffers()
    found = (
        np.frombuffer(values, dtype=kind)
        if values is not None and values.size
        else np.empty(0, dtype=kind)
    )
    return Ragged(found, np.frombuffer(offsets, dtype=np.int64)[: len(array) + 1])
