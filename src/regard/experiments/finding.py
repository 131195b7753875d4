"""The result of an experiment, and its files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.pictures.chart import Part, png
from regard.storage import atomic


@dataclass(frozen=True)
class Finding:
    """A table and charts about a `claim`."""

    claim: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    charts: Sequence[Part]

    def table(self) -> str:
        """The table in Markdown."""
        cells = [
            self.columns,
            ["---"] * len(self.columns),
            *(map(shown, row) for row in self.rows),
        ]
        return "\n".join(f"| {' | '.join(row)} |" for row in cells)

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write NAME.md, NAME.json and NAME.png into the folder, which is created.

        Raises:
            InputError: the folder is a file, or matplotlib is not installed.
            RunError: a file cannot be written.
        """
        if folder.exists() and not folder.is_dir():
            raise InputError(
                f"{folder}: is not a folder; name one to write the table and the picture to"
            )
        records = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        contents = {
            ".md": f"# {name}\n\n{self.claim}\n\n{self.table()}\n".encode(),
            ".json": (
                json.dumps({"claim": self.claim, "rows": records}, indent=1) + "\n"
            ).encode(),
            ".png": png(self.charts),
        }
        for ending, content in contents.items():
            atomic.write(folder / f"{name}{ending}", content)
        return [folder / f"{name}{ending}" for ending in contents]


def shown(value: Any) -> str:
    """The text of a cell; numbers have four significant figures."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
