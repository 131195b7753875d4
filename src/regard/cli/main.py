"""The command `regard`: its subcommands, and the exit codes of their errors."""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Literal

from cyclopts import App, Group, Parameter

from regard.cli import evaluate, generate, predict, runs, serve, share, show, train
from regard.cli.console import explain, guard_streams, say
from regard.errors import OutputClosed
from regard.version import VERSION

HELP = """Models that look things up: train them, use them, see what they attend to.

Every command takes --debug, which shows the traceback of an error and names the layer where numbers break.
Exit codes: 0 done, 1 failed, 2 bad usage or input.
"""


def completion(
    shell: Literal["bash", "zsh", "fish"],
    /,
) -> None:
    """Print the completion of commands for a shell.

    - `regard completion bash > ~/.local/share/bash-completion/completions/regard`
    - `regard completion zsh > ~/.zfunc/_regard`, with `~/.zfunc` in `fpath`
    - `regard completion fish > ~/.config/fish/completions/regard.fish`

    Args:
        shell: Your shell.
    """
    script = application().generate_completion(prog_name="regard", shell=shell)
    say(script.removesuffix("\n"))


COMMANDS: dict[str, dict[Callable[..., None], str]] = {
    "Train": {
        train.recipes: "",
        train.new: "RECIPE > FILE.yaml",
        train.train: "[RECIPE_OR_FILE] [--out DIR] [--set KEY=VALUE]... [--resume]",
        runs.runs: "[DIR | RUN...] [--json]",
    },
    "Use a run": {
        predict.predict: "RUN [TEXT... | -] [--n-best N] [--json]",
        evaluate.evaluate: "RUN [FILES] [--json]",
        generate.generate: "RUN [PROMPT... | -] [--tokens N] [--temperature T] [--json]",
        predict.chat: "RUN [--beam K | --temperature T]",
        generate.fill: "RUN [TEXT... | -] [--best N] [--json]",
        predict.embed: "RUN [TEXT... | -] [--pool mean|first] [--words]",
        evaluate.score: "RUN --source FILE --target FILE [--json]",
        evaluate.align: "RUN --source FILE --target FILE [--map N]... [--pick GOLD]",
        evaluate.aer: "LINKS GOLD [--one-based]",
    },
    "Look inside": {
        show.show: "RUN TEXT|IMAGE [--out FILE.png|.svg|.pdf|.html] [--view VIEW]",
        serve.serve: "RUN... [--host HOST] [--port N]",
        evaluate.experiment: "[NAME] [--out DIR] [--full]",
    },
    "Share and install": {
        share.import_: "SOURCE [--out DIR] [--revision NAME]",
        share.export: "RUN --out DIR [--to huggingface|onnx|ctranslate2]",
        runs.cache: "[--clear]",
        train.schema: "> regard.schema.json",
        completion: "bash|zsh|fish",
        runs.info: "",
    },
}
"""By their groups, the commands in the order of `--help`, with their usage."""


def application() -> App:
    """Return the commands and their options."""
    app = App(
        name="regard",
        help=HELP,
        help_format="plaintext",  # the list of commands shows without the import of a Markdown reader
        version=VERSION,
        version_flags=["--version"],
        usage="Usage: regard COMMAND [ARGUMENTS] [OPTIONS]",
        group_commands=Group("Help"),
        group_parameters=Group("Options", sort_key=1),
        suppress_keyboard_interrupt=False,
        # a flag has no --no-flag; the help says what a default means
        default_parameter=Parameter(negative="", show_default=False),
    )
    for order, (title, commands) in enumerate(COMMANDS.items()):
        group = Group(title, sort_key=order)
        for place, (function, arguments) in enumerate(commands.items()):
            name = function.__name__.rstrip("_")  # `import` is no name for a function
            usage = f"Usage: regard {name} {arguments}".rstrip()
            app.command(
                function,
                name=name,
                usage=usage,
                group=group,
                sort_key=place,
                help_format="markdown",
            )
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    0 done, 1 failed, 2 bad usage or input, 130 interrupted, 143 and 129 terminated and
    hung up while training. Errors are printed on standard error, one line for each
    mistake.
    """
    argv = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in (argv[: argv.index("--")] if "--" in argv else argv)
    if debug:
        argv.remove("--debug")
    # some terminals report a width of 0, which nothing fits
    if not os.environ.get("COLUMNS", "1").strip("0"):
        del os.environ["COLUMNS"]
    with guard_streams():
        return _run(argv, debug)


def _run(argv: Sequence[str], debug: bool) -> int:
    handlers = [logging.StreamHandler()]  # writes to standard error
    logging.basicConfig(format="regard: %(message)s", handlers=handlers, force=True)
    logging.getLogger("regard").setLevel(logging.INFO)
    try:
        with ExitStack() as stack:
            if debug:
                from regard.work import enable_debugging

                stack.enter_context(enable_debugging())
            application()(
                argv,
                print_error=False,
                exit_on_error=False,
                result_action="return_none",
            )
    except OutputClosed:
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exception(error)
        message, code = explain(error)
        # an error may concern one machine only
        rank = os.environ.get("RANK", "0")
        speaker = "" if rank == "0" else f"process {rank}: "
        for line in message.splitlines():
            print(f"regard: {speaker}{line}", file=sys.stderr)
        return code
    return 0
