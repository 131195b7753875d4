"""The command `regard`: its subcommands, what they share, and the exit codes of errors."""

import codecs
import errno
import gc
import json
import logging
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, fields, make_dataclass
from io import BufferedReader
from pathlib import Path
from pkgutil import resolve_name
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TextIO,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from cyclopts import (
    App,
    CycloptsError,
    Group,
    Parameter,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.validators import Number

from regard.errors import InputError, OutputClosed, RunError, quote
from regard.extras import EXTRAS, how_to_install
from regard.tasks.options import Options, PredictOptions, list_options
from regard.version import VERSION

if TYPE_CHECKING:
    from regard.data.rows import MissingColumns

Int8 = Annotated[bool, Parameter(name="--int8")]
Piped = Annotated[bool, Parameter(name="-")]


Maps = Annotated[
    tuple[int, ...] | None,
    Parameter(
        name="--map",
        validator=Number(gte=0),
        help="Only this map, layer x heads + head, from 0. Repeatable. Default: all.",
    ),
]


def check_source(texts: Sequence[str], piped: bool) -> None:
    """Raise InputError for texts from both arguments and standard input."""
    if texts and piped:
        raise InputError(
            "texts and - are both given; choose one, or put a text that is - after --"
        )


def advise_columns(error: "MissingColumns", keys: Iterable[str]) -> None:
    """Add the option that names columns to the error of a table that lacks some."""
    names = ",".join(map(str.upper, keys))
    error.advice = f"name yours with --columns {names}"


def build_flags(
    kind: type[Options], title: str, order: int, names: Collection[str] = ()
) -> Any:
    """Build a dataclass with options of a verb as flags, with their help.

    Args:
        kind: The options.
        title: The heading of the flags in `--help`.
        order: The place of the heading.
        names: The options; by default all.
    """
    hints, entries = get_type_hints(kind), []
    for name, option in list_options(kind).items():
        if names and name not in names:
            continue
        hint: Any = hints[name]
        if get_origin(hint) is Sequence:
            hint = tuple[*get_args(hint), ...]
        flag = f"--{option.flag}" if option.flag else None
        hint = Annotated[hint, Parameter(name=flag, help=option.help)]
        if name == "maps":
            hint = Maps
        entries.append((name, hint, field(default=getattr(kind, name))))
    flags = make_dataclass(f"{kind.__name__}Flags", entries, frozen=True)
    flags.__module__ = __name__  # cyclopts takes those of `types` for simple values
    return Parameter(name="*", group=Group(title, sort_key=order))(flags)


SEARCH = {item.name for item in fields(PredictOptions)}
SEARCH -= {"prefix", "attention", "tokens"}
if TYPE_CHECKING:
    SearchFlags = PredictFlags = PredictOptions
else:
    TITLE = "Search and sampling"
    SearchFlags = build_flags(PredictOptions, TITLE, 2, {*SEARCH, "tokens"})
    PredictFlags = build_flags(
        PredictOptions, TITLE, 2, {*SEARCH, "prefix", "attention"}
    )


def read_predict_options(flags: Any) -> PredictOptions:
    """Return the options of flags of search and sampling.

    Raises:
        InputError: Options do not go together.
    """
    options = PredictOptions(**vars(flags))
    options.check()
    if options.beam is not None and options.n_best > options.beam:
        raise InputError(
            f"--n-best is {options.n_best}; expected at most --beam {options.beam}"
        )
    return options


@Parameter(name="*")
@dataclass(frozen=True)
class LoadFlags:
    """How the weights of a run are loaded.

    Attributes:
        allow_missing: Initialize parameters that the weights lack.
        int8: Multiply in 8-bit integers, on a CPU by CTranslate2: faster, for nearly
            the same texts.
    """

    allow_missing: bool = False
    int8: Int8 = False


@Parameter(name="*", group=Group("Files, in parts", sort_key=3))
@dataclass(frozen=True)
class BatchFlags:
    """The flags of a command that turns files into a folder of results.

    Attributes:
        input: Files of texts, one a line, or rows (.jsonl, .json, .csv, .tsv,
            .parquet); folders, patterns, URLs.
        output: Folder for the parts and their manifest.
        columns: Columns of a table, names or numbers from 1. Default: as in the
            run's data.
        skip_bad: Leave out bad rows, count them.
        part_rows: Rows of a part; a killed process loses at most one part.
    """

    input: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    output: Path | None = None
    columns: str | None = None
    skip_bad: bool = False
    part_rows: Annotated[int, Parameter(validator=Number(gte=1))] = 8192

    def is_used(self, texts: Sequence[str], piped: bool) -> bool:
        """Check whether files are given.

        Raises:
            InputError: There are several sources, or flags do not go together.
        """
        check_source(texts, piped)
        if self == BatchFlags():
            return False
        if not self.input or self.output is None:
            raise InputError(
                "--input and --output go together: --input names the files, and "
                "their parts are written to --output"
            )
        if texts or piped:
            raise InputError("texts and --input are both given; choose one")
        return True


STDIN = "standard input"
CHUNK = 256
"""The most lines in a chunk."""


class GuardedStream:
    """A standard stream whose failure is handled once, wherever something is written.

    Afterwards it writes nowhere.
    """

    def __init__(self, stream: Any, handle: Callable[[OSError], None]) -> None:
        self._stream, self._handle = stream, handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write as the stream does."""
        return self._try(lambda: self._stream.write(text)) or 0

    def flush(self) -> None:
        """Flush the stream."""
        self._try(self._stream.flush)

    def _try(self, operation: Callable[[], int | None]) -> int | None:
        try:
            return operation()
        except OSError as error:
            # else the buffer would fail again when Python exits
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._handle(error)
            return None


@contextmanager
def guard_streams() -> Iterator[None]:
    """Guard the standard streams of a command.

    Standard output raises OutputClosed when its reader is gone and RunError when it
    cannot be written; standard error falls silent instead, since training outlives
    those who watch it.
    """

    def fail(error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            raise OutputClosed(error.strerror) from error
        raise RunError(
            f"standard output cannot be written: {error.strerror}; give it another place"
        ) from error

    # open closed descriptors, lest a file of the command gets the number of one
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        output = GuardedStream(sys.stdout or nowhere, fail)
        errors = GuardedStream(sys.stderr or nowhere, lambda error: None)
        with (
            redirect_stdout(cast(TextIO, output)),
            redirect_stderr(cast(TextIO, errors)),
        ):
            yield


def say(text: str) -> None:
    """Print a line on standard output, with escapes for what it cannot encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def say_json(value: object) -> None:
    """Print a line of JSON, with escapes where standard output is not in UTF-8."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    say(json.dumps(value, ensure_ascii=codecs.lookup(encoding).name != "utf-8"))


def one_line(text: str) -> str:
    """Return the text with its white space, line ends too, as single spaces."""
    return " ".join(text.split())


def format_table(rows: Mapping[str, object]) -> str:
    """Return names and values in two columns."""
    width = max(map(len, rows), default=0)
    return "\n".join(f"{name:{width}}  {format_value(rows[name])}" for name in rows)


def format_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return cells in columns below their headings."""
    lines = [""] * (1 + len(rows))
    for column in zip(header, *rows, strict=True):
        width = max(map(len, column))
        for index, cell in enumerate(column):
            lines[index] += f"{cell:{width}}  "
    return "\n".join(map(str.rstrip, lines))


def format_value(value: object) -> str:
    """Return a value in a cell."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def warn(place: str, warnings: Iterable[str]) -> None:
    """Print the warnings of an example at a place."""
    for warning in warnings:
        print(f"regard: {place}: {warning}", file=sys.stderr)


@contextmanager
def pause_collection() -> Iterator[None]:
    """Pause the garbage collector while modules and a run are loaded.

    The loaded objects are excluded from later collections: scanning all of PyTorch's
    objects takes longer than a prediction.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def open_standard_input() -> BufferedReader:
    """Return the bytes of standard input.

    Raises:
        InputError: It is closed.
    """
    if sys.stdin is None:
        raise InputError(f"{STDIN} is closed; give the texts as arguments")
    if sys.stdin.isatty():
        print("reading texts, one a line; Ctrl-D ends", file=sys.stderr)
    return cast(BufferedReader, sys.stdin.buffer)


def iterate_chunks(stream: BufferedReader, limit: int = CHUNK) -> Iterator[list[str]]:
    r"""Return the lines of UTF-8 text that have arrived, at most `limit` at a time.

    It waits only when there are none. Only `\n` and `\r\n` end a line.

    Raises:
        InputError: A line exceeds the limit for files, or is not text; the lines
            before it are yielded first.
    """
    from regard.data.files import DEFAULT_LIMITS, decode_line

    max_line = DEFAULT_LIMITS.max_line
    count, remainder, ended = 0, b"", False
    while not ended:
        data = stream.read1(1 << 16)
        ended = not data
        *lines, remainder = (remainder + data).split(b"\n")
        # no character takes more than four bytes
        if remainder and (ended or len(remainder) > 4 * max_line):
            lines, remainder = [*lines, remainder], b""
        ready: list[str] = []
        try:
            for line in lines:
                count += 1
                place, text = f"{STDIN}:{count}", ""
                is_long = len(line) > 4 * max_line + 1
                if not is_long:
                    line = line.removesuffix(b"\r")
                    text = decode_line(line, place, 0, count == 1)
                if is_long or len(text) > max_line:
                    raise InputError(
                        f"{place}: line longer than {max_line} characters; split it"
                    )
                ready.append(text)
                if len(ready) == limit:
                    yield ready
                    ready = []
        except InputError:
            if ready:
                yield ready
            raise
        if ready:
            yield ready


def iterate_texts(texts: Sequence[str]) -> Iterable[Sequence[str]]:
    """Return the texts, or standard input in chunks."""
    return [texts] if texts else iterate_chunks(open_standard_input())


ALLOCATION = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "Storage size calculation overflowed",
)
"""Phrases of PyTorch's untyped errors of a failed allocation."""
ADDRESS = re.compile(r"( at)? 0x[0-9a-f]{6,}")
"""An address in memory, which means nothing to a reader."""
SETTING = re.compile(r"[a-z_]+(\.\w+)*=.*", re.DOTALL)


