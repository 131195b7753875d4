"""Generated sequences of bit vectors and their targets: copying, repeated copying and associative recall (Graves 2014,
1410.5401, sections 4.1 to 4.3)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from regard.data.generated.synthetic import SyntheticOfLengths
from regard.data.splits import Splits
from regard.errors import InputError, quoted

Vectors = Float[np.ndarray, "position width"]
Count = Annotated[int, Field(ge=1, le=1_000)]


@dataclass(frozen=True, eq=False)
class BitSequence:
    """Inputs, a vector a step, and the target of the last steps. `place` is where it came from, for messages."""

    inputs: Float[np.ndarray, "position input_width"]
    target: Float[np.ndarray, "predicted output_width"]
    place: str

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, kw_only=True)
class BitSequences(SyntheticOfLengths, ABC):
    """Sequences of `least` to `most` random vectors of `width` bits, every length with the same probability. Short
    sequences repeat, because few exist.

    least: The smallest number of vectors in a sequence.
    most: The largest number of vectors in a sequence.
    width: The number of bits in a vector.
    """

    width: Count = 8
    least: Count = 1
    most: Count = 20

    @property
    @abstractmethod
    def input_width(self) -> int:
        """The width of an input: the bits, and channels for marks."""

    @property
    def output_width(self) -> int:
        """The width of a target's vectors."""
        return self.width

    @abstractmethod
    def draw(self, length: int, random: np.random.Generator) -> BitSequence:
        """One sequence of a length."""

    @abstractmethod
    def read(self, text: str, place: str) -> BitSequence:
        """The sequence that a text describes, its target zeros. Raises InputError for another text."""

    def load(self) -> Splits[BitSequence]:
        """Generate all three sets, each from a generator of its own."""
        return Splits(
            *(
                self.some(
                    size,
                    (self.least, self.most),
                    f"{self.kind} {name}",
                    (self.seed, part),
                )
                for part, (name, size) in enumerate(
                    zip(("train", "valid", "test"), self.sizes, strict=True)
                )
            )
        )

    def some(
        self,
        count: int,
        lengths: tuple[int, int],
        name: str = "made",
        seed: int | tuple[int, ...] = 0,
    ) -> list[BitSequence]:
        """`count` sequences of lengths between these two, which may exceed `most`."""
        random, found = np.random.default_rng(seed), []
        for number in range(1, count + 1):
            sampled = self.draw(
                int(random.integers(lengths[0], lengths[1] + 1)), random
            )
            found.append(replace(sampled, place=f"{name} {number}"))
        return found

    def vector(self, text: str, place: str) -> list[float]:
        """The bits of a word, `0110`. Raises InputError."""
        if len(text) != self.width or set(text) - {"0", "1"}:
            raise InputError(
                f"{place}: {quoted(text)} is no vector; expected {self.width} bits, each 0 or 1"
            )
        return [float(bit) for bit in text]


@dataclass(frozen=True, kw_only=True)
class Copy(BitSequences):
    """Vectors and a mark; then, without further inputs, the vectors again (section 4.1)."""

    kind: Literal["copy"] = "copy"

    @property
    def input_width(self) -> int:
        return self.width + 1

    def draw(self, length: int, random: np.random.Generator) -> BitSequence:
        return self._of(bits(random, length, self.width), "")

    def read(self, text: str, place: str) -> BitSequence:
        """`0110 1011`: vectors between blanks."""
        return self._of(vectors_of(self, text.split(), place), place)

    def _of(self, vectors: Vectors, place: str) -> BitSequence:
        inputs = np.zeros((2 * len(vectors) + 1, self.input_width), np.float32)
        inputs[: len(vectors), : self.width] = vectors
        inputs[len(vectors), self.width] = 1
        return BitSequence(inputs, vectors, place)


