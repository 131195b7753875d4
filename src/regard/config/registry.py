"""Parts by name: the built-in ones from one literal table, the others from the entry points of installed packages."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from regard.errors import InputError


class Registry(Mapping[str, Any]):
    """Parts by name. A part is imported at its first use, so that a command imports no part that it does not use.

    `places` gives each built-in part as `module:attribute` within `package`. Other packages add parts by entry points
    of `group`, and a built-in name wins over theirs; an empty group takes none.
    """

    def __init__(
        self, package: str, places: Mapping[str, str], group: str = ""
    ) -> None:
        self.package, self.places, self.group = package, places, group

    @cached_property
    def plugins(self) -> Mapping[str, list[EntryPoint]]:
        """The entry points of each name that other packages add."""
        return plugins_of(self.group) if self.group else {}

    def __getitem__(self, name: str) -> Any:
        """Import the part. Raises KeyError for an unknown name, InputError for a plugin that cannot be imported or a
        name that two packages give."""
        if name not in self.places:
            return self._plugin(name)
        module, _, attribute = self.places[name].partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)

    def _plugin(self, name: str) -> Any:
        points = self.plugins[name]
        if len(points) > 1:
            raise InputError(
                f"{packages(points)} both add {self.group} {name!r}; uninstall one of them"
            )
        try:
            return points[0].load()
        except Exception as error:
            raise InputError(
                f"{packages(points)}: {self.group} {name!r} cannot be imported from {points[0].value} "
                f"({type(error).__name__}: {error}); repair or uninstall the package"
            ) from error

    def __contains__(self, name: object) -> bool:
        """Whether there is such a part. A built-in one is known without a search among the installed packages."""
        return name in self.places or name in self.plugins

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.places, *sorted(self.plugins)]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def plugins_of(group: str) -> dict[str, list[EntryPoint]]:
    """The entry points of a group by their names; several packages may give one."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, []).append(point)
    return found


def packages(points: Iterable[EntryPoint]) -> str:
    """The packages that entry points belong to, with their versions."""
    found = [point.dist for point in points]
    return " and ".join(
        sorted(f"{each.name} {each.version}" for each in found if each is not None)
    )


def plugins_named(names: Iterable[str]) -> list[str]:
    """The packages, with their versions, that add a part to regard under one of these names."""
    known, every = set(names), entry_points()
    groups = [group for group in every.groups if group.startswith("regard.")]
    points = [
        point
        for group in groups
        for point in every.select(group=group)
        if point.name in known
    ]
    return sorted({packages([point]) for point in points})


@dataclass(frozen=True, eq=False)
class RegisteredName:
    """A note, `Annotated[str, RegisteredName(...)]`, on a field that names a part of `registry`. A run file may give
    any name but those in `without`, the names that packages add too."""

    registry: Registry
    without: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the field accepts."""
        return tuple(name for name in self.registry if name not in self.without)

    def check(self, name: str) -> str:
        """The name. Raises ValueError for an unknown one."""
        if name in self.without or name not in self.registry:
            raise ValueError(f"got {name!r}, expected one of {', '.join(self.names)}")
        return name

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        """How pydantic checks such a field: first the type, then the name."""
        check = {"type": "no-info", "function": self.check}
        return {"type": "function-after", "function": check, "schema": handler(source)}


@dataclass(frozen=True, eq=False)
class Discriminated:
    """A note, `Annotated[Any, Discriminated(...)]`, on a field that is one of several dataclasses: the part of
    `registry` that the field `key` names, or an attribute of that part."""

    key: str
    registry: Mapping[str, Any]
    attribute: str = ""

    def choose(self, name: str) -> Any:
        """The dataclass of a name. Raises as the registry."""
        part = self.registry[name]
        return getattr(part, self.attribute) if self.attribute else part
