"""`regard info`."""

from regard.cli.output import say, table


def info() -> None:
    """Show versions, devices, threads and which kernels are active."""
    from regard.cli.machine import active, versions

    say(table(versions() | active()))
