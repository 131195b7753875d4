"""Bodies of the rooms that do not have the shared verbs yet."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from regard.attribution.kinds import Kind
from regard.decoding.search import SEEDS, Search
from regard.decoding.streaming import StreamEvent
from regard.errors import InputError
from regard.maps.lookups import Lookups
from regard.serve.operation import ResponsePart
from regard.serve.request import AttributionKinds, RequestBody
from regard.serve.stream import LastViews, stream_parts

Width = Annotated[int, Field(ge=1, le=64)]
Tokens = tuple[Annotated[int, Field(ge=0)], ...]


class Drawn(RequestBody):
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


class Looked(RequestBody):
    """A text, what the model is made to write of it or behind it, `finished` or not, and what is to be seen of that."""

    text: str
    target: str
    finished: bool = True
    kinds: AttributionKinds = ("weights",)


class Streamed(Drawn):
    """An answer that is told token by token, and begins with a text or with tokens. With `view` the last line has all
    that was looked at once more, for the component, and where they are known what the scores were made of; of other
    `kinds` what else the answer depended on. None: the weights, of a model that attends."""

    prefix: str = ""
    prefix_tokens: Tokens = ()
    view: bool = False
    kinds: AttributionKinds | None = None

    def begun(self, encode: Callable[[str], Sequence[int]]) -> Sequence[int]:
        """The tokens it begins with, where `encode` gives those of a text. Raises InputError where text and tokens are
        given, and as `encode`."""
        if self.prefix and self.prefix_tokens:
            raise InputError("prefix and prefix_tokens are both given; choose one")
        return self.prefix_tokens or encode(self.prefix)


def viewed(
    events: Iterator[StreamEvent],
    requests: Sequence[Streamed],
    possible: Sequence[Kind],
    seen: Callable[[int, Sequence[int], Sequence[Kind]], Lookups],
) -> Iterator[ResponsePart]:
    """The lines, with the views of whole answers."""
    return LastViews(requests, possible, lambda *which: [seen(*which)]).added(stream_parts(events))
