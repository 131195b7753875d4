"""The `data:` section of texts with labels: tables."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from regard.data.data_files import TableFiles
from regard.data.rows import Row
from regard.errors import InputError

L = TypeVar("L")
Column = str | int
PAIRS_PER_NOUN = 30
"""The most training texts in which a noun is exchanged for a hypernym."""
EXCHANGED = ", with a hypernym"
"""The end of the place of a pair with an exchanged noun."""
NEGATIONS = {"no", "not", "nobody", "nothing", "without"}
"""Words that turn entailment around: no dog is not no animal."""
LABELS = re.compile("entailment|neutral|contradiction", re.IGNORECASE)


@dataclass(frozen=True)
class Labelled(Generic[L]):
    """One text or two with a label."""

    texts: tuple[str, ...]
    label: L
    place: str
    """Where they came from, `file:line`."""
    sentences: tuple[str, ...] = ()
    """The sentences of one text that came cut into them."""
    fold: str = ""
    """The value of the column of folds, in the training file."""


@dataclass(frozen=True, kw_only=True)
class LabelledTables(TableFiles[Labelled]):
    """A table for each set of texts, or pairs of texts, with their labels.

    Without `valid`, the share `held_out` of each class is for validation. Or `fold`
    names a column of the training file whose values choose the sets. An imported run
    has no table to train on.
    """

    kind: Literal["labelled"] = "labelled"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    text: Column = "text"
    """The column of the text, or its number from 1; in JSON it may be a list of sentences."""
    second: Column | None = None
    """The column of the other text of a pair."""
    label: Column = "label"
    """The column of the label, in JSON also a whole number."""
    ignore: str | None = None
    """A label whose rows are left out, such as SNLI's -, where annotators do not agree."""
    fold: Column | None = None
    """A column of the training file by whose values the sets are chosen."""
    valid_folds: tuple[Column, ...] = ()
    """The values of `fold` whose rows are for validation."""
    test_folds: tuple[Column, ...] = ()
    """The values of `fold` whose rows are the test set."""
    hypernyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Nouns by their hypernym, for pairs of entailment: more training pairs have a text
    first and then the text with a hypernym, a right one (entailment) or a wrong one
    (neutral)."""

    recognised = ("table",)
    example_type = Labelled[str]
    noun = "rows"
    expected = "a table, as --set data.train=FILE"

    def __post_init__(self) -> None:
        folds = self.folds
        if (
            bool(folds) == (self.fold is None)
            or len(set(folds)) < len(folds)
            or (self.valid_folds and self.valid is not None)
            or (self.test_folds and self.test is not None)
        ):
            raise InputError(
                "labelled: fold needs valid_folds or test_folds, different ones, for "
                "sets without a file"
            )
        columns = {**self.split_column, **self.columns}
        self.check_columns(columns, self.train, self.valid, self.test)

    def train_examples(self) -> Iterator[Labelled]:
        """Yield the examples of the training table, and those with hypernyms."""
        hypernym_of = {n: word for word, nouns in self.hypernyms.items() for n in nouns}
        counts: Counter[str] = Counter()
        for example in super().train_examples():
            yield example
            text, label = example.texts[0], str(example.label)
            words = set(text.lower().split()) if len(example.texts) == 2 else set()
            nouns = sorted(words & hypernym_of.keys(), key=counts.__getitem__)
            if not nouns or words & NEGATIONS or not LABELS.fullmatch(label):
                continue
            noun = nouns[0]
            if counts[noun] == PAIRS_PER_NOUN:
                continue
            counts[noun] += 1
            right = {hypernym_of[word] for word in nouns}
            wrong = [word for word in self.hypernyms if word not in right]
            changes = [("entailment", hypernym_of[noun])]
            if wrong:
                changes.append(("neutral", wrong[counts[noun] % len(wrong)]))
            for name, hypernym in changes:
                yield replace(
                    example,
                    texts=(text, exchange_noun(text, noun, hypernym)),
                    label=name.upper() if label.isupper() else name,
                    place=example.place + EXCHANGED,
                )

    def choose_valid(
        self, train: Sequence[Labelled]
    ) -> tuple[Sequence[Labelled], Sequence[Labelled]]:
        """Hold validation examples out, none of them with an exchanged noun."""
        train, valid = super().choose_valid(train)
        return train, [item for item in valid if not item.place.endswith(EXCHANGED)]

    @property
    def folds(self) -> list[str]:
        """The values of the column of folds whose rows are not for training."""
        return [str(fold) for fold in (*self.valid_folds, *self.test_folds)]

    @property
    def columns(self) -> dict[str, Column]:
        """The columns that are read, by their keys."""
        second = {} if self.second is None else {"second": self.second}
        return {"text": self.text, **second, "label": self.label}

    @property
    def row_columns(self) -> dict[str, Column]:
        """The columns with the text last, which may be a list of sentences."""
        columns = self.columns
        text = columns.pop("text")
        return {**columns, "text": text}

    @property
    def number_columns(self) -> tuple[Column, ...]:
        """The columns that may hold numbers in JSON."""
        return (self.label,)

    @property
    def split_column(self) -> Mapping[str, Column]:
        """The column of the folds, if there is one."""
        return {} if self.fold is None else {"fold": self.fold}

    @property
    def split_names(self) -> Mapping[str, Collection[str]]:
        """The folds of validation and test."""
        names = {"valid": self.valid_folds, "test": self.test_folds}
        return {key: [*map(str, folds)] for key, folds in names.items() if folds}

    def set_of(self, example: Labelled) -> str:
        """Return the fold."""
        return example.fold

    def stratum(self, example: Labelled) -> Any:
        """Return the label."""
        return example.label

    def parse(self, row: Row) -> Labelled | None:
        """Return the example of a row.

        Raises:
            InputError: A bad label.
        """
        *second, label, text = row.fields
        if label == self.ignore:
            return None
        sentences = (text, *row.alternatives)
        texts = (" ".join(sentences), *second)
        parts = sentences if row.listed else ()
        label = self.parse_label(label, row.place)
        return Labelled(
            texts,
            label,
            row.place,
            parts,
            row.split,
        )

    def parse_label(self, field: str, place: str) -> Any:
        """Return the label in the field of a row: the name of a class."""
        return field


def exchange_noun(text: str, noun: str, hypernym: str) -> str:
    """Return the text with another noun and its indefinite article."""
    article = "an" if hypernym[0] in "aeiou" else "a"
    text = re.sub(rf"(?i)\ban? {noun}\b", f"{article} {hypernym}", text)
    return re.sub(rf"(?i)\b{noun}\b", hypernym, text)