def explain(error: BaseException) -> tuple[str, int]:
    """Return the message, without a name in front, and the exit code.

    1 failed, 2 bad usage, 130 interrupted.
    """
    text = one_line(str(error)).partition(" Exception raised from")[0]
    text = ADDRESS.sub("", text)
    match error:
        case InputError() | RunError():
            return str(error), error.exit_code
        case CycloptsError():
            return explain_usage(error), 2
        case FloatingPointError():
            return str(error), 1
        case KeyboardInterrupt():
            return "interrupted", 130
        case ModuleNotFoundError(name=str(name)) if name.split(".")[0] in EXTRAS:
            package = name.split(".")[0]
            advice = how_to_install(package)
            return f"this needs {package}, which is not installed: {advice}", 2
        case ImportError():
            advice = "install it again, see `regard info`"
            return f"a package cannot be imported ({text}); {advice}", 1
        case UnicodeEncodeError(encoding=encoding, object=value):
            advice = "set PYTHONUTF8=1, or a locale with UTF-8"
            return f"{ascii(value)[:80]} cannot be written in {encoding}; {advice}", 2
        case OSError(errno=errno.ENAMETOOLONG):
            path = str(error.filename)[:80]
            advice = "the path is too long for this file system; choose a shorter one"
            return f"{path}...: {advice}", 2
    is_allocation = any(phrase in text for phrase in ALLOCATION)
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and is_allocation
    ):
        return (
            f"out of memory ({text[:200]}); use smaller batches (train: --set "
            "training.batch_tokens=...), a smaller --beam or shorter texts",
            1,
        )
    description = f"{type(error).__name__}: {text[:500]}".removesuffix(": ")
    return f"unexpected {description}; run again with --debug to see where", 1


