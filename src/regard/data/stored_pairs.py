"""Pairs of large files, read into a table once, and those of them that are held out."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Int

from regard.data.lines import count_lines
from regard.data.opening import files_of
from regard.data.pair import Pair
from regard.data.readers import all_pairs, pair_of, stream_parallel
from regard.data.splits import HeldOut, Splits
from regard.data.stored import Stored, StoredPairs, StoredTablePairs, remembered, stored
from regard.data.tables import Tabular


def parallel_pairs(paths: tuple[str, str], *, skip_bad: bool) -> StoredPairs:
    """The pairs of two texts on disk. Raises InputError naming file and line at fault."""
    return stored(
        StoredPairs,
        paths,
        f"parallel {skip_bad}",
        lambda: all_pairs(paths, stream_parallel, skip_bad=skip_bad),
        lambda: sum(map(count_lines, files_of(paths[0]))),
    )


def table_pairs(path: str, how: Tabular) -> StoredPairs:
    """The pairs of a table, or several, on disk. Raises InputError naming file and line at fault."""
    settings = f"table {dict(how.columns)} {how.layout()} {how.skip_bad}"
    return stored(
        StoredTablePairs,
        [path],
        settings,
        lambda: map(pair_of, how.streamed(path, how.columns)),
        lambda: 0,
    )


def with_held_out(
    how: HeldOut, every: StoredPairs, valid: Sequence[Pair], test: Sequence[Pair]
) -> Splits[Pair]:
    """The sets, with the training pairs on disk; some of them are held out where `valid` is empty. Raises InputError if
    they are too few."""
    if valid:
        return Splits(every, valid, test)
    rest, held, name = held_out_rows(
        how, every, "pairs", lambda: numbers(pair.source for pair in every)
    )
    return Splits(every.part(rest, name), [every[row] for row in held], test)


def held_out_rows(
    how: HeldOut,
    every: Stored[Any],
    unit: str,
    groups: Callable[[], Sequence[int]] | None = None,
) -> tuple[Int[np.ndarray, " row"], list[int], str]:
    """The rows of a set on disk that are not held out, those that are, and a name of the former; examples of one group
    are all in one set. They are computed once. Raises InputError if they are too few."""
    name = f"held out {how.held_out} {how.split_seed}"
    what = f"{every.paths[0]}: {len(every):,} {unit}"

    def held() -> list[int]:
        return np.flatnonzero(
            how.held(range(len(every)) if groups is None else groups(), what)
        ).tolist()

    found = remembered(every, name, held)
    return np.delete(np.arange(len(every)), found), found, name


def numbers(texts: Iterable[str]) -> list[int]:
    """A number for each text, the same for equal ones."""
    return [number(text) for text in texts]


def number(text: str, *, signed: bool = False) -> int:
    """A number for a text, the same for equal ones: eight bytes of its BLAKE2."""
    return int.from_bytes(
        blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(),
        signed=signed,
    )
