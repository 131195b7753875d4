"""Parts by name: built-in ones from a literal table, others from installed packages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from regard.errors import InputError


class Registry(Mapping[str, Any]):
    """Parts by name, each imported at its first use.

    Args:
        package: The package of the built-in parts.
        locations: Each built-in part, or its `module:attribute` within `package`.
        group: Entry points by which other packages add parts; a built-in name wins
            over theirs. Empty: they add none.
    """

    def __init__(
        self, package: str, locations: Mapping[str, Any], group: str = ""
    ) -> None:
        self.package = package
        self.locations = locations
        self.group = group

    @cached_property
    def plugins(self) -> Mapping[str, EntryPoint]:
        """The entry points that other packages add, by name."""
        return find_plugins(self.group) if self.group else {}

    def __getitem__(self, name: str) -> Any:
        """Import the part.

        Raises:
            KeyError: The name is unknown.
            InputError: A plugin cannot be imported.
        """
        if name not in self.locations:
            return self._load_plugin(name)
        location = self.locations[name]
        if not isinstance(location, str):
            return location
        module, _, attribute = location.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)

    def build(self, config: Any, *sizes: Any) -> Any:
        """Build the part named in a configuration, with fresh weights."""
        return self[config.name](*sizes, config)

    def _load_plugin(self, name: str) -> Any:
        point = self.plugins[name]
        try:
            return point.load()
        except Exception as error:
            raise InputError(
                f"{name_package(point)}: {self.group} {name!r} cannot be imported from "
                f"{point.value} ({type(error).__name__}: {error}); repair or uninstall the "
                "package"
            ) from error

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a part; built-in ones need no search."""
        return name in self.locations or name in self.plugins

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.locations, *sorted(self.plugins)]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def find_plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name."""
    return {point.name: point for point in entry_points(group=group)}


def name_package(point: EntryPoint) -> str:
    """Return the package that an entry point belongs to, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


@dataclass(frozen=True, eq=False)
class RegisteredName:
    """A note on a `str` field that names a part of a registry."""

    registry: Registry
    without: tuple[str, ...] = ()
    """Names that the field does not accept."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the field accepts."""
        return tuple(name for name in self.registry if name not in self.without)

    def check(self, name: str) -> str:
        """Return the name. Raises ValueError for an unknown one."""
        if name in self.without or name not in self.registry:
            raise ValueError(", ".join(self.names))
        return name

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # not for commands that read no run file

        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {"enum": list(self.names)}


@dataclass(frozen=True, eq=False)
class Discriminated:
    """A note on a field that is one of several dataclasses, `Annotated[Any, ...]`."""

    key: str
    """The field that names the dataclass."""
    registry: Mapping[str, Any]
    """The dataclasses by name, or parts that have one."""
    attribute: str = ""
    """The attribute of a part that is its dataclass."""

    def choose(self, name: str) -> Any:
        """Return the dataclass of a name. Raises as the registry."""
        part = self.registry[name]
        return getattr(part, self.attribute) if self.attribute else part

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        choices = {
            name: handler.generate_schema(self.choose(name)) for name in self.registry
        }
        return core_schema.tagged_union_schema(choices, self.key)
