"""Word alignments as sets of links: extracted, combined, and scored against gold."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float

from regard.maps.alignment import Matrix

Link = tuple[int, int]
"""A source word and a target word, counted from 0."""
Links = frozenset[Link]


@dataclass(frozen=True)
class Gold:
    """Gold links.

    Attributes:
        sure: Links that must be found.
        possible: Links that may be found, the sure ones included.
    """

    sure: Links
    possible: Links

    def shift(self, offset: int) -> "Gold":
        """Return the links with an offset added to the index of each word."""
        parts = self.sure, self.possible
        return Gold(*(frozenset((i + offset, j + offset) for i, j in p) for p in parts))


def link_strongest(weights: Matrix) -> Links:
    """Link each target word to its source word of greatest weight, the first of equals.

    A word without weight has no link.
    """
    rows = enumerate(weights)
    return frozenset((int(row.argmax()), word) for word, row in rows if row.any())


def transpose_links(links: Links) -> Links:
    """Exchange source and target."""
    return frozenset((target, source) for source, target in links)


def agreement(
    forward: Matrix,
    backward: Float[np.ndarray, "source target"],
) -> Links:
    """Link words whose product of weights is the greatest of both words' products.

    Liang 2006, Alignment by agreement: the posteriors of both directions are
    multiplied.
    """
    products = forward * backward.T
    return link_strongest(products) & transpose_links(link_strongest(products.T))


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Grow the intersection within the union (Och & Ney 2003; Koehn 2005, figure 1).

    Both directions are given as (source, target). Links of the union in ascending order
    join if a neighbor, diagonals included, is a link and one of their two words has
    none yet, again and again until none joins. Then links of `forward`, and then of
    `backward`, join if both of their words have none. This order is that of
    fast_align's atools (Dyer 2013); others differ in some links.
    """
    links = set(forward & backward)
    sources = {source for source, _ in links}
    targets = {target for _, target in links}

    def join(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    waiting = sorted((forward | backward) - links)
    grown = True
    while grown:
        grown = False
        for link in waiting:
            source, target = link
            is_free = source not in sources or target not in targets
            ranges = range(source - 1, source + 2), range(target - 1, target + 2)
            if is_free and not links.isdisjoint(product(*ranges)):
                join(link)
                grown = True
        waiting = [link for link in waiting if link not in links]
    for link in (*sorted(forward), *sorted(backward)):
        source, target = link
        if source not in sources and target not in targets:
            join(link)
    return frozenset(links)


@dataclass(frozen=True)
class LinkScores:
    """Scores between 0 and 1; see `score_links`."""

    aer: float
    precision: float
    recall: float


def score_links(predicted: Sequence[Links], gold: Sequence[Gold]) -> LinkScores:
    """Score the links of all sentences together (Och & Ney 2003, section 4.1).

    With links A, sure links S and possible links P: AER = 1 - (|A & S| + |A & P|) /
    (|A| + |S|), precision |A & P| / |A|, recall |A & S| / |S|. Without links to divide
    by, shares are 1 and the error is 0.

    Raises:
        ValueError: The numbers of sentences differ.
    """
    links = sure = possible_hits = sure_hits = 0
    for sentence, reference in zip(predicted, gold, strict=True):
        links += len(sentence)
        sure += len(reference.sure)
        possible_hits += len(sentence & reference.possible)
        sure_hits += len(sentence & reference.sure)
    total = links + sure
    return LinkScores(
        aer=1 - (sure_hits + possible_hits) / total if total else 0.0,
        precision=possible_hits / links if links else 1.0,
        recall=sure_hits / sure if sure else 1.0,
    )


def format_pharaoh(links: Links) -> str:
    """Format links as `i-j`, sorted and separated by spaces."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def score_maps(
    maps: Sequence[Float[np.ndarray, "map _target _source"]], gold: Sequence[Gold]
) -> list[float]:
    """Return the alignment error rate of each map's strongest links."""
    errors = []
    for sentences in zip(*maps, strict=True):
        errors.append(score_links(list(map(link_strongest, sentences)), gold).aer)
    return errors
