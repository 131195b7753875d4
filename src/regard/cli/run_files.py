"""Commands on run files: `regard recipes`, `regard new`, `regard schema`.

And the completion of a shell.
"""

import json
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.output import say, table


def recipes() -> None:
    """List the recipes."""
    from regard.runs.recipes import names

    say(table(names()))


RecipeOrFile = Annotated[
    str,
    Parameter(
        name="RECIPE",
        help="A recipe (see `regard recipes`), or a YAML file of your own.",
    ),
]


def new(recipe: RecipeOrFile, /) -> None:
    """Print a recipe as a run file, to change and to train."""
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


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], Parameter(name="SHELL", help="Your shell.")
    ],
    /,
) -> None:
    """Print the completion of commands for a shell.

    bash:  regard completion bash > ~/.local/share/bash-completion/completions/regard
    zsh:   regard completion zsh > ~/.zfunc/_regard, with ~/.zfunc in fpath
    fish:  regard completion fish > ~/.config/fish/completions/regard.fish
    """
    from regard.cli.main import application

    say(
        application()
        .generate_completion(prog_name="regard", shell=shell)
        .removesuffix("\n")
    )
