"""`regard completion`."""

from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.output import say


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
