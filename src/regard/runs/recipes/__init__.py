"""Recipes: run files of this package and of other packages, by name."""

from importlib.metadata import EntryPoint
from importlib.resources import files
from pathlib import Path

from regard.config.file_kinds import FOREIGN, TABLES, suffix
from regard.config.yaml_tree import suggest
from regard.errors import InputError
from regard.extras import find_plugins, name_package

FOLDER = Path(__file__).parent
GROUP = "regard.recipes"
"""Entry points of other packages: `name = "package:file.yaml"`."""


def names() -> dict[str, str]:
    """Return the recipes in alphabetical order, each with its description.

    A description is the comment that a file begins with. A recipe of another package
    is followed by the package; an unusable one has its error.
    """
    recipes = {path.stem: read_description(path) for path in FOLDER.glob("*.yaml")}
    for name, point in find_plugins(GROUP).items():
        try:
            description = (
                f"{read_description(find_plugin_recipe(point))} [{name_package(point)}]"
            )
        except InputError as error:
            description = f"unusable: {error}"
        recipes.setdefault(name, description)
    return dict(sorted(recipes.items()))


def path_of(name_or_file: str) -> Path:
    """Return the run file of a path or a recipe; a file takes precedence.

    Raises:
        InputError: There is neither, or the recipe's package lacks the file.
    """
    path = Path(name_or_file)
    if suffix(path) in TABLES | FOREIGN - {"json"}:
        raise InputError(
            f"{name_or_file} is a table; name the recipe of its task, as "
            f"regard train classify --set data.train={name_or_file} (see `regard recipes`)"
        )
    recipes = names()
    is_recipe = name_or_file in recipes
    try:
        if path.exists() and not (is_recipe and path.is_dir()):
            has_config = (path / "config.json").is_file()
            if has_config and not (path / "config.yaml").exists():
                raise InputError(
                    f"{name_or_file} is a published model; name the recipe of its task, "
                    f"as regard train classify --set 'model={{name: pretrained, path: "
                    f"{name_or_file}}}' --set data.train=FILE (see `regard recipes`)"
                )
            return path
    except OSError as error:
        raise InputError(
            f"{name_or_file}: cannot be read ({error.strerror}); expected a recipe or "
            "a YAML file"
        ) from error
    shipped = FOLDER / f"{name_or_file}.yaml"
    if is_recipe:
        if shipped.exists():
            return shipped
        return find_plugin_recipe(find_plugins(GROUP)[name_or_file])
    listed = ", ".join(recipes)
    if len(path.parts) > 1 or path.suffix in (".yaml", ".yml"):
        raise InputError(
            f"{name_or_file}: no such file; expected a YAML file, or a recipe: {listed}"
        )
    advice = suggest(name_or_file, list(recipes))
    if advice.startswith("did"):
        advice += f" The recipes are {listed}"
    raise InputError(f"{name_or_file!r} is neither a recipe nor a file; {advice}")


def find_plugin_recipe(point: EntryPoint) -> Path:
    """Return the file of another package's recipe. Raises InputError."""
    package, _, file = point.value.partition(":")
    place = f"{name_package(point)}: the recipe {point.name!r}"
    try:
        path = Path(str(files(package) / file))
    except Exception as error:  # whatever the package raises while it is imported
        raise InputError(
            f"{place} cannot be found, because {package} cannot be imported "
            f"({type(error).__name__}: {error}); repair or uninstall the package"
        ) from error
    if not path.is_file():
        raise InputError(f"{place} is to be in {path}; repair the package")
    return path


def read_description(path: Path) -> str:
    """Return the comment that a run file begins with."""
    with path.open(encoding="utf-8") as lines:
        return lines.readline().removeprefix("#").strip()
