"""The run files that come with the package, by name."""

from pathlib import Path

from regard.config.yaml_nodes import nearest
from regard.errors import InputError

FOLDER = Path(__file__).parent


def names() -> dict[str, str]:
    """The recipes in alphabetical order, each with its description: the comment that its file begins with."""
    return {path.stem: _description(path) for path in sorted(FOLDER.glob("*.yaml"), key=lambda path: path.stem)}


def path_of(name_or_file: str) -> Path:
    """The run file meant: a file of that name if there is one, else the recipe.

    Raises InputError that gives the recipes, and the nearest one, when there is neither.
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
        return FOLDER / f"{name_or_file}.yaml"
    if len(path.parts) > 1 or path.suffix in (".yaml", ".yml"):
        raise InputError(f"{name_or_file}: no such file; expected a YAML file, or a recipe: {', '.join(known)}")
    close = nearest(name_or_file, list(known))
    listed = f"{close} The recipes are {', '.join(known)}" if close.startswith("did") else close
    raise InputError(f"{name_or_file!r} is neither a recipe nor a file; {listed}")


def _description(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return lines.readline().removeprefix("#").strip()
