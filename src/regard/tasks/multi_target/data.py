"""Text files in several languages, aligned by line."""

from dataclasses import dataclass
from typing import Literal

from regard.data.pair import Pair
from regard.data.readers import read_parallel
from regard.data.splits import Splits
from regard.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Multiparallel:
    """For each set the source's file and one for each of `languages`, in their order, aligned by line."""

    kind: Literal["multiparallel"] = "multiparallel"
    languages: tuple[str, ...]
    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.languages)) < max(1, len(self.languages)):
            raise InputError(f"multiparallel: languages are {', '.join(self.languages) or 'none'}; name each once")
        if wrong := [name for name in self.languages if not name.replace("-", "").isalnum()]:
            raise InputError(f"multiparallel: {wrong[0]!r} is no language's name; use letters, digits and hyphens")
        for name, paths in (("train", self.train), ("valid", self.valid), ("test", self.test)):
            if len(paths) != len(self.languages) + 1 and (paths or name != "test"):
                raise InputError(
                    f"multiparallel: {name} has {len(paths)} files; expected {len(self.languages) + 1}, the source's "
                    "and one for each language"
                )

    def load(self) -> dict[str, Splits[Pair]]:
        """Pairs by language, all with the same sources. Raises InputError with file and line for an invalid record."""
        sets = [(paths[0], paths[1:]) for paths in (self.train, self.valid, self.test) if paths]
        return {
            language: Splits(*(read_parallel(source, targets[place]) for source, targets in sets))
            for place, language in enumerate(self.languages)
        }
