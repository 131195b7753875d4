"""Entities of tags, and their precision, recall and F1."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"
"""The tag of a word that belongs to no entity."""
PREFIXES = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
"""The prefixes of the schemes BIO (IOB2), IOB1, BIOES and BILOU: begin, inside, end or last, single or unit."""
BEGINS, ENDS = frozenset("BS"), frozenset("ES")


class Entity(NamedTuple):
    """The words `start` to `end`, half-open, and their label."""

    start: int
    end: int
    label: str


def parted(tag: str) -> tuple[str, str]:
    """The prefix and the label of a tag: B, I, E, S, or O without a label. A tag without prefix, such as that of a part
    of speech, is an entity of one word."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, label = tag.partition("-")
    return (PREFIXES[prefix], label) if dash and prefix in PREFIXES else ("S", tag)


def plain(tags: Iterable[str]) -> bool:
    """Whether no tag has the prefix of a scheme, as those of parts of speech."""
    return all(tag == OUTSIDE or parted(tag) == ("S", tag) for tag in tags)


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence's tags in any of the schemes, by the rules of conlleval and seqeval: an entity begins
    at B or S, and at I or E where none of the same label goes on; it ends before the next one begins, behind E and S,
    and before O."""
    found: list[Entity] = []
    start, before = 0, (OUTSIDE, "")
    for place, (prefix, label) in enumerate([*map(parted, tags), (OUTSIDE, "")]):
        goes_on = (
            prefix in ("I", "E")
            and before[0] not in (*ENDS, OUTSIDE)
            and label == before[1]
        )
        if before[0] != OUTSIDE and not goes_on:
            found.append(Entity(start, place, before[1]))
        if not goes_on:
            start = place
        before = prefix, label
    return found


def bio(tags: Sequence[str]) -> list[str]:
    """Tags of any scheme in BIO; those without prefix stay."""
    found = [OUTSIDE] * len(tags)
    for start, end, label in entities(tags):
        if tags[start] == label:
            found[start] = label
            continue
        found[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return found


def entity_metrics(
    predicted: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]
) -> dict[str, float]:
    """f1, precision and recall of entities, of which label and both ends must be right, over all sentences together;
    accuracy: the share of words with the right tag. All in per cent, as seqeval counts them; without any entity, 0.

    Raises ValueError for sentences of different lengths."""
    right = found = there = 0
    for ours, theirs in zip(predicted, expected, strict=True):
        one, other = set(entities(ours)), set(entities(theirs))
        right, found, there = (
            right + len(one & other),
            found + len(one),
            there + len(other),
        )
    same = [
        a == b
        for ours, theirs in zip(predicted, expected, strict=True)
        for a, b in zip(ours, theirs, strict=True)
    ]
    return {
        "f1": 200 * right / max(1, found + there),
        "precision": 100 * right / max(1, found),
        "recall": 100 * right / max(1, there),
        "accuracy": 100 * sum(same) / max(1, len(same)),
    }
