"""The two ways a run can end badly; the command line turns each into one line and an exit code."""


class InputError(ValueError):
    """Bad usage, configuration or data. The message is one line: what was given, what was expected, what to do."""

    exit_code = 2


def shown(text: str, longest: int = 40) -> str:
    """A text as a message quotes it: its beginning, if it is long."""
    return repr(text if len(text) <= longest else f"{text[:longest]}...")


class RunError(RuntimeError):
    """The run itself failed (no space, no memory, a loss that stays NaN). One line as well."""

    exit_code = 1
