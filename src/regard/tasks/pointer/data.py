"""Generated sets of vectors with target places: sorting, and the convex hull of points."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from regard.data.generated.synthetic import SyntheticOfLengths
from regard.data.splits import Splits

Element = tuple[float, ...]


@dataclass(frozen=True)
class PointedSet:
    """Vectors of one width and the target, places counted from 0. `place` is where the set came from, for messages."""

    elements: tuple[Element, ...]
    target: tuple[int, ...]
    place: str


@dataclass(frozen=True, kw_only=True)
class Generated(SyntheticOfLengths, ABC):
    """Sets of `least` to `most` elements, uniform from 0 to 1 in every dimension.

    least: The smallest number of elements in a set.
    most: The largest number of elements in a set.
    """

    least: int = 5
    most: int = 10

    width = 1

    @abstractmethod
    def solve(self, elements: Sequence[Element]) -> list[int]:
        """The target of a set."""

    def load(self) -> Splits[PointedSet]:
        """Generate all three sets, each from a generator of its own."""
        return Splits(*(self._make(name) for name in ("train", "valid", "test")))

    def _make(self, name: str) -> list[PointedSet]:
        random = Random(f"{type(self).__name__}/{self.seed}/{name}")
        found = []
        for number in range(1, getattr(self, name) + 1):
            count = random.randint(self.least, self.most)
            elements = tuple(
                tuple(random.random() for _ in range(self.width)) for _ in range(count)
            )
            found.append(
                PointedSet(elements, tuple(self.solve(elements)), f"{name} {number}")
            )
        return found


@dataclass(frozen=True, kw_only=True)
class Sorting(Generated):
    """Numbers, and their places in ascending order; equal numbers keep their order."""

    kind: Literal["sorting"] = "sorting"

    def solve(self, elements: Sequence[Element]) -> list[int]:
        return sorted(range(len(elements)), key=lambda place: elements[place])


@dataclass(frozen=True, kw_only=True)
class ConvexHull(Generated):
    """Points of a plane, and the places of their convex hull, counter-clockwise from the first of them in the set
    (Vinyals 2015, 1506.03134, section 3.1)."""

    kind: Literal["convex-hull"] = "convex-hull"

    width = 2
    smallest = 3

    def solve(self, elements: Sequence[Element]) -> list[int]:
        order = sorted(range(len(elements)), key=lambda place: elements[place])
        lower, upper = _half(order, elements), _half(order[::-1], elements)
        hull = lower[:-1] + upper[:-1]
        first = hull.index(min(hull))
        return hull[first:] + hull[:first]


def _half(order: Sequence[int], points: Sequence[Element]) -> list[int]:
    """One side of the hull, by Andrew's monotone chain."""
    chain: list[int] = []
    for place in order:
        while (
            len(chain) > 1
            and _turn(points[chain[-2]], points[chain[-1]], points[place]) <= 0
        ):
            chain.pop()
        chain.append(place)
    return chain


def _turn(a: Element, b: Element, c: Element) -> float:
    """The cross product, above 0 where the path from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
