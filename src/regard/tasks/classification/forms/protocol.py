"""A form: it encodes texts as the inputs of a model, and attributes the class to them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from regard.attention.record import Maps
from regard.attribution.gradients import Contributed
from regard.data.truncation import Limit
from regard.maps import Alignment, DocumentWeights, TextWeights
from regard.maps.heads import Side
from regard.tasks.classification.batch import LabelledBatch, Target
from regard.tasks.classification.data import Labelled
from regard.text import Tokenizer

E = TypeVar("E")
Joined = Callable[[Maps], np.ndarray]
"""Joins recorded maps into one, `(target, source)`."""
CLASS, CONTEXT = "the class", "model.context"
"""The name of what reads a text where one query does, and the key of the most tokens that a model reads."""


class Form(ABC, Generic[E]):
    """The encoding of texts as inputs of a kind of model, and the attribution to them.

    tokenizer: that of the run.
    config: the sizes of its model.
    truncate: whether texts that are longer than the model can take are cut.
    """

    texts: frozenset[int] = frozenset({1})
    """The numbers of texts that an example may have: 1, 2 or both."""
    attention_modules: str | None = None
    """The names of the modules whose weights are the attention; None for a model without."""
    several: bool = False
    """Whether every layer and head has a map of its own."""

    def __init__(self, tokenizer: Tokenizer, config: Any, *, truncate: bool = False):
        self.tokenizer, self.config, self.truncate = tokenizer, config, truncate

    @abstractmethod
    def encoded(self, example: Labelled) -> E:
        """The ids of an example. Raises InputError for one that the model cannot take."""

    @property
    def longest(self) -> Limit | None:
        """The most positions that the model reads; None for a model that reads texts of any length."""
        return None

    def whole(self, example: Labelled) -> int:
        """The positions of an example that is not cut."""
        return self.positions(self.encoded(example))

    def is_cut(self, example: Labelled, encoded: E) -> bool:
        """Whether an example has more positions than what is encoded of it."""
        longest = self.longest
        full = longest is not None and self.positions(encoded) >= longest.tokens
        return full and self.whole(example) > self.positions(encoded)

    def require_room(self, example: Labelled, tokens: int, special: int = 0) -> None:
        """Raises InputError for more tokens, with the special ones, than the model's context, unless they are cut."""
        if tokens + special > self.config.context and not self.truncate:
            raise Limit(self.config.context, special, CONTEXT).refusal(
                example.place, tokens
            )

    @abstractmethod
    def positions(self, encoded: E) -> int:
        """The number of positions of an encoded example in a batch."""

    @abstractmethod
    def collate(self, examples: Sequence[tuple[E, Target]]) -> LabelledBatch:
        """A batch of examples with their targets."""

    def attention(
        self, example: Labelled, maps: Maps, joined: Joined
    ) -> Alignment | DocumentWeights | TextWeights | None:
        """The attention, from the maps recorded while the model read this example only; None for a model that does not
        attend. `joined` joins `several` maps into one."""
        return None

    def side(self, example: Labelled) -> Side | None:
        """Where there are `several` maps, the pieces that attend to each other."""
        return None

    def pieces(self, example: Labelled) -> list[str] | None:
        """The tokens of one row as the model sees it, special tokens included; None for other forms."""
        return None

    @abstractmethod
    def gradient(
        self, example: Labelled, found: Sequence[Contributed], label: str
    ) -> TextWeights:
        """The gradient x input of the label's log-probability with its sign, from the contributions of each call of an
        embedding while the model read this example only."""
