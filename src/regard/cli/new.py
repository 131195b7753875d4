"""`regard new`."""

from typing import Annotated

from cyclopts import Parameter

from regard.cli.output import say

SCHEMA = "regard.schema.json"
Recipe = Annotated[
    str,
    Parameter(
        name="RECIPE",
        help="A recipe (see `regard recipes`), or a YAML file of your own.",
    ),
]


def new(recipe: Recipe, /) -> None:
    """Print a recipe as a run file with every key and its meaning."""
    from regard.runs import keys
    from regard.runs.recipes import path_of

    say(keys.commented_file(path_of(recipe)).removesuffix("\n"))
