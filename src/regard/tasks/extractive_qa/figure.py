"""The figure of an answer: what it reads, with its words marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.data.token_words import parts_of
from regard.maps.alignment import Alignment
from regard.maps.text import TextWeights
from regard.pictures.heatmap import heatmap
from regard.pictures.scale import round_up
from regard.pictures.shaded import shaded
from regard.tasks.extractive_qa.training import Span, WindowedQuestions
from regard.tasks.shading import followed, preceded, shaded_parts
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AROUND = 12
"""The words that are drawn on either side of an answer."""


def of_one_row(
    tokenizer: Tokenizer,
    cut: WindowedQuestions,
    span: Span | None,
    weights: Alignment,
    title: str,
) -> Figure:
    """The question and the window that has the answer, shaded by what the answer reads of them, its words framed."""
    return shaded(answer_weights(tokenizer, cut, span, weights), title=title)


def of_two_sides(
    cut: WindowedQuestions, span: Span | None, weights: Alignment, title: str
) -> Figure:
    """What the words of the answer, which are in brackets, and those around it read of the question."""
    shown, places = around_answer(inside(cut, span), weights)
    words = f"words {places.start + 1} to {places.stop} of {len(weights.target)}"
    return heatmap(
        shown,
        title=f"{title}\n{words}{', the answer in brackets' if span else ''}",
        most=round_up(shown.weights),
    )


def answer_weights(
    tokenizer: Tokenizer, cut: WindowedQuestions, span: Span | None, weights: Alignment
) -> TextWeights:
    """What the answer reads, the mean over its tokens or over the targets of a gradient, as shares of the words of the
    question and of the window, beyond which an ellipsis is; of no answer, what the first position reads. Special tokens
    are left out."""
    (question,), window, places = cut.questions, cut.windows[0][0], inside(cut, span)
    whole = tokenizer.offsets(question.context)
    rows = weights.weights
    if len(rows) == len(weights.source):
        rows = rows[[window.first + place for place in places] or [0]]
    row, own = (
        rows.mean(0),
        tokenizer.offsets(question.question)[: len(window.question)],
    )
    context = parts_of(question.context, window.offsets)
    context = (
        followed(context) if whole and window.offsets[-1][1] < whole[-1][1] else context
    )
    context = (
        preceded(context) if whole and window.offsets[0][0] > whole[0][0] else context
    )
    parts = [parts_of(question.question, own), context]
    amounts = [
        row[1 : 1 + len(own)],
        row[window.first : window.first + len(window.part)],
    ]
    before = len(parts[0].labels)
    framed = frozenset(before + parts[1].indices[place] for place in places)
    return replace(shaded_parts(parts, amounts, "the answer"), framed=framed)


def around_answer(places: Sequence[int], weights: Alignment) -> tuple[Alignment, slice]:
    """The rows of an answer at these places, in brackets, with `AROUND` words on either side, and where they are; the
    first rows without an answer."""
    labels, first, last = list(weights.target), 0, AROUND
    if places:
        first, last = places[0], places[-1]
        labels[first] = f"[{labels[first]}"
        labels[last] = f"{labels[last]}]"
    shown = slice(max(0, first - AROUND), min(len(labels), last + 1 + AROUND))
    return Alignment(
        weights.weights[shown], weights.source, tuple(labels[shown])
    ), shown


def inside(cut: WindowedQuestions, span: Span | None) -> list[int]:
    """The tokens of the part of the one window that a span has."""
    if span is None:
        return []
    offsets = cut.windows[0][0].offsets
    return [
        place
        for place, (begin, end) in enumerate(offsets)
        if begin < span.end and end > span.start
    ]
