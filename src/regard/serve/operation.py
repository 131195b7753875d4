"""What can be asked of a run that is served."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.serve.request import Ask

Wanted = Callable[[int], bool]
"""Whether somebody still waits for the answer to the request of this number in its batch."""


class Said(NamedTuple):
    """Part of the answer to a request of a batch, or the last of it."""

    number: int
    data: dict[str, Any]
    last: bool = True


@dataclass(frozen=True)
class Operation:
    """How requests of one kind are answered: `answer` takes several, whose `group` is the same, as one batch. An answer
    that `streams` has parts that are sent as they come."""

    asks: type[Ask]
    answer: Callable[[Sequence[Any], Wanted], Iterator[Said]]
    group: Callable[[Any], Hashable] = id
    streams: bool = False


def at_once(answers: Callable[[Sequence[Any]], Sequence[dict[str, Any]]]) -> Callable[..., Iterator[Said]]:
    """The `answer` of an operation that answers its whole batch before anything is sent."""

    def answer(asks: Sequence[Any], wanted: Wanted) -> Iterator[Said]:
        yield from (Said(number, data) for number, data in enumerate(answers(asks)))

    return answer


@dataclass(frozen=True)
class Served:
    """A run by its name, what the page needs to know `about` it, and its operations by theirs."""

    name: str
    about: Mapping[str, Any]
    operations: Mapping[str, Operation]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"name": self.name, **self.about, "operations": list(self.operations)}
