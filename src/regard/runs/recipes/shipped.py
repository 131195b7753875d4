"""The run files that come with regard and with other packages, by name."""

from importlib.metadata import EntryPoint
from importlib.resources import files
from pathlib import Path

from regard.config.registry import packages, plugins_of
from regard.config.yaml_nodes import nearest
from regard.errors import InputError

FOLDER = Path(__file__).parent
GROUP = "regard.recipes"
"""Entry points of other packages: `name = "package:file.yaml"`."""


def names() -> dict[str, str]:
    """The recipes in alphabetical order, each with its description: the comment that its file begins with. A recipe of
    another package is followed by the package; an unusable one has its error."""
    found = {path.stem: _description(path) for path in FOLDER.glob("*.yaml")}
    for name, points in plugins_of(GROUP).items():
        if name not in found:
            found[name] = _described(name, points)
    return dict(sorted(found.items()))


def path_of(name_or_file: str) -> Path:
    """The run file of a path or a recipe; a file takes precedence over a recipe of its name.

    Raises InputError with the recipes and the nearest one when there is neither; and for a recipe that two packages
    add, or whose file its package lacks.
    """
    path, known = Path(name_or_file), names()
    try:
        if path.exists() and not (path.is_dir() and name_or_file in known):
            return path
    except OSError as error:
        raise InputError(
            f"{name_or_file}: cannot be read ({error.strerror}); expected a recipe or a YAML file"
        ) from error
    if name_or_file in known:
        shipped = FOLDER / f"{name_or_file}.yaml"
        return (
            shipped
            if shipped.exists()
            else _of_package(name_or_file, plugins_of(GROUP)[name_or_file])
        )
    if len(path.parts) > 1 or path.suffix in (".yaml", ".yml"):
        raise InputError(
            f"{name_or_file}: no such file; expected a YAML file, or a recipe: {', '.join(known)}"
        )
    close = nearest(name_or_file, list(known))
    listed = (
        f"{close} The recipes are {', '.join(known)}"
        if close.startswith("did")
        else close
    )
    raise InputError(f"{name_or_file!r} is neither a recipe nor a file; {listed}")


def _of_package(name: str, points: list[EntryPoint]) -> Path:
    """The file of another package's recipe. Raises InputError."""
    if len(points) > 1:
        raise InputError(
            f"{packages(points)} both add the recipe {name!r}; uninstall one of them"
        )
    package, _, file = points[0].value.partition(":")
    try:
        path = Path(str(files(package) / file))
    except Exception as error:  # whatever the package raises while it is imported
        raise InputError(
            f"{packages(points)}: the recipe {name!r} cannot be found, because {package} cannot be imported "
            f"({type(error).__name__}: {error}); repair or uninstall the package"
        ) from error
    if not path.is_file():
        raise InputError(
            f"{packages(points)}: the recipe {name!r} is to be in {path}, which is no file; repair it"
        )
    return path


def _described(name: str, points: list[EntryPoint]) -> str:
    try:
        return f"{_description(_of_package(name, points))} [{packages(points)}]"
    except InputError as error:
        return f"unusable: {error}"


def _description(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return lines.readline().removeprefix("#").strip()
