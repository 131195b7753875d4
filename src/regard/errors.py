"""The two ways a run can end badly; the command line turns each into one line and an exit code."""


class InputError(ValueError):
    """Bad usage, configuration or data. The message is one line: what was given, what was expected, what to do."""

    exit_code = 2


class RunError(RuntimeError):
    """The run itself failed (no space, no memory, a loss that stays NaN). One line as well."""

    exit_code = 1
