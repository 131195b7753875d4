"""Writes pictures, pages and tables to files, atomically."""

import io
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError, RunError
from regard.maps.alignment import Alignment, DocumentWeights
from regard.maps.lookups import lookups_from_alignment, lookups_from_document
from regard.pictures.heatmap import VECTOR_CELLS, heatmap
from regard.pictures.page import View
from regard.pictures.page import estimate_size as estimate_lookups
from regard.pictures.shaded_text import draw_document
from regard.pictures.style import plotting, resolution
from regard.pictures.text import flat_title
from regard.storage.atomic import replacing

TABLES = (".tsv", ".jsonl")
ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def write_table(
    path: Path | str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> Path:
    """Write rows to a .tsv with a header or a .jsonl, one in memory at a time.

    Numbers have six digits; tabs, line ends and backslashes of a .tsv are escaped.

    Raises:
        InputError: Another suffix, or a missing directory.
        RunError: The file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in TABLES:
        raise InputError(
            f"{path}: cannot write '{path.suffix}' tables; expected a name ending in {', '.join(TABLES)}"
        )
    if not path.parent.is_dir():
        raise InputError(f"{path}: no directory {path.parent}; create it first")
    tabbed = path.suffix.lower() == ".tsv"
    with (
        replacing(path) as part,
        part.open(
            "w", encoding="utf-8", errors="backslashreplace", newline="\n"
        ) as file,
    ):
        if tabbed:
            file.write("\t".join(columns) + "\n")
        for row in rows:
            file.write("\t".join(map(_cell, row)) if tabbed else _object(columns, row))
            file.write("\n")
    return path


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value.translate(ESCAPES)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _object(columns: Sequence[str], row: Sequence[Any]) -> str:
    values = (
        float(f"{value:.6g}") if isinstance(value, float) else value for value in row
    )
    return json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False)


if TYPE_CHECKING:
    from matplotlib.figure import Figure


LABELS = 512
"""The default maximum of labels on each side of a picture."""


def write(
    alignment: Alignment, path: Path | str, *, title: str = "", largest: int = LABELS
) -> Path:
    """Draw the alignment into `path`, as .png, .svg, .pdf or .html by its suffix. Equal alignments give equal bytes.

    The file is written elsewhere and renamed, so a failure leaves the old one.
    `largest` is the maximum of labels per side; a larger matrix is refused with an
    estimate of the file's size.

    Raises InputError for an unknown suffix, a missing directory, a matrix too large,
    missing matplotlib or a missing font, and RunError if the file cannot be written."""
    path, form = _check_path(path, tuple(DRAW))
    if max(alignment.weights.shape) > largest:
        raise InputError(
            f"{path}: {len(alignment.source)} source x {len(alignment.target)} target labels make a file of about "
            f"{estimate(alignment, path.suffix) / 1e6:.1f} MB; at most {largest} labels per side are drawn, "
            f"unless largest is set higher"
        )
    _replace(path, DRAW[form](alignment, title))
    return path


def write_figure(
    figure: "Figure", path: Path | str, *, title: str = "", width: float | None = None
) -> Path:
    """Write a figure to `path`, .png, .svg or .pdf by its suffix, as `write` does.

    Args:
        figure: The figure.
        path: The file.
        title: The title in its metadata.
        width: The printed width in centimeters; a .png then has 300 dots per inch.

    Raises:
        InputError: As `write`, or the type would be unreadable at this width.
        RunError: As `write`.
    """
    path, form = _check_path(path, tuple(METADATA))
    title = flat_title(title) or "Image"
    _replace(
        path,
        _render(figure, form, title)
        if width is None
        else render_for_print(figure, form, title, width),
    )
    return path


def write_view(view: View, path: Path | str) -> Path:
    """Write a view to `path`, an .html file. Raises as `write` does, and if the view is too large."""
    path, _ = _check_path(path, (PAGE,))
    _replace(path, view.page().encode())
    return path


def write_document(
    document: DocumentWeights, path: Path | str, *, title: str = ""
) -> Path:
    """Write a shaded document to `path`, .png, .svg or .html by its suffix.

    Raises:
        InputError: As `write`, or there are too many words.
        RunError: As `write`.
    """
    path, form = _check_path(path, tuple(DRAW))
    words, limit = sum(map(len, document.sentences)), MOST_WORDS[form]
    if words > limit:
        rest_of_path = (
            "" if form == ".html" else f", in a .html page {MOST_WORDS['.html']:,}"
        )
        raise InputError(
            f"{path}: {words:,} words; at most {limit:,} are drawn{rest_of_path}; give a part of the document"
        )
    if form == ".html":
        _replace(
            path, View(lookups_from_document(document), title=title).page().encode()
        )
    else:
        _replace(
            path,
            _render(
                draw_document(document, title=title),
                form,
                flat_title(title) or "Document",
            ),
        )
    return path


def estimate(alignment: Alignment, suffix: str) -> int:
    """Roughly the bytes of the file, from the size of the matrix only."""
    cells, labels = (
        alignment.weights.size,
        len(alignment.source) + len(alignment.target),
    )
    inked = 200 * cells if cells <= VECTOR_CELLS else 500 * labels
    sizes = {
        ".html": 60_000 + estimate_lookups(lookups_from_alignment(alignment)),
        ".svg": 8_000 + 350 * labels + inked,
        ".png": 10_000 + 1_500 * labels,
        ".pdf": 10_000 + 200 * labels + inked // 4,
    }
    return sizes[suffix.lower()]


def _html(alignment: Alignment, title: str) -> bytes:
    return View(lookups_from_alignment(alignment), title=title).page().encode()


def _png(alignment: Alignment, title: str) -> bytes:
    return _render(
        heatmap(alignment, title=title), ".png", flat_title(title) or "Alignment"
    )


def _svg(alignment: Alignment, title: str) -> bytes:
    return _render(
        heatmap(alignment, title=title), ".svg", flat_title(title) or "Alignment"
    )


def _pdf(alignment: Alignment, title: str) -> bytes:
    return _render(
        heatmap(alignment, title=title), ".pdf", flat_title(title) or "Alignment"
    )


def _render(
    figure: "Figure", form: str, title: str, dots: float | None = None, **options: Any
) -> bytes:
    content, metadata = io.BytesIO(), METADATA[form] | {"Title": title}
    dots = resolution(*figure.get_size_inches()) if dots is None else dots
    with plotting():
        figure.savefig(content, format=form[1:], dpi=dots, metadata=metadata, **options)
    return content.getvalue()


def render_for_print(figure: "Figure", form: str, title: str, width: float) -> bytes:
    """Render a figure at a printed width in centimeters.

    Raises:
        InputError: Its type would be too small.
    """
    from matplotlib.text import Text

    if form == ".pdf":
        raise InputError(
            "a .pdf has its own width, and is scaled where it is included; write .svg or .png for a width"
        )
    inches = figure.get_size_inches()
    times = width / 2.54 / inches[0]
    type_ = min(
        (
            float(text.get_fontsize())
            for text in figure.findobj(Text)
            if text.get_text().strip()
        ),
        default=9.0,
    )
    if type_ * times < SMALLEST_TYPE:
        least = 2.54 * inches[0] * SMALLEST_TYPE / type_
        raise InputError(
            f"at {width:g} cm the type would be {type_ * times:.1f} points; expected at least {SMALLEST_TYPE:g}: give "
            f"{math.ceil(10 * least) / 10:g} cm or more, or a part of the text"
        )
    if form == ".png":
        return _render(
            figure,
            form,
            title,
            PAPER_DOTS * times,
            pil_kwargs={"dpi": (PAPER_DOTS, PAPER_DOTS)},
        )
    size_inches = _render(figure, form, title).decode()
    size = 'width="{:.4f}pt" height="{:.4f}pt"'.format(
        *(72 * side * times for side in inches)
    )
    return re.sub(
        r'width="[\d.]+pt" height="[\d.]+pt"', size, size_inches, count=1
    ).encode()


def _check_path(path: Path | str, forms: tuple[str, ...]) -> tuple[Path, str]:
    """Return the path and its suffix.

    Raises:
        InputError: An unknown suffix, or a missing directory.
    """
    path = Path(path)
    form = path.suffix.lower()
    if form not in forms:
        raise InputError(
            f"{path}: cannot write '{path.suffix}' pictures; expected a name ending in {', '.join(forms)}"
        )
    if not path.parent.is_dir():
        raise InputError(f"{path}: no directory {path.parent}; create it first")
    return path, form


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{secrets.token_hex(6)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise RunError(
            f"{path}: cannot write the picture: {error.strerror}; nothing there was changed"
        ) from error
    finally:
        if (
            part.exists()
        ):  # a read-only file system refuses to unlink even what is not there
            part.unlink()


SMALLEST_TYPE, PAPER_DOTS = 5.0, 300
"""For print: the minimum type size in points, and dots per inch."""
PAGE = ".html"
MOST_WORDS = {".png": 3_000, ".svg": 3_000, ".pdf": 3_000, ".html": 200_000}
METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": "regard"},
    ".pdf": {"CreationDate": None, "Creator": "regard", "Producer": None},
}
DRAW: dict[str, Callable[[Alignment, str], bytes]] = {
    ".png": _png,
    ".svg": _svg,
    ".pdf": _pdf,
    ".html": _html,
}
