"""`regard info`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.output import say, table

Run = Annotated[
    Path | None,
    Parameter(
        name="RUN", help="Folder of a run. None: the installation.", show_default=False
    ),
]


def info(run: Run = None, /) -> None:
    """Show the installation, or a run: its data, figures and files."""
    if run is not None:
        return say(
            "\n\n".join(f"{name}\n{table(rows)}" for name, rows in parts(run).items())
        )
    from regard.cli.cache import rows
    from regard.cli.machine import active, versions

    cached = rows()
    say(
        table(versions() | active() | {"cache": f"{cached['size']}, {cached['cache']}"})
    )


def parts(run: Path) -> dict[str, dict[str, object]]:
    """The tables of a run by their headings. Raises InputError for a folder that is no run."""
    from regard.cli.train import usage
    from regard.runs.environment import ENVIRONMENT
    from regard.runs.listing import record
    from regard.runs.load import CONFIG
    from regard.runs.run_file import read
    from regard.storage.run_folder import RESULT, RunDirectory
    from regard.tasks.summary import FILE as DATA
    from regard.tasks.summary import DataSummary

    found, folder = record(run), RunDirectory.open(run)
    steps = (
        f"{found.steps:,}"
        if found.finished
        else f"{found.steps:,} of {found.planned:,}, unfinished"
    )
    rows: dict[str, object] = {
        "run": found.run,
        "task": found.task,
        "model": found.model,
        "steps": steps,
    }
    rows |= {"written": found.written, "use": usage(run, read(folder.file(CONFIG)))}
    tables = {"Run": rows}
    if folder.has(DATA):
        tables["Data"] = {**DataSummary.of_json(folder.read_object(DATA)).parts()}
    tables["Figures"] = dict(
        folder.read_object(RESULT) if folder.has(RESULT) else found.figures
    )
    tables["Files"] = {
        each.name: f"{size_of(each):,} bytes"
        for each in sorted(run.iterdir())
        if each.name[0] != "."
    }
    if folder.has(ENVIRONMENT):
        environment = folder.read_object(ENVIRONMENT)
        tables["Environment"] = {
            name: value for name, value in environment.items() if value not in ([], {})
        }
    return {name: each for name, each in tables.items() if each}


def size_of(path: Path) -> int:
    """The bytes of a file, or of the files in a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(each.stat().st_size for each in files if each.is_file())