def explain_usage(error: CycloptsError) -> str:
    """Return the message of a command line that does not fit its command."""
    error.verbose = False
    command = " ".join(("regard", *(error.command_chain or ())))
    message = one_line(str(error)).removesuffix(".")
    if isinstance(error, UnusedCliTokensError):
        tokens = list(error.unused_tokens or ())
        advice = advise_setting(error, tokens[0]) if command == "regard train" else ""
        if advice:
            return f"{command}: {advice}"
        if command == "regard train" and SETTING.fullmatch(tokens[0]):
            setting = shlex.quote(tokens[0])
            return f"{setting}: a setting needs --set; did you mean --set {setting}?"
        message = (
            f"{command}: too many arguments: {', '.join(map(quote, tokens))}; put a "
            "text with blanks in quotes"
        )
    elif isinstance(error, UnknownOptionError):
        arguments = list(error.root_input_tokens or ())
        option = error.token.keyword or ""
        if command == "regard train" and option in arguments:
            from regard.config.loader import OTHER_NAMES

            name = option.lstrip("-").replace("-", "_")
            name = OTHER_NAMES.get(name, name)
            value, *_ = [*arguments[arguments.index(option) + 1 :], "VALUE"]
            section = "data" if name in FILE_KEYS else "training"
            if name in FILE_KEYS | TRAINING_KEYS:
                return (
                    f"{option} is a setting: write --set "
                    f"{shlex.quote(f'{section}.{name}={value}')}; see `regard train --help`"
                )
        message += "; a text that begins with - goes after --"
    return f"{message}; see `{command} --help`"


