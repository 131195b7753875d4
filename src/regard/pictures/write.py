"""Writes pictures, pages and tables to files, atomically."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.maps.alignment import Alignment, DocumentWeights
from regard.maps.lookups import lookups_from_alignment, lookups_from_document
from regard.pictures.canvas import render
from regard.pictures.heatmap import heatmap
from regard.pictures.page import View
from regard.pictures.shaded_text import draw_document
from regard.pictures.text import flat_title
from regard.storage import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = (".tsv", ".jsonl")
PAGE = ".html"
ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": "regard"},
    ".pdf": {"CreationDate": None, "Creator": "regard", "Producer": None},
}
"""The forms of figures, and metadata that do not change with time."""
PRINT_DOTS = 300
"""Dots per inch of a picture with a printed width."""


def write_table(
    path: Path | str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> Path:
    """Write rows to a .tsv with a header or a .jsonl, one in memory at a time.

    Numbers of a .tsv have six digits; its tabs, line ends and backslashes are escaped.

    Raises:
        InputError: Another suffix, or a missing directory.
        RunError: The file cannot be written.
    """
    path, form = _check_path(path, TABLES, "tables")
    encoding: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    with atomic.replacing(path) as part, part.open("w", **encoding) as file:
        if form == ".tsv":
            file.write("\t".join(columns) + "\n")
        for row in rows:
            if form == ".tsv":
                cells = [
                    f"{value:.6g}"
                    if isinstance(value, float)
                    else str(value).translate(ESCAPES)
                    for value in row
                ]
                file.write("\t".join(cells) + "\n")
            else:
                record = dict(zip(columns, row, strict=True))
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return path


def write(
    weights: Alignment | DocumentWeights, path: Path | str, *, title: str = ""
) -> Path:
    """Draw an alignment or a document into a file, .png, .svg, .pdf or .html.

    Equal weights give equal bytes. A failure leaves the old file.

    Raises:
        InputError: An unknown suffix, a missing directory, a picture with more than 512
            labels per side or 3,000 words, missing matplotlib or a missing font.
        RunError: The file cannot be written.
    """
    path, form = _check_path(path, (*METADATA, PAGE))
    is_document = isinstance(weights, DocumentWeights)
    if form == PAGE:
        convert: Any = lookups_from_document if is_document else lookups_from_alignment
        return write_view(View(convert(weights), title=title), path)
    draw: Any = draw_document if is_document else heatmap
    return write_figure(draw(weights, title=title), path, title=title or "Attention")


def write_figure(
    figure: "Figure", path: Path | str, *, title: str = "", width: float | None = None
) -> Path:
    """Write a figure to a file, .png, .svg or .pdf by its suffix.

    Args:
        path: The file.
        title: The title in its metadata.
        width: The printed width of a .png in centimeters, with 300 dots per inch.

    Raises:
        InputError: As `write`, or a width for another form.
        RunError: As `write`.
    """
    path, form = _check_path(path, tuple(METADATA))
    options: Any = {}
    if width is not None:
        if form != ".png":
            raise InputError(
                f"{path}: only a .png has a width in centimeters; scale a {form} where it is included"
            )
        options["dpi"] = PRINT_DOTS * width / 2.54 / figure.get_size_inches()[0]
        options["pil_kwargs"] = {"dpi": (PRINT_DOTS, PRINT_DOTS)}
    metadata = METADATA[form] | {"Title": flat_title(title) or "Image"}
    atomic.write(path, render(figure, form[1:], metadata=metadata, **options))
    return path


def write_view(view: View, path: Path | str) -> Path:
    """Write a view to an .html file.

    Raises:
        InputError: As `write`, or the view is too large.
        RunError: As `write`.
    """
    path, _ = _check_path(path, (PAGE,))
    atomic.write(path, view.page().encode())
    return path


def _check_path(
    path: Path | str, forms: Sequence[str], kind: str = "pictures"
) -> tuple[Path, str]:
    """Return the path and its suffix.

    Raises:
        InputError: An unknown suffix, or a missing directory.
    """
    path = Path(path)
    form = path.suffix.lower()
    if form not in forms:
        raise InputError(
            f"{path}: cannot write '{path.suffix}' {kind}; expected a name ending in {', '.join(forms)}"
        )
    if not path.parent.is_dir():
        raise InputError(f"{path}: no directory {path.parent}; create it first")
    return path, form
