"""Answers that are written while somebody watches, whatever the task."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

from pydantic import Field

from regard.attribution.available import check_kinds
from regard.attribution.kinds import Kind
from regard.decoding.search import SEEDS, Search
from regard.decoding.streaming import StreamEvent
from regard.errors import InputError
from regard.maps.lookups import Lookups
from regard.pictures.payload import payload
from regard.serve.attention import Rows, Source
from regard.serve.operation import Said
from regard.serve.request import Ask, Kinds

Width = Annotated[int, Field(ge=1, le=64)]
Tokens = tuple[Annotated[int, Field(ge=0)], ...]


class Drawn(Ask):
    """How tokens are chosen while an answer is written: the best ones, or with a `temperature` drawn."""

    candidates: Annotated[int, Field(ge=0, le=20)] = 0
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=SEEDS)] = 1

    def search(self, own: Search) -> Search:
        """A run's own, choosing so. Raises ValueError for what does not go together."""
        chosen = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "seed")}
        return replace(own.searching(1), **chosen)

    def together(self) -> Hashable:
        """What is drawn hangs on the batch, so it is drawn alone; all that is not can be written together."""
        return id(self) if self.temperature is not None else (self.candidates, self.top_k, self.top_p)


class Looked(Ask):
    """A text, what the model is made to write of it or behind it, `finished` or not, and what is to be seen of that."""

    text: str
    target: str
    finished: bool = True
    kinds: Kinds = ("weights",)


class Streamed(Drawn):
    """An answer that is told token by token, and begins with a text or with tokens. With `view` the last line has all
    that was looked at once more, for the component, and where they are known what the scores were made of; of other
    `kinds` what else the answer depended on. None: the weights, of a model that attends."""

    prefix: str = ""
    prefix_tokens: Tokens = ()
    view: bool = False
    kinds: Kinds | None = None

    def begun(self, encode: Callable[[str], Sequence[int]]) -> Sequence[int]:
        """The tokens it begins with, where `encode` gives those of a text. Raises InputError where text and tokens are
        given, and as `encode`."""
        if self.prefix and self.prefix_tokens:
            raise InputError("prefix and prefix_tokens are both given; choose one")
        return self.prefix_tokens or encode(self.prefix)


Seen = Callable[[int, Sequence[int], Sequence[Kind]], Lookups]
"""The lookups of the answer of this number, by its tokens."""


def viewed(lines: Iterator[Said], asks: Sequence[Streamed], possible: Sequence[Kind], seen: Seen) -> Iterator[Said]:
    """The lines, the last of each answer with the view of it where that is asked for, or why it cannot be seen as
    `unseen`: its rows have been sent.

    Raises InputError, before the first line, for kinds that are not possible.
    """
    for ask in asks:
        check_kinds(ask.kinds or (), possible)
    tokens: list[list[int]] = [[] for _ in asks]
    own: list[Kind] = [kind for kind in possible if kind == "weights"]
    for said in lines:
        ask, mine = asks[said.number], tokens[said.number]
        if said.data["event"] == "token":
            mine.append(said.data["token"])
        if said.last and ask.view and (kinds := ask.kinds or own):
            try:
                more = {"view": payload([seen(said.number, mine, kinds)])}
            except InputError as error:
                more = {"unseen": str(error)}
            said = said._replace(data=said.data | more)
        yield said


def written(
    grown: Iterator[StreamEvent], sources: Sequence[Source], forced: Sequence[int], more: int = 0
) -> Iterator[Said]:
    """The lines of the answers: `start`, once it is known that nothing is wrong with any of them; `token`s; `done`.

    Args:
        sources: what is there to be read by the first token of each.
        forced: how many tokens of each are.
        more: how many of what is written can be read as well.
    """
    rows: dict[int, Rows | None] = {}
    for growth in grown:
        number, attention = growth.number, growth.attention
        if number not in rows:
            rows[number] = None if attention is None else Rows.of(attention, more)
            view = None if attention is None else Rows.of(attention, more).start(attention, sources[number])
            yield Said(number, {"event": "start", "forced": forced[number], "view": view}, last=False)
        yield Said(number, _token(growth, rows[number]), last=False)
        if growth.last:
            done = {"text": growth.text, "score": growth.score, "finished": growth.finished}
            yield Said(number, {"event": "done"} | done)


def _token(growth: StreamEvent, rows: Rows | None) -> dict[str, Any]:
    return {
        "event": "token",
        "token": growth.token,
        "piece": growth.piece,
        "text": growth.text,
        "log_probability": growth.log_probability,
        "weights": None if rows is None or growth.attention is None else rows.row(growth.attention),
        "candidates": [asdict(each) for each in growth.candidates],
    }
