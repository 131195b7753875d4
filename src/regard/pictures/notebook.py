"""A page in a notebook: in a sandboxed frame, with a picture for viewers without frames."""

import io
from base64 import b64encode
from dataclasses import replace
from html import escape
from typing import NamedTuple

from regard.errors import InputError
from regard.maps.averages import shares
from regard.maps.lookups import Lookups, mean_alignment
from regard.pictures.heatmap import heatmap
from regard.pictures.labels import flat_title
from regard.pictures.multiples import multiples

LABELLED = 128
"""The maximum of labels per side in a picture; larger maps are drawn without labels."""
DOTS = {True: 100, False: 200}
"""Dots per inch of a picture with labels, and of one without."""
HEIGHT = 560
FRAME = (
    '<div style="position:relative;min-height:{height}px">{behind}<iframe sandbox="allow-scripts" srcdoc="{page}" '
    'width="100%" height="{height}" title="{title}" style="position:relative;border:0"></iframe></div>'
)
BEHIND = (
    '<img src="data:image/png;base64,{data}" width="{width}" alt="{text}" '
    'style="position:absolute;top:0;left:0;max-width:100%;max-height:{height}px">'
)


class Picture(NamedTuple):
    """A .png in base64, and its displayed width in pixels."""

    data: str
    width: int


def framed(page: str, title: str, picture: Picture | None, text: str) -> str:
    """A page in a sandboxed frame: its script runs, but reaches nothing outside. Behind it are the picture, if there is
    one, and its `text`; viewers that remove frames (GitHub, untrusted notebooks) show those."""
    behind = (
        ""
        if picture is None
        else BEHIND.format(**picture._asdict(), text=escape(text), height=HEIGHT)
    )
    inside = page.replace("&", "&amp;").replace('"', "&quot;")
    return FRAME.format(
        behind=behind, page=inside, title=escape(flat_title(title)), height=HEIGHT
    )


def picture(lookups: Lookups, title: str) -> Picture | None:
    """The mean of all maps, with amounts as shares of their row. It has labels if they are readable; otherwise the
    scale ends at the greatest weight. None if there is nothing to draw or too much, or if matplotlib or a font is
    missing."""
    targets, sources = lookups.weights.shape[2:]
    if not targets or not sources:
        return None
    labelled, content = max(targets, sources) <= LABELLED, io.BytesIO()
    alignment = mean_alignment(lookups)
    if lookups.amounts:
        alignment = replace(alignment, weights=shares(alignment.weights))
    try:
        if labelled:
            figure = heatmap(alignment, title=title)
        else:
            text = (
                f"{targets} target labels, down, read {sources} source labels, across"
            )
            figure = multiples(alignment.weights[None], (text,), (1,), title=title)
    except InputError:  # the page and the sizes remain
        return None
    figure.savefig(
        content, format="png", dpi=DOTS[labelled], metadata={"Software": None}
    )
    return Picture(
        b64encode(content.getvalue()).decode(), round(100 * figure.get_size_inches()[0])
    )
