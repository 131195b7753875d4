"""`regard info`."""

from regard.cli.output import say, table


def info() -> None:
    """Show versions, devices, threads and active kernels."""
    from regard.cli.machine import active, versions

    say(table(versions() | active()))
