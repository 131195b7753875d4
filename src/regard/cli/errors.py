"""Errors of the command line.

A message, one line for each mistake, and an exit code.
"""

import errno
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Literal, get_args, get_origin

from cyclopts import (
    CycloptsError,
    MissingArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from regard.cli.output import one_line
from regard.errors import InputError, RunError, quote
from regard.extras import EXTRAS, how_to_install

ALLOCATION = ("can't allocate memory", "not enough memory", "out of memory")
"""Phrases of PyTorch's untyped errors of a failed allocation."""
SETTING = re.compile(r"[a-z_]+(\.\w+)*=.*", re.DOTALL)


def explain(error: BaseException) -> tuple[str, int]:
    """Return the message, without a name in front, and the exit code.

    1 failed, 2 bad usage, 130 interrupted.
    """
    match error:
        case InputError() | RunError():
            return str(error), error.exit_code
        case CycloptsError():
            return _usage(error), 2
        case FloatingPointError():
            return str(error), 1
        case KeyboardInterrupt():
            return "interrupted", 130
        case ModuleNotFoundError() if (
            package := (error.name or "").split(".")[0]
        ) in EXTRAS:
            return (
                f"this needs {package}, which is not installed: {how_to_install(package)}",
                2,
            )
        case ImportError():
            return (
                f"a package cannot be imported ({one_line(str(error))}); install it again, see `regard info`",
                1,
            )
        case OSError(errno=errno.ENAMETOOLONG):
            return (
                f"{str(error.filename)[:80]}...: the path is too long for this file system; choose a shorter one",
                2,
            )
    if _is_out_of_memory(error):
        return f"out of memory ({one_line(str(error))[:200]}); {_advice()}", 1
    description = f"{type(error).__name__}: {one_line(str(error))[:500]}".removesuffix(
        ": "
    )
    return f"unexpected {description}; run again with --debug to see where", 1


def _usage(error: CycloptsError) -> str:
    error.verbose = False
    command = " ".join(("regard", *(error.command_chain or ())))
    if isinstance(error, UnusedCliTokensError):
        message = _explain_unused(error.unused_tokens or (), command)
    elif (
        isinstance(error, MissingArgumentError)
        and error.argument is not None
        and not error.tokens_so_far
    ):
        value = f"{error.keyword} needs a value{_choices(error.argument.hint)}"
        message = (
            f"{command} needs {error.argument.name}" if error.keyword is None else value
        )
    else:
        message = one_line(str(error)).removesuffix(".")
    text = isinstance(error, UnknownOptionError) and command.endswith(
        (" predict", " show")
    )
    hint = "; a text that begins with - goes after --" if text else ""
    return f"{message}{hint}; see `{command} --help`"


def _choices(hint: object) -> str:
    """Return the values of an option that has a few; nothing for another one."""
    values = [
        value
        for part in (hint, *get_args(hint))
        if get_origin(part) is Literal
        for value in get_args(part)
    ]
    return f": {' or '.join(map(str, values))}" if values else ""


def _explain_unused(tokens: Sequence[str], command: str) -> str:
    """Return the message about arguments that a command does not take.

    A setting is one without its --set.
    """
    settings = [token for token in tokens if SETTING.fullmatch(token)]
    if settings and command == "regard train":
        meant = " ".join(f"--set {shlex.quote(part)}" for part in settings)
        return f"{' '.join(tokens)}: a setting needs --set; did you mean {meant}?"
    description = "an argument" if len(tokens) == 1 else "arguments"
    return f"{command}: {', '.join(map(quote, tokens))}: {description} too many; put a text with blanks in quotes"


def _is_out_of_memory(error: BaseException) -> bool:
    torch = sys.modules.get("torch")
    kinds = (MemoryError,) if torch is None else (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or (
        isinstance(error, RuntimeError)
        and any(phrase in str(error) for phrase in ALLOCATION)
    )


def _advice() -> str:
    return "use smaller batches (train: --set training.batch_tokens=...), a smaller --beam or shorter texts"
