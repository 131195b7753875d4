"""The command `regard`: its subcommands, and the exit codes of their errors."""

import logging
import os
import sys
import traceback
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from cyclopts import App, Group, Parameter

from regard.cli.errors import explain
from regard.cli.streams import guard_streams
from regard.errors import OutputClosed
from regard.version import VERSION

HELP = """Models that look things up: train them, use them, see what they attend to.

Every command takes --debug, which shows the traceback of an error and names the layer where numbers break.
Exit codes: 0 done, 1 failed, 2 bad usage or input.
"""


class Command(NamedTuple):
    """A command of `regard --help`."""

    group: str
    module: str
    """The module of `regard.cli` that has its function."""
    summary: str
    """The first line of its docstring."""
    arguments: str = ""
    """Its arguments in the usage line."""


TRAIN, USE, INSIDE, SHARE = "Train", "Use a run", "Look inside", "Share and install"
COMMANDS = {
    "recipes": Command(TRAIN, "train", "List the recipes."),
    "new": Command(
        TRAIN,
        "train",
        "Print a recipe as a run file, to change and to train.",
        "RECIPE > FILE.yaml",
    ),
    "train": Command(
        TRAIN,
        "train",
        "Train a recipe, or your own run file.",
        "[RECIPE_OR_FILE] [--out DIR] [--set KEY=VALUE]... [--resume]",
    ),
    "runs": Command(
        TRAIN,
        "runs",
        "List runs with their figures, or the differences of two.",
        "[DIR | RUN...] [--sort KEY]",
    ),
    "predict": Command(
        USE,
        "predict",
        "Predict for texts, or for the lines of standard input.",
        "RUN [TEXT... | -] [--n-best N] [--json]",
    ),
    "evaluate": Command(
        USE,
        "evaluate",
        "Score a run on its test set, or on your files.",
        "RUN [FILES] [--json]",
    ),
    "generate": Command(
        USE,
        "generate",
        "Continue prompts with a language model.",
        "RUN [PROMPT... | -] [--tokens N] [--temperature T] [--json]",
    ),
    "chat": Command(
        USE,
        "predict",
        "Reply to each line that you type, in its context.",
        "RUN [--beam K | --temperature T]",
    ),
    "fill": Command(
        USE,
        "generate",
        "Fill the blanks of texts.",
        "RUN [TEXT... | -] [--best N] [--json]",
    ),
    "embed": Command(
        USE,
        "predict",
        "Print a vector for each text, or for its words.",
        "RUN [TEXT... | -] [--pool mean|first] [--words]",
    ),
    "score": Command(
        USE,
        "evaluate",
        "Print the log-probability of given targets.",
        "RUN --source FILE --target FILE [--json]",
    ),
    "align": Command(
        USE,
        "evaluate",
        "Align words by the attention of a run.",
        "RUN --source FILE --target FILE [--map N]... [--pick GOLD]",
    ),
    "aer": Command(
        USE,
        "evaluate",
        "Score word alignments against gold ones.",
        "LINKS GOLD",
    ),
    "show": Command(
        INSIDE,
        "show",
        "Draw the attention behind a prediction.",
        "RUN TEXT|IMAGE [--out FILE.png|.svg|.pdf|.html] [--view VIEW]",
    ),
    "serve": Command(
        INSIDE,
        "serve",
        "Serve runs to a browser and to programs.",
        "RUN... [--host HOST] [--port N]",
    ),
    "experiment": Command(
        INSIDE,
        "evaluate",
        "Measure a claim about attention.",
        "[NAME] [--out DIR] [--full]",
    ),
    "import_": Command(
        SHARE,
        "share",
        "Convert a published model into a run.",
        "SOURCE [--out DIR] [--revision NAME]",
    ),
    "export": Command(
        SHARE,
        "share",
        "Write a run's model for other libraries.",
        "RUN --out DIR [--to huggingface|onnx|ctranslate2]",
    ),
    "cache": Command(
        SHARE, "runs", "Show the cache of encoded sets, or remove it.", "[--clear]"
    ),
    "schema": Command(
        SHARE,
        "train",
        "Print the JSON schema of run files, for editors.",
        "> regard.schema.json",
    ),
    "completion": Command(
        SHARE,
        "train",
        "Print the completion of commands for a shell.",
        "bash|zsh|fish",
    ),
    "info": Command(
        SHARE,
        "runs",
        "Show the installation, or a run: its data, figures and files.",
        "[RUN]",
    ),
}
"""The commands in the order of `--help`, by their functions, which are imported when
they are called."""


def application(named: Collection[str] = ()) -> App:
    """Return the commands and their options.

    Those that are `named` on the command line show their whole docstring as help, which
    takes their import; the others one line.
    """
    app = App(
        name="regard",
        help=HELP,
        help_format="markdown",
        version=VERSION,
        version_flags=["--version"],
        usage="Usage: regard COMMAND [ARGUMENTS] [OPTIONS]",
        group_commands=Group("Help"),
        group_parameters=Group("Options", sort_key=1),
        suppress_keyboard_interrupt=False,
        # a flag has no --no-flag; the help says what a default means
        default_parameter=Parameter(negative="", show_default=False),
    )
    groups = {}
    for order, name in enumerate((TRAIN, USE, INSIDE, SHARE)):
        groups[name] = Group(name, sort_key=order)
    for order, (function, command) in enumerate(COMMANDS.items()):
        name = function.rstrip("_")  # `import` is no name for a function
        app.command(
            f"regard.cli.{command.module}:{function}",
            name=name,
            usage=f"Usage: regard {name} {command.arguments}".rstrip(),
            group=groups[command.group],
            help=None if name in named else command.summary,
            sort_key=order,
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
    if not os.environ.get("COLUMNS", "1").strip(
        "0"
    ):  # some terminals report a width of 0, which nothing fits
        del os.environ["COLUMNS"]
    with guard_streams():
        return _run(argv, debug)


def _run(argv: Sequence[str], debug: bool) -> int:
    heard = logging.StreamHandler()  # writes to standard error
    logging.basicConfig(
        level=logging.WARNING,
        format="regard: %(message)s",
        handlers=[heard],
        force=True,
    )
    logging.getLogger("regard").setLevel(logging.INFO)
    try:
        with _watching(debug):
            application(argv[:1])(
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
        for line in message.splitlines():
            print(f"regard: {_speaker()}{line}", file=sys.stderr)
        return code
    return 0


def _watching(debug: bool) -> AbstractContextManager[None]:
    """Return the context of a command under --debug."""
    if not debug:
        return nullcontext()
    from regard.nonfinite import enable_debugging

    return enable_debugging()


def _speaker() -> str:
    """Return the rank of the process, for messages of all but the first.

    An error may concern one machine only.
    """
    rank = os.environ.get("RANK", "0")
    return "" if rank == "0" else f"process {rank}: "
