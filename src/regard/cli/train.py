"""Commands that make runs and exchange models: `train`, `recipes`, `new`, `import`, `export`."""

import json
import logging
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from regard.cli.main import format_table, say
from regard.errors import InputError
from regard.storage.cache_folder import VARIABLE

if TYPE_CHECKING:
    from regard.tasks.run import RunConfig

CONFIG = "config.yaml"
log = logging.getLogger("regard")


def train(
    recipe: str | None = None,
    /,
    *,
    out: Path | None = None,
    cache: Path | None = None,
    settings: Annotated[
        list[str] | None, Parameter(name="--set", json_list=False)
    ] = None,
    resume: bool = False,
    compile: bool = False,
    allow_change: bool = False,
) -> None:
    """Train a recipe, or your own run file.

    Args:
        recipe: A recipe (see `regard recipes`), a YAML file, or a run's folder: its
            settings and weights, to train on. Left out with --resume: the run's own
            settings.
        out: Folder for the run. Default: runs/ and the recipe's name.
        cache: Folder for large sets once they are encoded, instead of REGARD_CACHE.
        settings: key=value instead of the file's: training.steps=100. Repeatable.
        resume: Continue the run in the folder, of --out or instead of the recipe.
        compile: Compile the layers of Transformers (training.compile=true); on a CPU it
            takes a C++ compiler.
        allow_change: Resume although settings, data or environment changed.
    """
    if cache is not None:
        os.environ[VARIABLE] = str(cache)
    if resume and out is None and recipe and (Path(recipe) / CONFIG).is_file():
        recipe, out = None, Path(recipe)
    path = find_run_file(recipe, out, resume=resume)
    overrides = [*(["training.compile=true"] if compile else []), *(settings or ())]
    name = path.stem
    if path.is_dir():
        name, overrides = f"{path.name}-trained", [f"training.start={path}", *overrides]
        path = path / CONFIG
    folder = Path("runs") / name if out is None else out
    if resume and recipe is not None and path != Path(recipe):
        path = find_saved_settings(path, folder)
    if not resume:
        from regard.config.loader import read_tree
        from regard.data.usual_columns import check_table

        keys = {setting.partition("=")[0].strip() for setting in overrides}
        check_table(read_tree(path, overrides).plain().get("data"), keys)
    from regard.runs import run_file
    from regard.runs import train as launch

    notes: list[str] = []
    config = run_file.read(path, overrides, is_new=True, say=notes.append)
    figures = launch.train(
        config, folder, resume=resume, allow_change=allow_change, notes=notes
    )
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        say(format_table(figures))
        say(describe_result(folder, config))


def find_run_file(recipe: str | None, out: Path | None, *, resume: bool) -> Path:
    """Return the run file of a recipe or path; with --resume, by default the run's own."""
    if recipe is not None:
        from regard.runs.recipes import path_of

        return path_of(recipe)
    if not resume or out is None:
        raise InputError(
            "no recipe is given; name one (see `regard recipes`), or a run with "
            "--resume --out DIR"
        )
    if not (out / CONFIG).is_file():
        raise InputError(
            f"{out}: has no config.yaml to continue with; name the recipe that the run was "
            "started with"
        )
    return out / CONFIG


def find_saved_settings(recipe: Path, folder: Path) -> Path:
    """Return the run's own file instead of the recipe that it was started with.

    Settings of the command line, such as the data, are only saved there.
    """
    from regard.config import yaml_tree

    if not (folder / CONFIG).is_file():
        return recipe
    kinds = []
    for path in (folder / CONFIG, recipe):
        values = yaml_tree.read(path).plain() or {}
        model = values.get("model") or {}
        kinds.append((values.get("task"), model.get("name")))
    if kinds[0] != kinds[1]:
        return recipe
    log.info("the run continues with its own settings, from %s", folder / CONFIG)
    return folder / CONFIG


def describe_result(folder: Path, config: "RunConfig") -> str:
    """Return where a run is, and how it is used."""
    return f"The run is in {folder}. Next: {describe_usage(folder, config)}"


def describe_usage(folder: Path, config: Any) -> str:
    """Return the command that uses a run; without any class it predicts none."""
    from regard.storage.run_folder import LABELS
    from regard.tasks.catalog import TASKS

    labels, command = folder / LABELS, TASKS[config.task].command or config.command
    if labels.is_file() and labels.read_text(encoding="utf-8").strip() == "[]":
        command = command.replace(" predict ", " embed ")
    return command.replace("{}", shlex.quote(str(folder)))


def recipes() -> None:
    """List the recipes."""
    from regard.runs.recipes import names

    say(format_table(names()))


def new(
    recipe: str,
    /,
) -> None:
    """Print a recipe as a run file, to change and to train.

    Args:
        recipe: A recipe (see `regard recipes`), or your YAML file.
    """
    from regard.runs.recipes import path_of
    from regard.runs.run_file import EDITOR_LINE

    say(EDITOR_LINE)
    say(path_of(recipe).read_text(encoding="utf-8").removesuffix("\n"))


def schema() -> None:
    """Print the JSON schema of run files, for editors.

    An editor with the YAML language server completes and checks a file whose
    first line is `# yaml-language-server: $schema=regard.schema.json`, as
    `regard new` writes it.
    """
    from regard.runs.run_file import make_schema

    say(json.dumps(make_schema(), indent=1))


def import_(
    source: str,
    /,
    *,
    out: Path | None = None,
    revision: str | None = None,
    pairs: bool = False,
) -> None:
    """Convert a published model into a run.

    Args:
        source: Folder of a published model, or its name on the hub, OWNER/NAME.
        out: Folder for the run. Default: runs/ and the model's name.
        revision: Branch, tag or commit on the hub; the commit is written down. Default:
            the newest.
        pairs: The model classifies pairs of texts, which its files do not state.
    """
    from regard.hub.importing import import_run
    from regard.runs import run_file

    folder = Path("runs") / Path(source).resolve().name if out is None else out
    import_run(source, folder, revision, paired=pairs)
    say(describe_result(folder, run_file.read(folder / CONFIG)))


def export(
    run: Path,
    /,
    *,
    to: Literal["huggingface", "onnx", "ctranslate2"] = "huggingface",
    out: Path,
) -> None:
    """Write a run's model for other libraries.

    The export computes the same as the run, which is checked, and has a model
    card, README.md.

    Args:
        run: Folder of a trained run.
        to: The form to write.
        out: Folder of the exported model.
    """
    from regard.hub.exports import export_folder

    peers = ", ".join(export_folder(run, out, to))
    say(f"The model is in {out}, for {to}; it computes the same as the run: {peers}.")
