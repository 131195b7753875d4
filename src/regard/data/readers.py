"""Readers of pairs: parallel text files, and two columns of a table. Each file may be a .gz file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from regard.config.recognition import suffix, text_table
from regard.data.bad_records import Row, RowCollector
from regard.data.delimited import Columns
from regard.data.lines import (
    DEFAULT_LIMITS,
    Limits,
    count_lines,
    numbered_lines,
    read_lines,
)
from regard.data.memory import Records
from regard.data.opening import files_of
from regard.data.pair import Pair
from regard.data.set_files import check_one_set
from regard.data.tables import READERS, kind, kinds, read_table
from regard.errors import InputError


def read_parallel(
    source_path: str | Path,
    target_path: str | Path,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
) -> list[Pair]:
    """Pair line i of one file with line i of the other. Raises InputError if their lengths differ or a side is
    blank."""
    paths = source_path, target_path
    sources, targets = (read_lines(path, limits) for path in paths)
    blanks = (
        _blank(path, enumerate(side, 1))
        for path, side in zip(paths, (sources, targets), strict=True)
    )
    _check_equal(paths, [len(sources), len(targets)], blanks)
    return list(_paired(paths, sources, targets, RowCollector(source_path, skip_bad)))


def stream_parallel(
    source_path: str,
    target_path: str,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
) -> Iterator[Pair]:
    """The pairs of `read_parallel`, with one in memory at a time. The files are read twice. Raises InputError as
    `read_parallel` does."""
    paths = source_path, target_path
    counts = [count_lines(path, limits) for path in paths]
    _check_equal(
        paths, counts, (_blank(path, numbered_lines(path, limits)) for path in paths)
    )
    sources, targets = (
        map(itemgetter(1), numbered_lines(path, limits)) for path in paths
    )
    yield from _paired(paths, sources, targets, RowCollector(source_path, skip_bad))


def sides(paths: tuple[str, str]) -> list[tuple[str, str]]:
    """The files of two sides, each a file, a folder or a pattern, in pairs by their order. Raises InputError for other
    numbers of files."""
    sources, targets = (files_of(str(path)) for path in paths)
    check_one_set(dict(zip(map(str, paths), (sources, targets), strict=True)))
    if len(sources) != len(targets):
        found = f"{paths[0]} names {len(sources)} files, {paths[1]} {len(targets)}"
        raise InputError(
            f"{found}; expected equally many, which are paired in the order of their names"
        )
    return list(zip(sources, targets, strict=True))


def all_pairs(
    paths: tuple[str, str],
    read: Callable[..., Iterable[Pair]],
    *,
    skip_bad: bool = False,
) -> Iterator[Pair]:
    """The pairs that `read`, one of the readers above, finds in all files of two sides. Raises InputError as it and
    `sides` do."""
    return (
        pair
        for source, target in sides(paths)
        for pair in read(source, target, skip_bad=skip_bad)
    )


def _check_equal(
    paths: tuple[str | Path, str | Path],
    counts: Sequence[int],
    blanks: Iterator[str | None],
) -> None:
    if counts[0] != counts[1]:
        blank = next((place for place in blanks if place), None)
        hint = f"first blank line at {blank}" if blank else "neither has a blank line"
        raise InputError(
            f"{paths[0]} has {counts[0]} lines, {paths[1]} has {counts[1]}; expected equally many ({hint})"
        )


def _blank(path: str | Path, lines: Iterable[tuple[int, str]]) -> str | None:
    """The place of the first blank line."""
    return next(
        (f"{path}:{number}" for number, line in lines if not line.strip()), None
    )


def _paired(
    paths: tuple[str | Path, str | Path],
    sources: Iterable[str],
    targets: Iterable[str],
    collector: RowCollector,
) -> Iterator[Pair]:
    kept = 0
    for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
        if not source.strip():
            collector.refuse(number, "blank line, so the pair has no source")
        elif not target.strip():
            collector.refuse(number, f"its partner {paths[1]}:{number} is blank")
        else:
            kept += 1
            yield Pair(source, target, f"{paths[0]}:{number}")
    collector.check(kept)


def read_pairs(
    path: str | Path, columns: Columns, *, skip_bad: bool = False
) -> list[Pair]:
    """Read the source and the target column of a table. If a JSON record's target is a list, its further items are
    correct outputs too. Raises InputError as `tables` does."""
    return pairs(read_table(path, columns, skip_bad=skip_bad))


def read_pair_files(
    files: Sequence[Path | Records],
    columns: str = "source,target",
    *,
    skip_bad: bool = False,
) -> list[Pair]:
    """Read the pairs of a source and a target file, or of two columns of one table. Raises InputError."""
    if len(files) > 2:
        raise InputError(
            f"{len(files)} files given; expected source and target text, or one table"
        )
    file, other = files[0], files[-1]
    if len(files) == 2:
        return read_parallel(file, other, skip_bad=skip_bad)
    if suffix(file) not in READERS and not text_table(file):
        raise InputError(
            f"{file}: one file must be a table ({kinds()}, or these with .gz); of plain text give two"
        )
    return read_pairs(file, _two(columns, kind(file)), skip_bad=skip_bad)


def _two(columns: str, kind: str) -> Columns:
    """Two names, or in a table without keys two numbers from 1. Raises InputError for anything else."""
    parts = [part.strip() for part in columns.split(",")]
    numbered = all(part.isdecimal() for part in parts)
    if len(parts) != 2 or not all(parts) or (numbered and kind == "jsonl"):
        expected = "two names" if kind == "jsonl" else "two names or two numbers"
        raise InputError(
            f"columns is {columns!r}; expected {expected} with a comma between"
        )
    return tuple(map(int, parts)) if numbered else tuple(parts)


def pairs(rows: Iterable[Row]) -> list[Pair]:
    """Rows of a source and a target."""
    return list(map(pair_of, rows))


def pair_of(row: Row) -> Pair:
    """A row of a source and a target."""
    source, target = row.fields
    return Pair(source, target, row.place, others=row.others)
