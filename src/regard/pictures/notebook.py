"""What a notebook shows: a page in a sealed frame, and behind it a picture for who sees no frames."""

import io
from base64 import b64encode
from dataclasses import replace
from html import escape
from typing import NamedTuple

from regard.errors import InputError
from regard.maps.averages import shares
from regard.maps.lookups import Lookups, mean_alignment
from regard.pictures.heatmap import heatmap
from regard.pictures.labels import visible
from regard.pictures.multiples import multiples

LABELLED = 128
"""Labels on a side of a picture; of more the weights are drawn alone."""
DOTS = {True: 100, False: 200}
"""An inch: of a picture with labels, and of one without."""
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
    """A .png in base64, and how many pixels wide it is shown."""

    data: str
    width: int


def framed(page: str, title: str, picture: Picture | None, text: str) -> str:
    """A page in a frame in which its script runs but which reaches nothing outside, over a picture, if there is one,
    and its `text`. Who leaves out frames (GitHub, notebooks that are not trusted) shows the picture; else the
    page covers it."""
    behind = "" if picture is None else BEHIND.format(**picture._asdict(), text=escape(text), height=HEIGHT)
    inside = page.replace("&", "&amp;").replace('"', "&quot;")
    return FRAME.format(behind=behind, page=inside, title=escape(visible(title)), height=HEIGHT)


def picture(lookups: Lookups, title: str) -> Picture | None:
    """The mean of all maps, amounts as shares of their row: with its labels, or where they are too many to be read
    without, on a scale up to the greatest weight. None where there is nothing to draw, no matplotlib or no font for it,
    or more than can be drawn."""
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
            text = f"{targets} target labels, down, read {sources} source labels, across"
            figure = multiples(alignment.weights[None], (text,), (1,), title=title)
    except InputError:  # the page is there, and the sizes
        return None
    figure.savefig(content, format="png", dpi=DOTS[labelled], metadata={"Software": None})
    return Picture(b64encode(content.getvalue()).decode(), round(100 * figure.get_size_inches()[0]))
