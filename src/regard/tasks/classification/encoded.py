"""Training texts as the inputs of a model, in memory or mapped from a disk."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.columns import Ragged, Shard
from regard.data.lazy_sequence import LazySequence
from regard.data.stored import Stored, derived
from regard.data.table import Table
from regard.shapes import Int
from regard.tasks.classification.batch import Target
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.forms.protocol import Form
from regard.tasks.classification.outputs import Outputs

Example = tuple[Any, Target]
"""An example encoded by the model's form, and its target."""


@dataclass(frozen=True, eq=False)
class TrainingTexts:
    """The texts of examples, one after the other, as often as they are iterated over."""

    examples: Sequence[Labelled[Any]]

    def __iter__(self) -> Iterator[str]:
        return (text for each in self.examples for text in each.texts)


@dataclass(frozen=True, eq=False)
class EncodedTexts(LazySequence[Example]):
    """Examples of a table on disk: each in JSON, and its number of positions in a batch. JSON has no tuples, so `kind`
    is what the form makes of an example, tuple or list."""

    table: Table
    kind: type

    def __len__(self) -> int:
        return len(self.table)

    def item(self, index: int) -> Example:
        """The example at an index."""
        shard, place = self.table.at(index)
        encoded, target = json.loads(shard.columns["example"].text(place))
        return self.kind(encoded), target

    @property
    def positions(self) -> Int[np.ndarray, " example"]:
        """The positions of each example in a batch."""
        return np.concatenate(
            [shard.columns["positions"].values for shard in self.table.shards]
        )


def encoded_texts(
    examples: Sequence[Labelled[Any]], form: Form[Any], outputs: Outputs[Any, Any]
) -> Sequence[Example]:
    """Examples with their targets; those on disk are encoded once. Raises InputError for an example that the model
    cannot take or predict."""

    def encode(some: Sequence[Labelled[Any]]) -> Shard:
        rows = [form.encoded(each) for each in some]
        pairs = zip(rows, outputs.targets(some), strict=True)
        columns = {
            "example": Ragged.of_texts(json.dumps(pair) for pair in pairs),
            "positions": Ragged.of_ids([[form.positions(row)] for row in rows]),
        }
        return Shard(columns, {})

    if not isinstance(examples, Stored):
        return list(
            zip(map(form.encoded, examples), outputs.targets(examples), strict=True)
        )
    name = f"{type(form).__name__} {form.tokenizer.digest} {form.config} {form.truncate} {outputs.files}"
    return EncodedTexts(
        derived(examples, name, encode), type(form.encoded(examples[0]))
    )


def lengths_of(
    examples: Sequence[Example], form: Form[Any]
) -> Int[np.ndarray, "example 2"]:
    """The positions of each example, twice: as a source and as a target."""
    if isinstance(examples, EncodedTexts):
        positions = examples.positions
    else:
        positions = np.array(
            [form.positions(each) for each, _ in examples], dtype=np.int32
        )
    return np.stack([positions, positions], 1)
