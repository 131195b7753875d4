"""Answers that are decoded while somebody reads them, as lines of JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.attribution.available import check_kinds
from regard.attribution.kinds import Kind
from regard.decoding.streaming import StreamEvent, StreamSource
from regard.errors import InputError
from regard.maps.lookups import Lookups
from regard.pictures.payload import payload
from regard.serve.operation import ResponsePart

MOST = 1 << 14
"""Weights of one token; where layers, heads and keys are more, their mean over layers and heads is sent."""


@dataclass(frozen=True)
class WeightRows:
    """The weights of an answer while it is decoded, a row a token: those of all layers and heads, or the `mean`."""

    mean: bool

    @classmethod
    def of(
        cls, first: Float[np.ndarray, "layer head key"], source: StreamSource
    ) -> "WeightRows":
        """From the first row, and how many keys more the last one may have."""
        layers, heads, keys = first.shape
        return cls(layers * heads * (keys + source.growth) > MOST)

    def reduced(
        self, row: Float[np.ndarray, "layer head key"]
    ) -> Float[np.ndarray, "layer_ head_ key"]:
        """What is sent of a row."""
        return row.mean((0, 1), keepdims=True) if self.mean else row

    def start(
        self, first: Float[np.ndarray, "layer head key"], source: StreamSource
    ) -> dict[str, Any]:
        """The view before there is a row, for `regard.mount`."""
        layers, heads, keys = self.reduced(first).shape
        names = ("mean",) if self.mean else ()
        empty = np.zeros((layers, heads, 0, keys))
        return payload(
            [
                Lookups(
                    empty,
                    tuple(source.labels),
                    (),
                    layers=names,
                    patches=source.patches,
                )
            ]
        )

    def row(self, weights: Float[np.ndarray, "layer head key"]) -> list[Any]:
        """A row, for the view's `append`."""
        return np.round(self.reduced(weights), 5).tolist()


def stream_parts(events: Iterator[StreamEvent]) -> Iterator[ResponsePart]:
    """The lines of the answers: `start`, once the first step has shown that nothing is wrong with any of them;
    `token`s; `done`."""
    rows: dict[int, WeightRows | None] = {}
    for event in events:
        number, attention = event.number, event.attention
        if number not in rows:
            rows[number] = first = (
                None if attention is None else WeightRows.of(attention, event.source)
            )
            view = (
                None
                if first is None or attention is None
                else first.start(attention, event.source)
            )
            yield ResponsePart(
                number,
                {"event": "start", "forced": event.source.forced, "view": view},
                last=False,
            )
        yield ResponsePart(number, _token(event, rows[number]), last=False)
        if event.last:
            done = {
                "text": event.text,
                "score": event.score,
                "finished": event.finished,
            }
            yield ResponsePart(number, {"event": "done"} | done)


def _token(event: StreamEvent, rows: WeightRows | None) -> dict[str, Any]:
    return {
        "event": "token",
        "token": event.token,
        "piece": event.piece,
        "text": event.text,
        "log_probability": event.log_probability,
        "weights": None
        if rows is None or event.attention is None
        else rows.row(event.attention),
        "candidates": [asdict(each) for each in event.candidates],
    }


@dataclass(frozen=True)
class LastViews:
    """Views of whole answers, which their last lines have.

    requests: those of the batch; `view` says whether a view is requested, and `kinds` of what.
    possible: the kinds that there are.
    lookups: the lookups of the answer of a number, by its tokens.
    """

    requests: Sequence[Any]
    possible: Sequence[Kind]
    lookups: Callable[[int, Sequence[int], Sequence[Kind]], Sequence[Lookups]]

    def added(self, parts: Iterator[ResponsePart]) -> Iterator[ResponsePart]:
        """The parts, the last of each answer with its `view`, or in `unseen` why it has none: its rows have been sent.

        Raises InputError, before the first part, for kinds that are not possible.
        """
        for request in self.requests:
            check_kinds(request.kinds or (), self.possible)
        tokens: list[list[int]] = [[] for _ in self.requests]
        for part in parts:
            if part.data["event"] == "token":
                tokens[part.number].append(part.data["token"])
            yield (
                part._replace(
                    data=part.data | self._view(part.number, tokens[part.number])
                )
                if part.last
                else part
            )

    def _view(self, number: int, tokens: Sequence[int]) -> dict[str, Any]:
        request = self.requests[number]
        kinds: Sequence[Kind] = request.kinds or tuple(
            kind for kind in self.possible if kind == "weights"
        )
        if not request.view or not kinds:
            return {}
        try:
            return {"view": payload(list(self.lookups(number, tokens, kinds)))}
        except InputError as error:
            return {"unseen": str(error)}
