"""`regard recipes`."""

from regard.cli.output import say, table


def recipes() -> None:
    """List what can be trained."""
    from regard.runs.recipes import names

    say(table(names()))
