"""A document with its shades as one HTML file that asks nothing of the network."""

from html import escape
from string import Template

import numpy as np

from regard.maps import DocumentWeights
from regard.pictures.document import DARK, shades
from regard.pictures.labels import visible
from regard.pictures.page import fingerprint, resource
from regard.pictures.style import shade_classes, shade_of


def document_page(document: DocumentWeights, *, title: str = "") -> str:
    """A self-contained page: a block a sentence behind its weight, words shaded as in `document.picture`, each with its
    weight within its sentence as a tip. All text is text whatever it holds; no script runs. Needs no matplotlib."""
    style = resource("document.css") + shade_classes()
    found = shades(document)
    words = sum(map(len, document.sentences))
    return Template(resource("document.html")).substitute(
        title=escape(visible(title) or "Document"),
        style=style,
        style_hash=fingerprint(style),
        key=f"{len(document.sentences)} sentences, {words} words; before each sentence its weight; words shaded by "
        "theirs within it, and by that of their sentence",
        sentences="\n".join(
            _sentence(document, place, found.sentences[place], found.words[place])
            for place in range(len(document.sentences))
        ),
    )


def _sentence(document: DocumentWeights, place: int, shade: float, inside: np.ndarray) -> str:
    weight = f'<b class="{_classes(shade)}">{document.weights[place]:.3f}</b>'
    words = zip(document.sentences[place], document.words[place], inside, strict=True)
    text = " ".join(
        f'<span class="{_classes(each)}" title="{weight:.3f}">{escape(visible(word))}</span>'
        for word, weight, each in words
    )
    return f'<li>{weight}<div dir="auto">{text}</div></li>'


def _classes(shade: float) -> str:
    return shade_of(float(shade)) + (" strong" if shade > DARK else "")
