"""Capabilities that only some runs have, beyond the common verbs: a command requires a capability, never a task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from regard.data.pair import Pair
from regard.data.tokenizer_pair import Tokenizers
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.tasks.options import PredictOptions
from regard.tasks.prediction import Prediction
from regard.tasks.run import Run

C = TypeVar("C")


@runtime_checkable
class Ensembles(Protocol):
    """A run that predicts together with others."""

    def ensemble(self, others: Sequence[Any]) -> Run[Any, Any]:
        """A run that predicts by the mean of all probabilities. Raises InputError for runs that do not fit."""
        ...


@runtime_checkable
class Aligns(Protocol):
    """A run that links the words of given pairs."""

    config: Any

    def align(self, pairs: Sequence[Pair], maps: Sequence[int] | None = None) -> list[Alignment]: ...

    def word_maps(self, pairs: Sequence[Pair]) -> list[Any]: ...


@runtime_checkable
class Scores(Protocol):
    """A run that gives the log-probability of given targets, token by token."""

    def score(self, pairs: Sequence[Pair]) -> list[list[float]]: ...


@runtime_checkable
class Fills(Protocol):
    """A run that fills blanks."""

    def fill(self, texts: Sequence[str], *, best: int = 5, blank: str = ...) -> list[list[list[Any]]]: ...


@runtime_checkable
class EmbedsTexts(Protocol):
    """A run that gives a vector for each text, `(text, width)`."""

    def embed(self, texts: Sequence[str], *, pool: Literal["mean", "first"] = "mean") -> Tensor: ...


@runtime_checkable
class EmbedsWords(Protocol):
    """A run that gives the vectors of each word of a text in its context."""

    def embed_words(self, texts: Sequence[str]) -> list[Any]: ...


@runtime_checkable
class GivesLayers(Protocol):
    """A run that gives the states of a text in every layer of its model."""

    def layers(self, text: str) -> tuple[Sequence[str], Tensor]:
        """The words or tokens of a text, and the states of each, `(layer, word, width)`."""
        ...


@runtime_checkable
class EncodesPairs(Protocol):
    """A run of pairs of texts: its model, and the tokenizers of both sides."""

    config: Any
    model: Any
    tokenizers: Tokenizers


@runtime_checkable
class Conversation(Protocol):
    """The turns so far, and a run that replies to them."""

    def reply(self, text: str, place: str = "text 1") -> Prediction:
        """The reply to a turn and those before it; both become turns. Raises InputError, which names the `place`."""
        ...


@runtime_checkable
class Converses(Protocol):
    """A run that replies to the last turns of a conversation."""

    def conversation(self, options: PredictOptions) -> Conversation:
        """A new conversation. Raises InputError for options of another verb, and where the run knows no dialogue."""
        ...


VERBS: dict[type, str] = {
    Ensembles: "predict together with others",
    Aligns: "align words",
    Scores: "score given targets",
    Fills: "fill blanks",
    EmbedsTexts: "embed texts",
    EmbedsWords: "embed words",
    GivesLayers: "give the states of every layer",
    EncodesPairs: "encode pairs of texts",
    Converses: "converse",
}
"""Each capability in words."""


def capable(run: Any, capability: type[C], path: Path | str) -> C:
    """The run, if it has the capability. Raises InputError otherwise, with the verbs that the run supports."""
    if not isinstance(run, capability):
        verbs = ", ".join(run.supports)
        raise InputError(f"{path}: a run of the task {run.config.task} does not {VERBS[capability]}; it can {verbs}")
    return run
