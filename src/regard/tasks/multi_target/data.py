"""The run file of translation into several languages, and its data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regard.data.pairs import Pair, Parallel, Table
from regard.data.records import Records
from regard.data.splits import HeldOut, Splits
from regard.data.tables import Tabular
from regard.decoding.search import Search
from regard.errors import InputError
from regard.models.bahdanau import BahdanauConfig
from regard.models.bottleneck import BottleneckConfig
from regard.models.luong import LuongConfig
from regard.models.one_pass import OnePassConfig
from regard.models.transformer import TransformerConfig
from regard.tasks.seq2seq.metrics import MetricName
from regard.text import TokenizerSettings
from regard.training.settings import Training

Files = str | tuple[str, ...]
"""A table, or files of the source and each language; an empty tuple is none."""


@dataclass(frozen=True, kw_only=True)
class Multiparallel(HeldOut, Tabular):
    """Texts in several languages: for each set files aligned by line, or a table.

    A language is named by its column: by the last part of a key in JSON, or by its
    number. Without `valid`, rows of the training set are held out.
    """

    kind: Literal["multiparallel"] = "multiparallel"
    languages: tuple[str | int, ...]
    """The columns of a table, by name or number from 1, or names for the files."""
    train: Files = ()
    """A table, or the source's file and one for each of `languages` in their order."""
    valid: Files = ()
    test: Files = ()
    source: str | int = "source"
    """The column of the source in a table, or its number from 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.names
        if not names or len(set(names)) < len(names):
            raise InputError(
                f"multiparallel: languages are {', '.join(names) or 'none'}; name each "
                "once"
            )
        for name in names:
            if not re.fullmatch(r"[^\W_][\w-]*", name):
                raise InputError(
                    f"multiparallel: languages has {name!r}, which is no language's "
                    "name; use letters, digits, hyphens and underscores"
                )
        for key in ("train", "valid", "test"):
            self._check_count(f"multiparallel: {key}", getattr(self, key))
        if self.skip_bad:
            raise InputError(
                "multiparallel: skip_bad would leave a row out of some languages only; "
                "correct the bad rows"
            )

    def _check_count(self, name: str, files: Files) -> None:
        expected = len(self.languages) + 1
        if files and not isinstance(files, str) and len(files) != expected:
            raise InputError(
                f"{name} has {len(files)} files; expected {expected}, the source's and "
                "one for each language, or one table"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the languages."""
        return tuple(str(name).rpartition(".")[2] for name in self.languages)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of a table."""
        targets = {f"languages[{n}]": name for n, name in enumerate(self.languages)}
        return {"source": self.source} | targets

    def load(self) -> dict[str, Splits[Pair]]:
        """Read pairs by language, all with the same sources.

        Raises:
            InputError: A record is invalid; it names file and line.
        """
        if not self.train:
            files = ", ".join(["SOURCE", *map(str.upper, self.names)])
            raise InputError(
                "data.train is not given; expected a table, or files as "
                f"--set 'data.train=[{files}]'"
            )
        if isinstance(self.train, str):  # check the columns under their own keys
            next(self.stream_rows(self.train, self.columns))
        return {name: self.alone(name).load() for name in self.names}

    def read(self, files: Sequence[Path | Records]) -> dict[str, Sequence[Pair]]:
        """Read the pairs by language of other files, or of a table.

        Raises:
            InputError: A record is invalid; it names file and line.
        """
        if len(files) == 1:
            return {name: self.alone(name).read(files[0]) for name in self.names}
        paths = tuple(map(str, files))
        self._check_count("evaluation", paths)
        numbered = enumerate(self.names, 1)
        return {name: Parallel().read((paths[0], paths[n])) for n, name in numbered}

    def alone(self, language: str) -> Parallel | Table:
        """Return the data section of one language."""
        index = self.names.index(language)
        fields: dict[str, Any] = {
            "held_out": self.held_out,
            "split_seed": self.split_seed,
        }
        for key in ("train", "valid", "test"):
            if files := getattr(self, key):
                table = isinstance(files, str)
                fields[key] = files if table else (files[0], files[index + 1])
        if not isinstance(self.train, str):
            return Parallel(**fields)
        return Table(
            source=self.source,
            target=self.languages[index],
            delimiter=self.delimiter,
            quoting=self.quoting,
            **fields,
        )


@dataclass(frozen=True, kw_only=True)
class MultiTarget:
    """The run file of translation into several languages."""

    task: Literal["multi-target"] = "multi-target"
    data: Multiparallel
    source: TokenizerSettings
    """The tokenizer of the source."""
    target: TokenizerSettings
    """The tokenizer of each language."""
    model: (
        BahdanauConfig
        | LuongConfig
        | BottleneckConfig
        | OnePassConfig
        | TransformerConfig
    )
    """The encoder, and the decoder of each language."""
    metrics: tuple[MetricName, ...]
    """Metrics of each language; the mean of the first one chooses the best weights."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    truncate: bool = False
    """Cut texts that are longer than the model takes, instead of refusing them."""
    output_bias: Literal["zeros", "frequencies"] = "zeros"
    """The initial output bias: zeros, or the logarithm of each token's frequency."""

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.model.shared:
            raise ValueError(
                "model.shared needs one vocabulary, but each language has its own; set "
                "it to false"
            )
