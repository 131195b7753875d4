"""Word alignments as sets of links: extracted from weights, combined from two directions, scored against gold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Link = tuple[int, int]
"""A source word and a target word, counted from 0."""
Links = frozenset[Link]


@dataclass(frozen=True)
class Gold:
    """Gold links: `sure` links must be found; `possible` links, which include the sure ones, may be."""

    sure: Links
    possible: Links


def strongest(weights: Float[np.ndarray, "target source"]) -> Links:
    """Link each target word to its source word of greatest weight, the first of equals. A word without weight has no
    link."""
    return frozenset(
        (int(row.argmax()), word) for word, row in enumerate(weights) if row.any()
    )


def turned(links: Links) -> Links:
    """Exchange source and target."""
    return frozenset((target, source) for source, target in links)


def intersection(forward: Links, backward: Links) -> Links:
    """Links of both directions, both as (source, target)."""
    return forward & backward


def union(forward: Links, backward: Links) -> Links:
    """Links of either direction, both as (source, target)."""
    return forward | backward


def agreement(
    forward: Float[np.ndarray, "target source"],
    backward: Float[np.ndarray, "source target"],
) -> Links:
    """Links as (source, target) of the maps of both directions: those whose product of weights is the greatest of its
    target word and of its source word (Liang 2006, Alignment by agreement: posteriors multiplied)."""
    both = forward * backward.T
    return intersection(strongest(both), turned(strongest(both.T)))


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Grow the intersection within the union, both directions as (source, target) (Och & Ney 2003; Koehn 2005, figure
    1).

    Links of the union in ascending order join if a neighbour, diagonals included, is a link and one of their two words
    has none yet, again and again until none joins. Then links of `forward`, and then of `backward`, join if both of
    their words have none. This order is that of fast_align's atools (Dyer 2013); others differ in some links.
    """
    links = set(forward & backward)
    sources, targets = ({link[side] for link in links} for side in (0, 1))

    def join(new: Link) -> None:
        links.add(new)
        sources.add(new[0])
        targets.add(new[1])

    waiting, grown = sorted((forward | backward) - links), True
    while grown:
        grown = False
        for new in waiting:
            if not (new[0] in sources and new[1] in targets) and not _neighbours(
                new
            ).isdisjoint(links):
                join(new)
                grown = True
        waiting = [link for link in waiting if link not in links]
    for new in (*sorted(forward), *sorted(backward)):
        if new[0] not in sources and new[1] not in targets:
            join(new)
    return frozenset(links)


def _neighbours(link: Link) -> Links:
    """The eight links around one."""
    return frozenset(
        (link[0] + i, link[1] + j)
        for i in (-1, 0, 1)
        for j in (-1, 0, 1)
        if (i, j) != (0, 0)
    )


@dataclass(frozen=True)
class LinkScores:
    """Scores between 0 and 1; see `score_links`."""

    aer: float
    precision: float
    recall: float


def score_links(found: Sequence[Links], gold: Sequence[Gold]) -> LinkScores:
    """Scores over all sentences together: AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), precision |A & P| / |A|, recall
    |A & S| / |S| (Och & Ney 2003, section 4.1). Without links to divide by, shares are 1 and the error is 0. Raises
    ValueError if the numbers of sentences differ."""
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
    """`i-j` for each link, sorted, separated by blanks."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def errors_of_maps(
    maps: Sequence[Float[np.ndarray, "map _target _source"]], gold: Sequence[Gold]
) -> list[float]:
    """The alignment error rate of each map, from each word's strongest link."""
    count = len(maps[0]) if maps else 0
    return [
        score_links([strongest(each[number]) for each in maps], gold).aer
        for number in range(count)
    ]
