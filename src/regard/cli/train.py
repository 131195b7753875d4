"""`regard train`."""

import logging
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.options import Overwrite
from regard.cli.output import say, table
from regard.errors import InputError
from regard.storage.cache_folder import VARIABLE

if TYPE_CHECKING:
    from regard.tasks.task import RunConfig

CONFIG = "config.yaml"
log = logging.getLogger("regard")

Recipe = Annotated[
    str | None,
    Parameter(
        name="RECIPE_OR_FILE",
        show_default=False,
        help="A recipe (see `regard recipes`), a YAML file, or a run's folder: its settings and weights, to train on. "
        "Left out with --resume: the run's own settings.",
    ),
]
Out = Annotated[
    Path | None,
    Parameter(help="Folder for the run. Default: runs/ and the recipe's name."),
]
Settings = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        negative="",
        json_list=False,
        help="key=value in place of the file's: training.steps=100. Repeatable.",
    ),
]
Resume = Annotated[
    bool,
    Parameter(
        negative="", show_default=False, help="Continue the run that is in the folder."
    ),
]
Compile = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Compile the layers of Transformers (training.compile=true); on a CPU it takes a C++ compiler.",
    ),
]
Cache = Annotated[
    Path | None,
    Parameter(
        show_default=False,
        help="Folder for large sets once they are encoded, in place of REGARD_CACHE.",
    ),
]
AllowChange = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Resume although settings, data or environment changed.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class Places:
    """The folders that a training writes."""

    out: Out = None
    cache: Cache = None


PLACES = Places()


def train(
    recipe: Recipe = None,
    /,
    *,
    places: Places = PLACES,
    settings: Settings = None,
    resume: Resume = False,
    compile: Compile = False,
    allow_change: AllowChange = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a recipe, or your own run file."""
    out = places.out
    if places.cache is not None:
        os.environ[VARIABLE] = str(places.cache)
    if overwrite:
        check_overwriting(recipe, out, resume)
    path = _run_file(recipe, out, resume)
    overrides, notes = (
        [*(["training.compile=true"] if compile else []), *(settings or ())],
        list[str](),
    )
    from regard.runs import keys

    name = path.stem
    if path.is_dir():
        name, overrides, path = (
            f"{path.name}-trained",
            [f"training.start={path}", *overrides],
            path / CONFIG,
        )
    folder = Path("runs") / name if out is None else out
    by_file = resume and recipe is not None and path == Path(recipe)
    if resume and recipe is not None and not by_file:
        path = _recorded(path, folder)
    keys.check(path, overrides)  # a second before PyTorch is imported
    from regard.runs import run_file
    from regard.runs import train as launch
    from regard.storage.replacement import is_run, replaced

    config = run_file.read(path, overrides, notes.append)
    with (
        replaced(folder, is_run, "a run")
        if overwrite
        else advised(path, folder, by_file)
    ):
        figures = launch.train(
            config, folder, resume=resume, allow_change=allow_change, notes=notes
        )
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        say(table(figures))
        say(trained(folder, config))


def check_overwriting(recipe: str | None, out: Path | None, resume: bool) -> None:
    """Raises InputError where a run cannot be replaced by the new one."""
    if resume:
        raise InputError(
            "--resume continues a run and --overwrite replaces it; choose one of them"
        )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError(
            "--overwrite is for one process; remove the folder before starting several"
        )
    if recipe is None or out is None or Path(recipe).resolve() != out.resolve():
        return
    from regard.runs.recipes import path_of

    if path_of(recipe).is_dir():  # and not the recipe of that name
        raise InputError(
            f"{out}: is the run to train on, so it cannot be replaced; choose another --out"
        )


@contextmanager
def advised(path: Path, folder: Path, by_file: bool) -> Iterator[None]:
    """Where a run is continued by a run file that does not fit it, since its first command had further settings, the
    InputError has the command that continues it with its own."""
    try:
        yield
    except InputError as error:
        if not by_file or not (folder / CONFIG).is_file():
            raise
        command = f"regard train --resume --out {shlex.quote(str(folder))}"
        raise InputError(
            f"{error}\nwithout {path} the run goes on with its own settings: {command}"
        ) from error


def trained(folder: Path, config: "RunConfig") -> str:
    """Where a run is, and how it is used."""
    return f"The run is in {folder}. Next: {usage(folder, config)}"


def usage(folder: Path, config: "RunConfig") -> str:
    """The command that uses a run; without any class it predicts none."""
    from regard.storage.run_folder import LABELS
    from regard.tasks.catalog import TASKS

    labels, command = folder / LABELS, TASKS[config.task].usage(config)
    if labels.is_file() and labels.read_text(encoding="utf-8").strip() == "[]":
        command = command.replace(" predict ", " embed ")
    return command.replace("{}", shlex.quote(str(folder)))


def _run_file(recipe: str | None, out: Path | None, resume: bool) -> Path:
    """The run file of a recipe or path; with --resume, by default the run's own."""
    if recipe is not None:
        from regard.runs.recipes import path_of

        return path_of(recipe)
    if not resume or out is None:
        raise InputError(
            "no recipe is given; name one (see `regard recipes`), or a run with --resume --out DIR"
        )
    if not (out / CONFIG).is_file():
        raise InputError(
            f"{out}: has no config.yaml to go on with; name the recipe that the run was started with"
        )
    return out / CONFIG


def _recorded(path: Path, folder: Path) -> Path:
    """The run's own file in place of the recipe that it was started with: settings of the command line, such as the
    data, are recorded there alone."""
    own = folder / CONFIG
    if not own.is_file() or not own.stat().st_size or _kind(own) != _kind(path):
        return path
    log.info("the run goes on with its own settings, those of %s", own)
    return own


def _kind(path: Path) -> tuple[object, object]:
    """The task and the model's name of a run file."""
    from regard.config import yaml_nodes

    found = yaml_nodes.read(path)[0].plain()
    return found.get("task"), found.get("model", {}).get("name")
