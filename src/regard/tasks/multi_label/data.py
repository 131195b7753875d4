"""The `data:` sections of a run file for several labels: tables, and generated messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.config.recognition import Kind
from regard.data.generated.synthetic import Synthetic
from regard.data.generated.topics import Message, generate
from regard.data.records import ITEM
from regard.data.splits import Splits
from regard.errors import InputError
from regard.tasks.classification.data import Labelled, LabelledTables, Value

Labels = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LabelSetTables(LabelledTables):
    """Tables as those of classification, where the column `label` has any number of labels: in JSON a list, else labels
    with the `separator` between them. A text without labels has an empty list or field.

    separator: The text between the labels of a row, where they are not a list.
    """

    separator: str = "|"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.separator:
            raise InputError(
                "data.separator is empty; expected the text between two labels, such as '|'"
            )

    recognised: ClassVar[tuple[Kind, ...]] = ("table",)

    @property
    def lists(self) -> tuple[Value, ...]:
        return (self.label,)

    def label_of(self, field: str, place: str) -> Labels:
        """The labels, each once, in alphabetical order."""
        parts = field.split(ITEM) if ITEM in field else field.split(self.separator)
        return tuple(sorted({part.strip() for part in parts if part.strip()}))


@dataclass(frozen=True, kw_only=True)
class Topics(Synthetic):
    """Generated messages about none to `most` of six topics, which are their labels."""

    kind: Literal["topics"] = "topics"
    train: int = 4_000
    valid: int = 300
    test: int = 500
    most: int = 3

    @property
    def second(self) -> None:
        """A message is one text."""

    def load(self) -> Splits[Labelled[Labels]]:
        """Generate all three sets. Raises InputError for a number of topics that there are not."""
        return Splits(*map(_labelled, generate(self.sizes, self.most, self.seed)))

    def tests(self) -> Sequence[Labelled[Labels]]:
        """The messages of the test set."""
        return self.load().test

    def read(self, path: str) -> list[Labelled[Labels]]:
        """The rows of a table with the columns `text` and `label`. Raises InputError as `LabelSetTables.read`."""
        return LabelSetTables().read(path)

    def with_columns(
        self, names: str | None, *, skip_bad: bool = False
    ) -> "Topics | LabelSetTables":
        """The section itself, or one of tables with these columns, as `Tabular.with_columns`."""
        return (
            self
            if names is None and not skip_bad
            else LabelSetTables().with_columns(names, skip_bad=skip_bad)
        )


def _labelled(messages: Sequence[Message]) -> list[Labelled[Labels]]:
    return [
        Labelled((each.text,), each.topics, f"message {number}")
        for number, each in enumerate(messages, 1)
    ]
