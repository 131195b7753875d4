"""Readers of word alignments: Pharaoh lines, and gold links, sure and possible."""

import json
import re
from pathlib import Path
from typing import Any

from regard.config.recognition import suffix
from regard.data.lines import read_lines
from regard.errors import InputError
from regard.maps.links import Gold, Link, Links

_LINK = re.compile(r"(\d+)([-?p])(\d+)")


def read_links(path: str | Path) -> list[Links]:
    """Read one line of `i-j` links per sentence, source and target words counted from 0. Raises InputError with file
    and line."""
    return [
        _parsed(f"{path}:{number}", line, "-")[0]
        for number, line in enumerate(read_lines(path), 1)
    ]


def read_gold(path: str | Path) -> list[Gold]:
    """Read gold links: lines of `i-j` (sure) and `i?j` or `ipj` (possible), or JSON lines with `sure`, optionally
    `possible` (lists of [source, target]) and the words `src` and `tgt`.

    Raises InputError with file and line, also for a link outside the words."""
    lines = read_lines(path)
    if suffix(path) == "jsonl":
        return [
            _from_json(f"{path}:{number}", line) for number, line in enumerate(lines, 1)
        ]
    parsed = [
        _parsed(f"{path}:{number}", line, "-?p") for number, line in enumerate(lines, 1)
    ]
    return [Gold(sure, sure | possible) for sure, possible in parsed]


def _parsed(place: str, line: str, marks: str) -> tuple[Links, Links]:
    sure: set[Link] = set()
    possible: set[Link] = set()
    for part in line.split():
        found = _LINK.fullmatch(part)
        if found is None or found[2] not in marks:
            raise InputError(
                f"{place}: got {part!r}; expected links such as {' or '.join(f'3{m}5' for m in marks)}"
            )
        (sure if found[2] == "-" else possible).add((int(found[1]), int(found[3])))
    return frozenset(sure), frozenset(possible)


def _from_json(place: str, line: str) -> Gold:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"{place}: is not JSON ({error})") from error
    if not isinstance(record, dict) or "sure" not in record:
        raise InputError(
            f"{place}: has no `sure`; expected an object with a list of [source, target] under it"
        )
    sure, possible = (_links(place, record, name) for name in ("sure", "possible"))
    source, target = (
        len(str(record[name]).split()) if name in record else None
        for name in ("src", "tgt")
    )
    check_inside(place, sure | possible, (source, target))
    return Gold(sure, sure | possible)


def check_inside(
    place: str, links: Links, words: tuple[int | None, int | None]
) -> None:
    """Raises InputError for a link to a word beyond the number of source or target words; None allows any."""
    for link in sorted(links):
        for name, at, count in zip(("source", "target"), link, words, strict=True):
            if count is not None and at >= count:
                where = f"the {count} words of the {name}; words count from 0"
                raise InputError(
                    f"{place}: link {link[0]}-{link[1]} lies outside {where}"
                )


def _links(place: str, record: dict[str, Any], name: str) -> Links:
    links: set[Link] = set()
    for link in record.get(name, []):
        match link:
            case [int() as source, int() as target] if min(source, target) >= 0:
                links.add((source, target))
            case _:
                raise InputError(
                    f"{place}: {name} has {link!r}; expected [source, target], counted from 0"
                )
    return frozenset(links)
