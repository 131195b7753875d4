"""The figure of a tagged text: for each entity the text, shaded by what the entity reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from regard.data.token_words import parts_of
from regard.maps.alignment import Alignment
from regard.maps.text import TextWeights, one_below_the_other
from regard.metrics.entities import Entity
from regard.pictures.shaded import shaded
from regard.tasks.shading import followed, shaded_parts
from regard.tasks.tagging.parts import Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 10
"""The most entities that are texts."""


def of_entities(
    text: str,
    offsets: Sequence[tuple[int, int]],
    part: Part,
    found: Sequence[Entity],
    weights: Alignment,
    detail: str,
    title: str,
) -> Figure:
    """The first entities, each with its own copy of the text; arguments are those of `entity_weights`, and what the
    picture shows."""
    lines = [
        title,
        detail,
        *([f"the first {MOST} of {len(found)} entities"] if len(found) > MOST else []),
    ]
    return shaded(
        entity_weights(text, offsets, part, found[:MOST], weights),
        title="\n".join(lines),
    )


def entity_weights(
    text: str,
    offsets: Sequence[tuple[int, int]],
    part: Part,
    found: Sequence[Entity],
    weights: Alignment,
) -> TextWeights:
    """For each entity its label and the words of a part of the text, those of the entity framed, with their shares of
    what the entity reads: the mean over its words, or its row of a gradient. Special tokens are left out.

    offsets: the characters of each token of the text.
    weights: (position of the part, position), or (entity, position).
    """
    own = offsets[: len(part.ids) - 2]
    whole = parts_of(text, own)
    words = followed(whole) if len(own) < len(offsets) else whole
    texts = []
    for number, entity in enumerate(found):
        places = part.positions[entity.start : entity.end]
        rows = weights.weights[
            list(places) if len(weights.target) == len(part.ids) else [number]
        ]
        read = shaded_parts([words], [rows.mean(0)[1 : 1 + len(own)]], "the entity")
        texts.append(
            _labelled(
                read, entity.label, [whole.indices[place - 1] for place in places]
            )
        )
    return one_below_the_other(texts)


def _labelled(read: TextWeights, label: str, entity: Sequence[int]) -> TextWeights:
    """A text behind its entity's label, which has no weight; the entity's words are framed."""
    return TextWeights(
        (f"{label}:", *read.labels),
        np.concatenate([np.zeros(1), read.weights]),
        read.name,
        (0, *read.texts),
        (False, *read.glued),
        read.averaged,
        frozenset(1 + word for word in entity),
    )