TRAINING_KEYS = {"steps", "epochs", "learning_rate", "batch_tokens", "warmup"}
TRAINING_KEYS |= {"weight_decay", "patience", "precision", "seed", "validate_every"}
FILE_KEYS = {"train", "valid", "test", "text", "label", "source", "target"}


def advise_setting(error: CycloptsError, argument: str) -> str:
    """Return what to type for an argument of train too many; empty if unknown."""
    from regard.config.file_kinds import TABLES, suffix

    arguments = list(error.root_input_tokens or ())
    before = arguments[: arguments.index(argument)][-2:]
    if len(before) == 2 and before[0] == "--set" and "=" not in before[1]:
        setting = shlex.quote(f"{before[1]}={argument}")
        return f"--set takes KEY=VALUE; did you mean --set {setting}?"
    if suffix(argument) in TABLES | {"txt"}:
        setting = shlex.quote(f"data.train={argument}")
        return f"{argument}: a file needs a key; did you mean --set {setting}?"
    return ""


HELP = """Attention models: train them, use them, see what they attend to.

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


COMMANDS: dict[str, dict[str, str]] = {
    "Train": {
        "train:recipes": "",
        "train:new": "RECIPE > FILE.yaml",
        "train:train": "[RECIPE_OR_FILE] [--out DIR] [--set KEY=VALUE]... [--resume]",
        "runs:runs": "[DIR | RUN...] [--json]",
    },
    "Use a run": {
        "predict:predict": "RUN [TEXT... | -] [--n-best N] [--json]",
        "evaluate:evaluate": "RUN [FILES] [--json]",
        "generate:generate": "RUN [PROMPT... | -] [--tokens N] [--temperature T] [--json]",
        "predict:chat": "RUN [--beam K | --temperature T]",
        "generate:fill": "RUN [TEXT... | -] [--best N] [--json]",
        "predict:embed": "RUN [TEXT... | -] [--pool mean|first] [--words]",
        "evaluate:score": "RUN --source FILE --target FILE [--json]",
        "evaluate:align": "[RUN] --source FILE --target FILE [--map N] [--pick GOLD]",
        "evaluate:aer": "LINKS GOLD [--one-based]",
    },
    "Look inside": {
        "show:show": "RUN TEXT|IMAGE [--out FILE.png|.svg|.pdf|.html] [--view VIEW]",
        "show:lesson": "[RUN] [TEXT...] [--out FILE.html]",
        "serve:serve": "RUN... [--host HOST] [--port N]",
        "evaluate:experiment": "[NAME] [--out DIR] [--full]",
        "evaluate:audit": "RUN [FILES] [--examples N] [--out FILE.html]",
    },
    "Share and install": {
        "train:import_": "SOURCE [--out DIR] [--revision NAME]",
        "train:export": "RUN --out DIR [--to huggingface|onnx|ctranslate2]",
        "runs:cache": "[--clear]",
        "train:schema": "> regard.schema.json",
        "main:completion": "bash|zsh|fish",
        "runs:info": "[RUN]",
    },
}
"""By their groups, the commands in the order of `--help`, `module:function` with its
usage. The modules import this one, so they are imported later."""


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
        for place, (location, arguments) in enumerate(commands.items()):
            function = resolve_name(f"regard.cli.{location}")
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
    except SystemExit:
        raise
    except BaseException as error:  # also a panic of a native library
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
