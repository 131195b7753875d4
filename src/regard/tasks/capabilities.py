"""Methods that only some runs have: a command requires a method, never a task."""

from pathlib import Path
from typing import Any

from regard.data.pairs import Pair
from regard.data.tokens import Tokenizers
from regard.errors import InputError
from regard.tasks.run import text_warnings

CAPABILITIES = {
    "ensemble": ("predict together with others", "translate-rnn"),
    "align": ("align words", "translate-rnn"),
    "score": ("score given targets", "translate-rnn"),
    "fill": ("fill blanks", "bert"),
    "embed": ("embed texts", "bert"),
    "prompts": ("embed texts behind a prompt", "bert"),
    "embed_words": ("embed words", "elmo"),
    "conversation": ("converse", "dialogue"),
}
"""Each method in words, and a recipe whose runs have it."""
COMMANDS = {"predict": "predict", "evaluate": "evaluate", "attribute": "show"}
"""The command of each verb that has one."""


def require_method(run: Any, name: str, path: Path | str) -> Any:
    """Return a method of a run.

    Raises:
        InputError: As `missing_capability`.
    """
    method = getattr(run, name, None)
    if method is None:
        raise missing_capability(run, *CAPABILITIES[name], path)
    return method


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


def warn_pair(run: Any, pair: Pair) -> list[str]:
    """Return why what a run finds in a pair may mean nothing.

    A side is empty, or mostly unknown to it. A run that copies words reads any.
    """
    tokenizers = getattr(run, "tokenizers", None)
    if not isinstance(tokenizers, Tokenizers) or tokenizers.copying:
        return []
    source = text_warnings(tokenizers.source, {"source": pair.source})
    return source + text_warnings(tokenizers.target, {"target": pair.target})
