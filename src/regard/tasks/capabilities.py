"""Capabilities that only some runs have, beyond the common verbs: a command requires a capability, never a task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from regard.data.pairs import Pair
from regard.data.tokens import Tokenizers
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.tasks.options import PredictOptions
from regard.tasks.prediction import Prediction
from regard.tasks.run import Run, text_warnings

C = TypeVar("C")


@runtime_checkable
class Ensembles(Protocol):
    """A run that predicts together with others."""

    def ensemble(self, remaining: Sequence[Any]) -> Run[Any, Any]:
        """Return a run that predicts by the mean of all probabilities.

        Raises:
            InputError: Runs that do not fit.
        """
        ...


@runtime_checkable
class Aligns(Protocol):
    """A run that links the words of given pairs."""

    config: Any

    def align(
        self, pairs: Sequence[Pair], maps: Sequence[int] | None = None
    ) -> list[Alignment]: ...

    def word_maps(self, pairs: Sequence[Pair]) -> list[Any]: ...


@runtime_checkable
class Scores(Protocol):
    """A run that gives the log-probability of given targets, token by token."""

    def score(self, pairs: Sequence[Pair]) -> list[list[float]]: ...


@runtime_checkable
class Fills(Protocol):
    """A run that fills blanks."""

    def fill(
        self, texts: Sequence[str], *, best: int = 5, blank: str = ...
    ) -> list[list[list[Any]]]: ...


@runtime_checkable
class EmbedsTexts(Protocol):
    """A run that gives a vector for each text, `(text, width)`."""

    def embed(
        self, texts: Sequence[str], *, pool: Literal["mean", "first"] = "mean"
    ) -> Tensor: ...


@runtime_checkable
class EmbedsPrompted(Protocol):
    """A run that gives a vector for each text behind a prompt.

    `prompts` are those of its model by name.
    """

    @property
    def prompts(self) -> Mapping[str, str]: ...

    def embed(self, texts: Sequence[str], *, prompt: str | None = None) -> Tensor: ...


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
        """Return the reply to a turn and those before it; both become turns.

        Raises InputError, which names the `place`.
        """
        ...


@runtime_checkable
class Converses(Protocol):
    """A run that replies to the last turns of a conversation."""

    def conversation(self, options: PredictOptions) -> Conversation:
        """Return a new conversation.

        Raises:
            InputError: Options of another verb, and where the run knows no
                dialogue.
        """
        ...


VERBS: dict[type, tuple[str, str]] = {
    Ensembles: ("predict together with others", "translate-rnn"),
    Aligns: ("align words", "translate-rnn"),
    Scores: ("score given targets", "translate-rnn"),
    Fills: ("fill blanks", "bert"),
    EmbedsTexts: ("embed texts", "bert"),
    EmbedsPrompted: ("embed texts behind a prompt", "bert"),
    EmbedsWords: ("embed words", "elmo"),
    GivesLayers: ("give the states of every layer", "elmo"),
    EncodesPairs: ("encode pairs of texts", "translate-rnn"),
    Converses: ("converse", "dialogue"),
}
"""Each capability in words, and a recipe whose runs have it."""
COMMANDS = {"predict": "predict", "evaluate": "evaluate", "attribute": "show"}
"""The command of each verb that has one."""


def require_capability(run: Any, capability: type[C], path: Path | str) -> C:
    """Return the run, if it has the capability.

    Raises InputError otherwise, as `missing_capability`.
    """
    if not isinstance(run, capability):
        raise missing_capability(run, *VERBS[capability], path)
    return run


def warn_pair(run: Any, pair: Pair) -> list[str]:
    """Return why what a run finds in a pair may mean nothing.

    A side is empty, or mostly unknown to it. None for a run that reads the words of a
    pair as they are.
    """
    if not isinstance(run, EncodesPairs) or run.tokenizers.copying:
        return []
    sides = run.tokenizers
    return [
        *text_warnings(sides.source, {"source": pair.source}),
        *text_warnings(sides.target, {"target": pair.target}),
    ]


def missing_capability(
    run: Any, verb: str, recipe: str, path: Path | str
) -> InputError:
    """The error of a run that does not do what the `verb` says, with a recipe of runs that do, and the commands that
    the run supports."""
    allowed = [
        f"regard {command}"
        for name, command in COMMANDS.items()
        if name in run.supports
    ]
    return InputError(
        f"{path}: a run of the task {run.config.task} does not {verb}, but one of the recipe {recipe} does; "
        f"use this run with {', '.join(allowed)}"
    )
