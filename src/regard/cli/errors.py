"""Errors of the command line.

A message, one line for each mistake, and an exit code.
"""

import errno
import re
import shlex
import sys
from typing import Literal, get_args, get_origin

from cyclopts import (
    CycloptsError,
    MissingArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from regard.cli.streams import one_line
from regard.errors import InputError, RunError, quote
from regard.extras import EXTRAS, how_to_install

ALLOCATION = ("can't allocate memory", "not enough memory", "out of memory")
"""Phrases of PyTorch's untyped errors of a failed allocation."""
SETTING = re.compile(r"[a-z_]+(\.\w+)*=.*", re.DOTALL)


def explain(error: BaseException) -> tuple[str, int]:
    """Return the message, without a name in front, and the exit code.

    1 failed, 2 bad usage, 130 interrupted.
    """
    text = one_line(str(error))
    match error:
        case InputError() | RunError():
            return str(error), error.exit_code
        case CycloptsError():
            return explain_usage(error), 2
        case FloatingPointError():
            return str(error), 1
        case KeyboardInterrupt():
            return "interrupted", 130
        case ImportError():
            package = (error.name or "").split(".")[0]
            if package in EXTRAS and isinstance(error, ModuleNotFoundError):
                advice = how_to_install(package)
                return f"this needs {package}, which is not installed: {advice}", 2
            return (
                f"a package cannot be imported ({text}); install it again, see "
                "`regard info`",
                1,
            )
        case OSError(errno=errno.ENAMETOOLONG):
            return (
                f"{str(error.filename)[:80]}...: the path is too long for this file "
                "system; choose a shorter one",
                2,
            )
    torch = sys.modules.get("torch")
    kinds = (MemoryError,) if torch is None else (MemoryError, torch.OutOfMemoryError)
    is_untyped = any(phrase in text for phrase in ALLOCATION)
    if isinstance(error, kinds) or (isinstance(error, RuntimeError) and is_untyped):
        return (
            f"out of memory ({text[:200]}); use smaller batches (train: --set "
            "training.batch_tokens=...), a smaller --beam or shorter texts",
            1,
        )
    description = f"{type(error).__name__}: {text[:500]}".removesuffix(": ")
    return f"unexpected {description}; run again with --debug to see where", 1


def explain_usage(error: CycloptsError) -> str:
    """Return the message of a command line that does not fit its command."""
    error.verbose = False
    command = " ".join(("regard", *(error.command_chain or ())))
    message, advice = one_line(str(error)).removesuffix("."), ""
    if isinstance(error, UnusedCliTokensError):
        tokens = error.unused_tokens or ()
        settings = [shlex.quote(token) for token in tokens if SETTING.fullmatch(token)]
        if settings and command == "regard train":
            settings = " ".join(f"--set {setting}" for setting in settings)
            return (
                f"{' '.join(tokens)}: a setting needs --set; did you mean {settings}?"
            )
        count = "an argument" if len(tokens) == 1 else "arguments"
        listed = ", ".join(map(quote, tokens))
        message = (
            f"{command}: {listed}: {count} too many; put a text with blanks in quotes"
        )
    elif isinstance(error, MissingArgumentError) and not error.tokens_so_far:
        hint = None if error.argument is None else error.argument.hint
        literals = [
            part for part in (hint, *get_args(hint)) if get_origin(part) is Literal
        ]
        values = [str(value) for part in literals for value in get_args(part)]
        if error.keyword is not None:
            values = f": {' or '.join(values)}" if values else ""
            message = f"{error.keyword} needs a value{values}"
        elif error.argument is not None:
            message = f"{command} needs {error.argument.name}"
    elif isinstance(error, UnknownOptionError) and command[7:] in ("predict", "show"):
        advice = "; a text that begins with - goes after --"
    return f"{message}{advice}; see `{command} --help`"
