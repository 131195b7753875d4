"""Generated sentences with tags: names of people, places and organisations, and what a pronoun stands for."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from regard.data.generated import names, pronouns
from regard.data.generated.synthetic import Synthetic
from regard.data.splits import Splits
from regard.tasks.tagging.data import Tagged, TaggedFiles, of_spans


@dataclass(frozen=True, kw_only=True)
class GeneratedSentences(Synthetic):
    """Generated sentences with the spans of some words. Files beside them have the columns of `TaggedFiles`."""

    train: int = 3_000
    valid: int = 200
    test: int = 500

    @abstractmethod
    def sentences(self) -> tuple[Sequence[names.Sentence], ...]:
        """The sentences of the three sets."""

    def load(self) -> Splits[Tagged]:
        """Generate all three sets."""
        return Splits(*map(_tagged, self.sentences()))

    def tests(self) -> Sequence[Tagged]:
        """The sentences of the test set."""
        return self.load().test

    def read(self, path: str) -> list[Tagged]:
        """The texts of a file with the default columns. Raises InputError as `TaggedFiles.read`."""
        return TaggedFiles().read(path)

    def with_columns(
        self, names: str | None, path: str, *, skip_bad: bool = False
    ) -> TaggedFiles:
        """The section for a file, as that of `TaggedFiles`."""
        return TaggedFiles().with_columns(names, path, skip_bad=skip_bad)


@dataclass(frozen=True, kw_only=True)
class Names(GeneratedSentences):
    """Generated sentences about people, places and organisations; names of the test set are mostly new."""

    kind: Literal["names"] = "names"

    def sentences(self) -> tuple[Sequence[names.Sentence], ...]:
        return names.generate(self.sizes, self.seed)


@dataclass(frozen=True, kw_only=True)
class Pronouns(GeneratedSentences):
    """Generated sentences in which "it" stands for one of two nouns; its tag is that noun."""

    kind: Literal["pronouns"] = "pronouns"
    train: int = 6_000

    def sentences(self) -> tuple[Sequence[names.Sentence], ...]:
        return pronouns.generate(self.sizes, self.seed)


def _tagged(sentences: Sequence[names.Sentence]) -> list[Tagged]:
    found = (of_spans(each.text, list(each.spans)) for each in sentences)
    return [
        replace(each, origin=f"sentence {n}")
        for n, each in enumerate(found, 1)
        if isinstance(each, Tagged)
    ]
