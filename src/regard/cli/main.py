"""The command `regard`: its subcommands, and the exit codes of their errors."""

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from cyclopts import App

from regard.cli.errors import explain
from regard.cli.output import guarded
from regard.errors import OutputClosed
from regard.version import VERSION

HELP = """Models that look things up: train them, use them, see what they attend to.

Every command takes --debug, which shows the traceback of an error and names the layer where numbers break.
Exit codes: 0 done, 1 failed, 2 bad usage or input.
"""
COMMANDS = {
    "recipes": "",
    "train": "[RECIPE_OR_FILE] [--out DIR] [--set KEY=VALUE]... [--resume]",
    "evaluate": "RUN [FILES] [--beam K] [--json]",
    "predict": "RUN [TEXT... | -] [--with RUN]... [--beam K | --temperature T] [--n-best N] [--json]",
    "generate": "RUN [PROMPT... | -] [--tokens N] [--temperature T] [--top-k K] [--top-p P] [--beam K] [--json]",
    "fill": "RUN [TEXT... | -] [--best N] [--json]",
    "embed": "RUN [TEXT... | -] [--pool mean|first] [--words]",
    "chat": "RUN [--beam K | --temperature T]",
    "align": "RUN --source FILE --target FILE [--map N]... [--reverse RUN] [--pick GOLD]",
    "aer": "FOUND GOLD",
    "score": "RUN --source FILE --target FILE [--json]",
    "show": "RUN TEXT|IMAGE --out FILE.png|.svg|.html [--view VIEW] [--kind KIND]",
    "serve": "RUN... [--host HOST] [--port N] [--allow-host NAME]...",
    "import_": "SOURCE [--out DIR] [--revision NAME] [--pairs]",
    "export": "RUN --out DIR [--to huggingface|onnx|ctranslate2]",
    "experiment": "[NAME] [--out DIR] [--full] [--source FILE --target FILE]",
    "info": "",
}
"""The usage of each command, in the order of `--help`. Each is a function in the module of `regard.cli` of its name,
imported when the command is called."""


def application() -> App:
    """The commands and their options."""
    app = App(
        name="regard",
        help=HELP,
        help_format="plaintext",
        version=VERSION,
        version_flags=["--version"],
        suppress_keyboard_interrupt=False,
    )
    for place, (command, arguments) in enumerate(COMMANDS.items()):
        name = command.rstrip("_")  # `import` is no name for a function
        usage = f"Usage: regard {name} {arguments}".rstrip()
        app.command(f"regard.cli.{command}:{command}", name=name, usage=usage, sort_key=place)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0 done, 1 failed, 2 bad usage or input, 130 interrupted, 143 and
    129 terminated and hung up while training. Errors are printed on standard error, one line for each mistake."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in (argv[: argv.index("--")] if "--" in argv else argv)
    if debug:
        argv.remove("--debug")
    if not os.environ.get("COLUMNS", "1").strip("0"):  # some terminals report a width of 0, which nothing fits
        del os.environ["COLUMNS"]
    with guarded():
        return _run(argv, debug)


def _run(argv: Sequence[str], debug: bool) -> int:
    heard = logging.StreamHandler()  # writes to standard error
    logging.basicConfig(level=logging.WARNING, format="regard: %(message)s", handlers=[heard], force=True)
    logging.getLogger("regard").setLevel(logging.INFO)
    try:
        with _watching(debug):
            application()(argv, print_error=False, exit_on_error=False, result_action="return_none")
    except OutputClosed:
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exception(error)
        message, code = explain(error)
        for line in message.splitlines():
            print(f"regard: {_speaker()}{line}", file=sys.stderr)
        return code
    return 0


def _watching(debug: bool) -> AbstractContextManager[None]:
    """The context of a command under --debug."""
    if not debug:
        return nullcontext()
    from regard.nonfinite import debugging

    return debugging()


def _speaker() -> str:
    """The rank of the process, for messages of all but the first: an error may concern one machine only."""
    rank = os.environ.get("RANK", "0")
    return "" if rank == "0" else f"process {rank}: "
