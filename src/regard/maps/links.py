"""Word alignment as sets of links: made from weights, joined from two directions, scored against gold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Link = tuple[int, int]
"""A source word and a target word, counted from 0."""
Links = frozenset[Link]


@dataclass(frozen=True)
class Gold:
    """Links by hand: `sure` ones must be found, of the `possible` ones, which include the sure, any may be."""

    sure: Links
    possible: Links


def strongest(weights: Float[np.ndarray, "target source"]) -> Links:
    """Each target word with the source word that it read most, the first of equals; a word that read nothing has no
    link."""
    return frozenset((int(row.argmax()), word) for word, row in enumerate(weights) if row.any())


def turned(links: Links) -> Links:
    """The same links with source and target exchanged."""
    return frozenset((target, source) for source, target in links)


def intersection(forward: Links, backward: Links) -> Links:
    """What both directions say; both as (source, target)."""
    return forward & backward


def union(forward: Links, backward: Links) -> Links:
    """What either direction says; both as (source, target)."""
    return forward | backward


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """The intersection; grown by neighbours, diagonal ones too, that link a word without link and are in the union; and
    at last by those of either direction that link two words without link (Och & Ney 2003; Koehn 2005, figure 1)."""
    links, either = set(forward & backward), forward | backward
    neighbours = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    grown = True
    while grown:
        grown = False
        for source, target in sorted(links):
            for new in ((source + i, target + j) for i, j in neighbours):
                if new in either and new not in links and _touches(new, links, any):
                    links.add(new)
                    grown = True
    for direction in (forward, backward):
        for new in sorted(direction):
            if new not in links and _touches(new, links, all):
                links.add(new)
    return frozenset(links)


def _touches(new: Link, links: set[Link], how: Callable[[Sequence[bool]], bool]) -> bool:
    """Whether any or all of the two words of a link have none yet."""
    return how([all(new[side] != old[side] for old in links) for side in (0, 1)])


@dataclass(frozen=True)
class LinkScores:
    """All between 0 and 1; see `score_links`."""

    aer: float
    precision: float
    recall: float


def score_links(found: Sequence[Links], gold: Sequence[Gold]) -> LinkScores:
    """Over all sentences together: AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), precision |A & P| / |A|, recall
    |A & S| / |S| (Och & Ney 2003, section 4.1). Without any link to divide by, a share is 1 and the error 0.

    Raises ValueError unless there are as many of both.
    """
    pairs = list(zip(found, gold, strict=True))
    links, sure = sum(len(a) for a, _ in pairs), sum(len(g.sure) for _, g in pairs)
    right = sum(len(a & g.possible) for a, g in pairs)
    hit = sum(len(a & g.sure) for a, g in pairs)
    return LinkScores(
        1 - (hit + right) / (links + sure) if links + sure else 0.0,
        right / links if links else 1.0,
        hit / sure if sure else 1.0,
    )


def pharaoh(links: Links) -> str:
    """`i-j` for each link, in order, with blanks between."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def errors_of_maps(maps: Sequence[Float[np.ndarray, "map _target _source"]], gold: Sequence[Gold]) -> list[float]:
    """The error rate of each map, by the strongest links of each sentence alone."""
    count = len(maps[0]) if maps else 0
    return [score_links([strongest(each[number]) for each in maps], gold).aer for number in range(count)]
