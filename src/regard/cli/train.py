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
class FolderFlags:
    """The folders that a training writes."""

    out: Out = None
    cache: Cache = None


DEFAULT_FOLDERS = FolderFlags()


def train(
    recipe: Recipe = None,
    /,
    *,
    folders: FolderFlags = DEFAULT_FOLDERS,
    settings: Settings = None,
    resume: Resume = False,
    compile: Compile = False,
    allow_change: AllowChange = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a recipe, or your own run file."""
    out = folders.out
    if folders.cache is not None:
        os.environ[VARIABLE] = str(folders.cache)
    if overwrite:
        check_overwriting(recipe, out, resume)
    path = _run_file(recipe, out, resume)
    overrides, notes = (
        [*(["training.compile=true"] if compile else []), *(settings or ())],
        list[str](),
    )
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
        path = _find_recorded(path, folder)
    from regard.runs import run_file
    from regard.runs import train as launch
    from regard.storage.replacement import is_run, replaced

    config = run_file.read(path, overrides, notes.append)
    with (
        replaced(folder, is_run, "a run")
        if overwrite
        else advise_own_settings(path, folder, by_file)
    ):
        figures = launch.train(
            config, folder, resume=resume, allow_change=allow_change, notes=notes
        )
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        say(table(figures))
        say(describe_result(folder, config))


def check_overwriting(recipe: str | None, out: Path | None, resume: bool) -> None:
    """Raise InputError where a run cannot be replaced by the new one."""
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
def advise_own_settings(path: Path, folder: Path, by_file: bool) -> Iterator[None]:
    """Add the command that continues a run with its own settings to an InputError.

    It is added where a run file does not fit the run, whose first command had further
    settings.
    """
    try:
        yield
    except InputError as error:
        if not by_file or not (folder / CONFIG).is_file():
            raise
        command = f"regard train --resume --out {shlex.quote(str(folder))}"
        raise InputError(
            f"{error}\nwithout {path} the run goes on with its own settings: {command}"
        ) from error


def describe_result(folder: Path, config: "RunConfig") -> str:
    """Return where a run is, and how it is used."""
    return f"The run is in {folder}. Next: {describe_usage(folder, config)}"


def describe_usage(folder: Path, config: "RunConfig") -> str:
    """Return the command that uses a run; without any class it predicts none."""
    from regard.storage.run_folder import LABELS
    from regard.tasks.catalog import TASKS

    labels, command = folder / LABELS, TASKS[config.task].usage(config)
    if labels.is_file() and labels.read_text(encoding="utf-8").strip() == "[]":
        command = command.replace(" predict ", " embed ")
    return command.replace("{}", shlex.quote(str(folder)))


def _run_file(recipe: str | None, out: Path | None, resume: bool) -> Path:
    """Return the run file of a recipe or path.

    With --resume, by default the run's own.
    """
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


def _find_recorded(path: Path, folder: Path) -> Path:
    """Return the run's own file in place of the recipe that it was started with.

    Settings of the command line, such as the data, are recorded there alone.
    """
    recorded = folder / CONFIG
    if (
        not recorded.is_file()
        or not recorded.stat().st_size
        or _kind(recorded) != _kind(path)
    ):
        return path
    log.info("the run goes on with its own settings, those of %s", recorded)
    return recorded


def _kind(path: Path) -> tuple[object, object]:
    """Return the task and the model's name of a run file."""
    from regard.config import yaml_tree

    values = yaml_tree.read(path)[0].plain()
    return values.get("task"), values.get("model", {}).get("name")
