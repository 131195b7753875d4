"""Continuations that an attribution forces after a prompt."""

from collections.abc import Sequence

from regard.errors import InputError, quoted
from regard.tasks.options import AttributionOptions
from regard.text import Tokenizer


def forced_tokens(
    tokenizer: Tokenizer, options: AttributionOptions
) -> list[int] | None:
    """The tokens of the forced continuation, END included if it is finished; None without one. Raises InputError for an
    empty one."""
    if options.target_tokens is None and options.target is None:
        return None
    tokens = list(options.target_tokens or ())
    if options.target is not None:
        tokens = [
            *tokenizer.encode(options.target),
            *([tokenizer.special.end] if options.finished else []),
        ]
    if not tokens:
        raise InputError(
            "the target is empty and not finished, so there is nothing to attribute; give a text"
        )
    return tokens


def check_forced(
    prompt: str, tokens: Sequence[int], ids: Sequence[int], context: int | None
) -> None:
    """Raises InputError for a text longer than the model's context."""
    if context is not None and len(ids) > context:
        raise InputError(
            f"the prompt {quoted(prompt)} and its continuation have {len(ids)} tokens, and the model reads "
            f"{context} at once; write at most {max(0, context - len(ids) + len(tokens))}"
        )
