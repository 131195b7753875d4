"""Records that a table has and that turn out to be bad when they are used: a sound that is cut short, an image that is
broken. The policy is that for bad records of a table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from regard.data.bad_records import RowCollector
from regard.data.splits import Splits
from regard.errors import InputError


@runtime_checkable
class Placed(Protocol):
    """A record with its `file:line`, or the path of its file."""

    @property
    def place(self) -> str: ...


@runtime_checkable
class Skipping(Protocol):
    """A `data:` section with the key `skip_bad`."""

    @property
    def skip_bad(self) -> bool: ...


P = TypeVar("P", bound=Placed)
V = TypeVar("V")


def usable(
    records: Iterable[P], use: Callable[[P], V], path: Any, *, skip_bad: bool
) -> list[V]:
    """What `use` makes of the records of a file. One for which it raises InputError is bad: raises BadRecord, or with
    `skip_bad` counts and skips it. Raises InputError where none is left."""
    return list(usable_stream(records, use, path, skip_bad=skip_bad))


def usable_stream(
    records: Iterable[P], use: Callable[[P], V], path: Any, *, skip_bad: bool
) -> Iterator[V]:
    """What `usable` returns, one after the other."""
    collector, kept = RowCollector(path, skip_bad), 0
    for each in _used(records, use, collector):
        kept += 1
        yield each
    collector.check(kept)


def usable_files(
    files: Iterable[Any],
    read: Callable[[str], Iterable[P]],
    use: Callable[[P], V],
    *,
    skip_bad: bool,
) -> list[V]:
    """What `use` makes of the records that `read` finds in files. Raises as `usable`."""
    sets = ((str(file), read(str(file))) for file in files)
    return [
        each
        for path, some in sets
        for each in usable(some, use, path, skip_bad=skip_bad)
    ]


def usable_sets(splits: Splits[P], use: Callable[[P], V], data: Any) -> Splits[V]:
    """What `use` makes of the records of a section's sets, as `usable`; those of one file are counted together. A
    section without the key `skip_bad` skips none."""
    if not isinstance(data, Skipping):
        return Splits(*([use(each) for each in some] for some in splits.named.values()))
    collectors: dict[str, RowCollector] = {}
    counts: dict[str, int] = {}
    found: list[Sequence[V]] = []
    for name, some in splits.named.items():
        path = _named(getattr(data, name, None) or getattr(data, "train", name))
        collector = collectors.setdefault(path, RowCollector(path, data.skip_bad))
        found.append(list(_used(some, use, collector)))
        counts[path] = counts.get(path, 0) + len(found[-1])
        if some and not found[-1]:
            raise InputError(
                f"{path}: no usable record is left for the set {name} (first: {collector.first})"
            )
    for path, collector in collectors.items():
        if counts[path] or collector.skipped:
            collector.check(counts[path])
    return Splits(*found)


def _used(
    records: Iterable[P], use: Callable[[P], V], collector: RowCollector
) -> Iterable[V]:
    for each in records:
        try:
            found = use(each)
        except InputError as error:
            text = str(error)
            collector.refuse_record(
                text if text.startswith(each.place) else f"{each.place}: {text}"
            )
            continue
        yield found


def _named(files: Any) -> str:
    """The file of a set, or several."""
    return ", ".join(files) if isinstance(files, tuple | list) else str(files)
