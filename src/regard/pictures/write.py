"""One picture to one file, whole or not at all."""

import io
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import InputError, RunError
from regard.maps.alignment import Alignment
from regard.pictures.heatmap import VECTOR_CELLS, heatmap
from regard.pictures.labels import visible
from regard.pictures.page import page
from regard.pictures.style import plotting, resolution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(alignment: Alignment, path: Path | str, *, title: str = "", largest: int = 512) -> Path:
    """Draws the alignment into path, as its suffix says: .png, .svg or .html. The same alignment gives the same bytes.

    largest: how many labels a side may have; a larger matrix is refused with an estimate of the file's size. The file
    is written beside its place and renamed, so that a failure leaves what was there. Raises InputError for a suffix
    not listed, a missing directory, a matrix too large, matplotlib or a font missing, and RunError where the file
    cannot be written.
    """
    path = Path(path)
    draw = DRAW.get(path.suffix.lower())
    if draw is None:
        raise InputError(f"{path}: cannot write '{path.suffix}' pictures; expected a name ending in {', '.join(DRAW)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: no directory {path.parent}; create it first")
    if max(alignment.weights.shape) > largest:
        raise InputError(
            f"{path}: {len(alignment.source)} source x {len(alignment.target)} target labels make a file of about "
            f"{estimate(alignment, path.suffix) / 1e6:.1f} MB; at most {largest} labels a side are drawn, "
            f"unless largest is set higher"
        )
    _replace(path, draw(alignment, title))
    return path


def write_figure(figure: "Figure", path: Path | str, *, title: str = "") -> Path:
    """Writes a figure into path, .png or .svg by its suffix, as `write` does. Raises as that does."""
    path = Path(path)
    form = path.suffix.lower()
    if form not in (".png", ".svg"):
        raise InputError(f"{path}: cannot write '{path.suffix}' pictures; expected a name ending in .png, .svg")
    if not path.parent.is_dir():
        raise InputError(f"{path}: no directory {path.parent}; create it first")
    _replace(path, _drawn(figure, form[1:], METADATA[form] | {"Title": visible(title) or "Image"}))
    return path


def estimate(alignment: Alignment, suffix: str) -> int:
    """Roughly the bytes of the file, from the size of the matrix alone."""
    cells, labels = alignment.weights.size, len(alignment.source) + len(alignment.target)
    letters = sum(map(len, alignment.source)) * len(alignment.target)
    letters += sum(map(len, alignment.target)) * len(alignment.source)
    inked = 200 * cells if cells <= VECTOR_CELLS else 500 * labels
    sizes = {
        ".html": 16_000 + 70 * cells + letters,
        ".svg": 8_000 + 350 * labels + inked,
        ".png": 10_000 + 1_500 * labels,
    }
    return sizes[suffix.lower()]


def _html(alignment: Alignment, title: str) -> bytes:
    return page(alignment, title=title).encode()


def _png(alignment: Alignment, title: str) -> bytes:
    return _figure(alignment, title, ".png")


def _svg(alignment: Alignment, title: str) -> bytes:
    return _figure(alignment, title, ".svg")


def _figure(alignment: Alignment, title: str, form: str) -> bytes:
    metadata = METADATA[form] | {"Title": visible(title) or "Alignment"}
    return _drawn(heatmap(alignment, title=title), form[1:], metadata)


def _drawn(figure: "Figure", form: str, metadata: dict[str, str | None]) -> bytes:
    content = io.BytesIO()
    with plotting():
        figure.savefig(content, format=form, dpi=resolution(*figure.get_size_inches()), metadata=metadata)
    return content.getvalue()


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{secrets.token_hex(6)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise RunError(f"{path}: cannot write the picture: {error.strerror}; nothing there was changed") from error
    finally:
        part.unlink(missing_ok=True)


METADATA: dict[str, dict[str, str | None]] = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": "regard"}}
DRAW: dict[str, Callable[[Alignment, str], bytes]] = {".png": _png, ".svg": _svg, ".html": _html}
