"""`regard experiment`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.output import say
from regard.errors import InputError


def experiment(
    name: Annotated[str | None, Parameter(name="NAME", show_default=False, help="Which; left out: lists them.")] = None,
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder for the table and the picture, and for what is trained.")] = Path(
        "experiments"
    ),
    full: Annotated[
        bool, Parameter(negative="", show_default=False, help="The long setting; by default one that ends in minutes.")
    ] = False,
) -> None:
    """Measure a claim about attention: a table, a picture and what they show."""
    from regard.experiments import EXPERIMENTS
    from regard.experiments.setting import Setting
    from regard.recipes.yaml_nodes import nearest

    if name is None:
        for each in EXPERIMENTS:
            say(each)
        return
    if name not in EXPERIMENTS:
        raise InputError(f"{name!r} is no experiment; {nearest(name, list(EXPERIMENTS))}")
    stem = f"{name}-full" if full else name
    finding = EXPERIMENTS[name](Setting(out / f"{stem}-runs", full))
    files = finding.write(out, stem)
    say(f"{finding.claim}\n\n{finding.table()}\n\nWritten: {', '.join(map(str, files))}")
