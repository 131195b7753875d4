"""Conversations, as pairs of context and reply."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.lines import read_lines
from regard.data.pair import Pair

TURN = "\N{PILCROW SIGN}"
"""Follows each turn of a source, so that no source is empty."""


@dataclass(frozen=True)
class Turn:
    """One turn on one line. `first`: it begins a conversation. `place`: its `file:line`."""

    text: str
    place: str
    first: bool


def read_turns(path: str | Path) -> list[Turn]:
    """Read the turns of a file of conversations (see `regard.data.sources.Dialogue`), each on one line. Speakers and
    turns without words are skipped. Raises InputError for a file that cannot be read."""
    turns: list[Turn] = []
    block: list[str] = []
    first, blanks = True, 0
    for number, line in enumerate([*read_lines(path), ""], 1):
        if line.strip():
            first, blanks = first or blanks > 1, 0
            block.append(line)
            continue
        blanks += 1
        utterances = block[1:] if block and block[0].rstrip().endswith(":") else block
        text = " ".join(" ".join(utterances).split())
        if text:
            turns.append(Turn(text, f"{path}:{number - len(utterances)}", first))
            first = False
        block = []
    return turns


def replies(turns: Sequence[Turn], count: int, longest: int) -> list[Pair]:
    """Pairs of the last `count` turns and their reply, for each turn of at most `longest` words. The first turn of a
    conversation has no context and is skipped."""
    found: list[Pair] = []
    utterances: list[str] = []
    for turn in turns:
        utterances = [] if turn.first else utterances
        if utterances and len(turn.text.split()) <= longest:
            found.append(Pair(context(utterances, count, longest), turn.text, turn.place))
        utterances.append(turn.text)
    return found


def context(utterances: Sequence[str], count: int, longest: int) -> str:
    """The last `count` turns as a source: the last `longest` words of each, followed by `TURN`."""
    last = utterances[len(utterances) - min(count, len(utterances)) :]
    return " ".join([f"{' '.join(turn.split()[-longest:])} {TURN}" for turn in last] or [TURN])
