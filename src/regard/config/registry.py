"""Classes by name, each imported when it is asked for: a command waits for those that it uses alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


class Named(Mapping[str, Any]):
    """What names stand for, given where each of it is in a package: `module:class`."""

    def __init__(self, package: str, homes: Mapping[str, str]) -> None:
        self.package, self.homes = package, homes

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = self.homes[name].partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)


@dataclass(frozen=True, eq=False)
class OneOf:
    """A note, `Annotated[Any, OneOf(...)]`, on a field that is one of several dataclasses: that which has in `key` the
    name that `classes` knows it by."""

    key: str
    classes: Named