@dataclass(frozen=True, kw_only=True)
class RepeatCopy(BitSequences):
    """Vectors and, on a channel of its own, a repeat count; the target is the vectors repeated, then an end mark
    (section 4.2). The count is scaled to mean 0 and variance 1 over 1 to `most_repeats`."""

    kind: Literal["repeat-copy"] = "repeat-copy"
    most: Count = 10
    most_repeats: Count = 10

    @property
    def input_width(self) -> int:
        return self.width + 1

    @property
    def output_width(self) -> int:
        return self.width + 1

    def draw(self, length: int, random: np.random.Generator) -> BitSequence:
        return self.of(
            bits(random, length, self.width),
            int(random.integers(1, self.most_repeats + 1)),
        )

    def read(self, text: str, place: str) -> BitSequence:
        """`0110 1011 x3`: vectors between blanks, and the repeat count."""
        *words, last = text.split() or [""]
        if not (
            last.startswith("x")
            and last[1:].isdecimal()
            and 1 <= int(last[1:]) <= 1_000
        ):
            raise InputError(
                f"{place}: ends with {quoted(last)}; expected how often to repeat it, from x1 to x1000"
            )
        return self.of(vectors_of(self, words, place), int(last[1:]), place)

    def of(self, vectors: Vectors, repeats: int, place: str = "") -> BitSequence:
        """The sequence of these vectors and this repeat count, which may exceed `most_repeats`."""
        end = np.zeros((1, self.output_width), np.float32)
        end[0, self.width] = 1
        target = np.concatenate(
            [np.pad(np.tile(vectors, (repeats, 1)), ((0, 0), (0, 1))), end]
        )
        inputs = np.zeros(
            (len(vectors) + 1 + len(target), self.input_width), np.float32
        )
        inputs[: len(vectors), : self.width] = vectors
        inputs[len(vectors), self.width] = self._scaled(repeats)
        return BitSequence(inputs, target, place)

    def _scaled(self, repeats: int) -> float:
        deviation = ((self.most_repeats**2 - 1) / 12) ** 0.5
        return (repeats - (self.most_repeats + 1) / 2) / (deviation or 1.0)


@dataclass(frozen=True, kw_only=True)
class Recall(BitSequences):
    """Items of `vectors` vectors, a mark before each; then one of them again, the query, between two marks of another
    kind. The target is the item after it (section 4.3). Lengths count items."""

    kind: Literal["recall"] = "recall"
    width: Count = 6
    least: Count = 2
    most: Count = 6
    vectors: Count = 3

    smallest = 2

    @property
    def input_width(self) -> int:
        return self.width + 2

    def draw(self, length: int, random: np.random.Generator) -> BitSequence:
        items = bits(random, length * self.vectors, self.width).reshape(
            length, self.vectors, self.width
        )
        query = int(random.integers(length - 1))
        return self._of(items, items[query], items[query + 1], "")

    def read(self, text: str, place: str) -> BitSequence:
        """`01,11 00,10 ? 01,11`: items between blanks, their vectors between commas, and the query."""
        words, mark, query = text.partition("?")
        if not mark or not words.split() or len(query.split()) != 1:
            raise InputError(
                f"{place}: {quoted(text)}; expected items between blanks, a question mark and an item"
            )
        items = np.stack([self._item(word, place) for word in words.split()])
        return self._of(
            items, self._item(query.strip(), place), np.zeros_like(items[0]), place
        )

    def _item(self, word: str, place: str) -> Vectors:
        if len(word.split(",")) != self.vectors:
            raise InputError(
                f"{place}: {quoted(word)} is no item; expected {self.vectors} vectors with commas between"
            )
        return vectors_of(self, word.split(","), place)

    def _of(
        self,
        items: Float[np.ndarray, "item position width"],
        query: Vectors,
        target: Vectors,
        place: str,
    ) -> BitSequence:
        step = self.vectors + 1
        inputs = np.zeros(
            (len(items) * step + step + 1 + self.vectors, self.input_width), np.float32
        )
        for number, item in enumerate((*items, query)):
            mark = self.width + (number == len(items))
            inputs[number * step, mark] = 1
            inputs[number * step + 1 : (number + 1) * step, : self.width] = item
        inputs[(len(items) + 1) * step, self.width + 1] = 1
        return BitSequence(inputs, target, place)


def bits(random: np.random.Generator, count: int, width: int) -> Vectors:
    """Random vectors."""
    return random.integers(0, 2, (count, width)).astype(np.float32)


def vectors_of(data: BitSequences, words: Sequence[str], place: str) -> Vectors:
    """The vectors of words. Raises InputError for no words, or one that is no vector."""
    if not words:
        raise InputError(
            f"{place}: has no vectors; expected some, of {data.width} bits each"
        )
    return np.array([data.vector(word, place) for word in words], np.float32)
