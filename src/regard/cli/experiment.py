"""`regard experiment`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.output import say
from regard.errors import InputError


def experiment(
    name: Annotated[
        str | None,
        Parameter(
            name="NAME", show_default=False, help="The experiment. None: list them."
        ),
    ] = None,
    /,
    *,
    out: Annotated[
        Path, Parameter(help="Folder for the table, the picture and the trained runs.")
    ] = Path("experiments"),
    full: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="The long setting; by default one that ends in minutes.",
        ),
    ] = False,
    source: Annotated[
        Path | None,
        Parameter(
            show_default=False,
            help="With --target: bottleneck on your text, a sentence a line.",
        ),
    ] = None,
    target: Annotated[
        Path | None,
        Parameter(show_default=False, help="Its translation, line by line."),
    ] = None,
) -> None:
    """Measure a claim about attention."""
    from regard.config.yaml_tree import suggest
    from regard.experiments import EXPERIMENTS, ON_TEXT
    from regard.experiments.sweep import Setting

    if name is None:
        for each in EXPERIMENTS:
            say(each)
        return
    if name not in EXPERIMENTS:
        raise InputError(
            f"{name!r} is no experiment; {suggest(name, list(EXPERIMENTS))}"
        )
    text = None if source is None or target is None else (source, target)
    if text is None and (source or target):
        raise InputError("--source and --target go together; give both")
    if text and name not in ON_TEXT:
        raise InputError(
            f"{name} makes its own data; --source and --target are for {', '.join(ON_TEXT)}"
        )
    stem = "-".join([name, *(["text"] if text else []), *(["full"] if full else [])])
    finding = EXPERIMENTS[name](Setting(out / f"{stem}-runs", full, text))
    files = finding.write(out, stem)
    say(
        f"{finding.claim}\n\n{finding.table()}\n\nWritten: {', '.join(map(str, files))}"
    )
