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
        """Return the words of a text and their states `(layer, word, width)`."""
        ...


@runtime_checkable
class EncodesPairs(Protocol):
    """A run of pairs of texts: its model, and the tokenizers of both sides."""

    config: Any
    model: Any
    tokenizers: Tokenizers


@runtime_checkable
class Converses(Protocol):
    """A run that replies to the last turns of a conversation."""

    def conversation(self, options: PredictOptions) -> Any:
        """Return a new conversation, whose `reply(text, place)` adds a turn and a reply.

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

    Raises:
        InputError: As `missing_capability`.
    """
    if not isinstance(run, capability):
        raise missing_capability(run, *VERBS[capability], path)
    return run


def warn_pair(run: Any, pair: Pair) -> list[str]:
    """Return why what a run finds in a pair may mean nothing.

    A side is empty, or mostly unknown to it. A run that copies words reads any.
    """
    if not isinstance(run, EncodesPairs) or run.tokenizers.copying:
        return []
    source = text_warnings(run.tokenizers.source, {"source": pair.source})
    return source + text_warnings(run.tokenizers.target, {"target": pair.target})


def missing_capability(
    run: Any, verb: str, recipe: str, path: Path | str
) -> InputError:
    """Return the error of a run that lacks a capability.

    Args:
        run: The run.
        verb: The capability in words.
        recipe: A recipe whose runs have it.
        path: The folder of the run.
    """
    commands = [f"regard {COMMANDS[name]}" for name in COMMANDS if name in run.supports]
    return InputError(
        f"{path}: a run of the task {run.config.task} does not {verb}, but one of the "
        f"recipe {recipe} does; use this run with {', '.join(commands)}"
    )
