"""Writes one picture to one file, atomically."""

import io
import math
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError, RunError
from regard.maps.alignment import Alignment
from regard.maps.document import DocumentWeights
from regard.maps.lookups import of_alignment, of_document
from regard.pictures.document import picture
from regard.pictures.heatmap import VECTOR_CELLS, heatmap
from regard.pictures.labels import flat_title
from regard.pictures.payload import estimate as estimate_lookups
from regard.pictures.style import plotting, resolution
from regard.pictures.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LABELS = 512
"""The default maximum of labels on each side of a picture."""


def write(
    alignment: Alignment, path: Path | str, *, title: str = "", largest: int = LABELS
) -> Path:
    """Draw the alignment into `path`, as .png, .svg, .pdf or .html by its suffix. Equal alignments give equal bytes.

    The file is written elsewhere and renamed, so a failure leaves the old one. `largest` is the maximum of labels per
    side; a larger matrix is refused with an estimate of the file's size.

    Raises InputError for an unknown suffix, a missing directory, a matrix too large, missing matplotlib or a missing
    font, and RunError if the file cannot be written."""
    path, form = _checked(path, tuple(DRAW))
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
    """Write a figure to `path`, .png, .svg or .pdf by its suffix, as `write` does. With `width` (in centimetres) it is
    for print, a .png at 300 dots per inch. Raises as `write` does, and InputError for a width with unreadable type."""
    path, form = _checked(path, tuple(METADATA))
    title = flat_title(title) or "Image"
    _replace(
        path,
        _rendered(figure, form, title)
        if width is None
        else on_paper(figure, form, title, width),
    )
    return path


def write_view(view: View, path: Path | str) -> Path:
    """Write a view to `path`, an .html file. Raises as `write` does, and if the view is too large."""
    path, _ = _checked(path, (PAGE,))
    _replace(path, view.page().encode())
    return path


def write_document(
    document: DocumentWeights, path: Path | str, *, title: str = ""
) -> Path:
    """Write a shaded document to `path`, .png, .svg or .html by its suffix. Raises as `write` does, and for too many
    words."""
    path, form = _checked(path, tuple(DRAW))
    words, most = sum(map(len, document.sentences)), MOST_WORDS[form]
    if words > most:
        other = "" if form == ".html" else f", in a .html page {MOST_WORDS['.html']:,}"
        raise InputError(
            f"{path}: {words:,} words; at most {most:,} are drawn{other}; give a part of the document"
        )
    if form == ".html":
        _replace(path, View(of_document(document), title=title).page().encode())
    else:
        _replace(
            path,
            _rendered(
                picture(document, title=title), form, flat_title(title) or "Document"
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
        ".html": 60_000 + estimate_lookups(of_alignment(alignment)),
        ".svg": 8_000 + 350 * labels + inked,
        ".png": 10_000 + 1_500 * labels,
        ".pdf": 10_000 + 200 * labels + inked // 4,
    }
    return sizes[suffix.lower()]


def _html(alignment: Alignment, title: str) -> bytes:
    return View(of_alignment(alignment), title=title).page().encode()


def _png(alignment: Alignment, title: str) -> bytes:
    return _rendered(
        heatmap(alignment, title=title), ".png", flat_title(title) or "Alignment"
    )


def _svg(alignment: Alignment, title: str) -> bytes:
    return _rendered(
        heatmap(alignment, title=title), ".svg", flat_title(title) or "Alignment"
    )


def _pdf(alignment: Alignment, title: str) -> bytes:
    return _rendered(
        heatmap(alignment, title=title), ".pdf", flat_title(title) or "Alignment"
    )


def _rendered(
    figure: "Figure", form: str, title: str, dots: float | None = None, **options: Any
) -> bytes:
    content, metadata = io.BytesIO(), METADATA[form] | {"Title": title}
    dots = resolution(*figure.get_size_inches()) if dots is None else dots
    with plotting():
        figure.savefig(content, format=form[1:], dpi=dots, metadata=metadata, **options)
    return content.getvalue()


def on_paper(figure: "Figure", form: str, title: str, width: float) -> bytes:
    """The content of a figure of this printed width in centimetres. Raises InputError if its type would be too
    small."""
    from matplotlib.text import Text

    if form == ".pdf":
        raise InputError(
            "a .pdf has its own width, and is scaled where it is included; write .svg or .png for a width"
        )
    inches = figure.get_size_inches()
    times = width / 2.54 / inches[0]
    type_ = min(
        (
            float(each.get_fontsize())
            for each in figure.findobj(Text)
            if each.get_text().strip()
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
        return _rendered(
            figure,
            form,
            title,
            PAPER_DOTS * times,
            pil_kwargs={"dpi": (PAPER_DOTS, PAPER_DOTS)},
        )
    whole = _rendered(figure, form, title).decode()
    size = 'width="{:.4f}pt" height="{:.4f}pt"'.format(
        *(72 * side * times for side in inches)
    )
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', size, whole, count=1).encode()


def _checked(path: Path | str, forms: tuple[str, ...]) -> tuple[Path, str]:
    """The path and its suffix. Raises InputError for an unknown suffix and for a missing directory."""
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
