"""The two kinds of failed run.

The command line prints each as one line and exits with its code.
"""


class InputError(ValueError):
    """Bad usage, configuration or data.

    The message is one line: the value found, the value expected, what to do.
    """

    exit_code = 2


def quote(text: str, longest: int = 40) -> str:
    """Quote a text for a message, cut to its first `longest` characters."""
    return repr(shorten(text, longest))


def shorten(text: str, longest: int = 40) -> str:
    """Return a text for a message, cut to its first `longest` characters."""
    return text if len(text) <= longest else f"{text[:longest]}..."


class RunError(RuntimeError):
    """The run itself failed: no space, no memory, a loss that stays NaN.

    The message is one line.
    """

    exit_code = 1


class OutputClosed(Exception):
    """The reader of standard output has closed it (`| head`), which fails nothing.

    No OSError, since libraries that print would handle that themselves.
    """
