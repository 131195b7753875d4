"""`regard recipes`."""

from regard.cli.output import say, table


def recipes() -> None:
    """List the recipes."""
    from regard.runs.recipes import names

    say(table(names()))
