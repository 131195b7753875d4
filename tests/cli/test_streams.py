"""Readers that leave and streams that are closed: exit codes, signals, times, and what the others still get."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.cli.command import environment, start
from tests.cli.streams import Case, Ended

UNREADABLE = "中文 日本"
"""A text of which the models of these tests know little."""
LINES = "".join(f"{day} July 1989\n" for day in range(1, 29)) * 20
"""Several chunks of standard input."""


def cases(run: Path, folder: Path) -> dict[str, Case]:
    """Every command that prints or reads, with streams of which some are not there."""
    text, language = folder / "text.txt", folder / "language"
    dates = folder / "dates.txt"
    dates.write_text("14 July 1989\n" * 3, encoding="utf-8")
    text.write_text("the cat sat on the mat\nthe dog sat on the cat\n\n" * 40, encoding="utf-8")
    model = "{name: recurrent, embedding: 13, width: 13}"
    settings = [f"data.train={text}", f"data.test={text}", f"model={model}", "window=8"]
    settings += ["training={steps: 5, batch_tokens: 96, threads: 1, log_every: 1}"]
    options = [part for each in settings for part in ("--set", each)]
    training = ["train", "language-lstm", *options, "--out"]
    predict, piped = ["predict", str(run)], ["predict", str(run), "-"]
    commands = {
        "help": ["--help"],
        "recipes": ["recipes"],
        "info": ["info"],
        "predict": [*predict, "14 July 1989", "1 May 2000"],
        "JSON": [*predict, "14 July 1989", "--json", "--attention"],
        "evaluate": ["evaluate", str(run)],
        "generate": ["generate", str(language), "the cat", "--tokens", "5"],
        "show": ["show", str(run), "14 July 1989", "--out", str(folder / "a.svg")],
        "align": ["align", str(run), "--source", str(dates), "--target", str(dates)],
    }
    trained = {
        "train without readers": Case([*training, str(language)], stdout="gone", stderr="gone"),
        "train, all closed": Case([*training, str(folder / "b")], stdin="closed", stdout="closed", stderr="closed"),
    }
    gone = {f"{name}, reader gone": Case(each, stdout="gone") for name, each in commands.items()}
    rest = {
        "lines, reader gone": Case(piped, "kept", stdout="gone", text=LINES),
        "lines": Case(piped, "kept", text=LINES),
        "lines, no reader of warnings": Case(piped, "kept", stderr="gone", text=f"{UNREADABLE}\n" * 3),
        "lines, no warnings": Case(piped, "kept", stderr="closed", text=f"{UNREADABLE}\n" * 3),
        "no lines": Case(piped, "gone"),
        "no input": Case(piped, "closed"),
        "no prompts": Case(["generate", str(language), "-"], "closed"),
        "all closed": Case([*predict, "1 May 2000"], "closed", "closed", "closed"),
        "no output": Case([*predict, "1 May 2000"], stdout="closed"),
        "error without a reader": Case([*predict, "--nonsense"], stderr="gone"),
    }
    return trained | gone | rest


@pytest.fixture(scope="module")
def ended(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """What became of all cases."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "streams").mkdir()
    described = json.dumps({name: asdict(case) for name, case in cases(run, folder).items()})
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.streams", str(folder / "streams"), str(run)],
        input=described,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env=environment(OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0, done.stderr
    return {name: Ended(**each) for name, each in json.loads(done.stdout).items()}


QUIET = [
    *(f"{each}, reader gone" for each in ("help", "recipes", "info", "predict", "JSON", "evaluate", "generate")),
    *(f"{each}, reader gone" for each in ("show", "align", "lines")),
    *("train without readers", "train, all closed", "no lines", "all closed"),
]
"""Cases that end quietly."""
REPORTED = {"evaluate, reader gone": ["scored", "decoding", "exact-match"]}
"""The lines of a report to standard error, which can still be read."""


@pytest.mark.parametrize("name", QUIET)
def test_ends_quietly_and_soon(ended: dict[str, Ended], name: str):
    """Neither an error nor a signal, and nothing on what can still be read but a report."""
    case = ended[name]
    assert (case.code, case.output) == (0, "")
    assert [line.split(": ")[1] for line in case.errors.splitlines()] == REPORTED.get(name, [])
    assert case.seconds < 30


def test_input_that_is_closed_is_an_error(ended: dict[str, Ended]):
    """And one that has ended is not."""
    for name in ("no input", "no prompts"):
        case = ended[name]
        assert (case.code, case.output) == (2, "")
        assert case.errors == "regard: standard input is closed; give the texts as arguments\n"


def test_output_goes_on_where_nobody_reads_warnings(ended: dict[str, Ended]):
    assert ended["lines"].code == 0
    assert len(ended["lines"].output.splitlines()) == len(LINES.splitlines())
    for name in ("lines, no reader of warnings", "lines, no warnings"):
        assert (ended[name].code, len(ended[name].output.splitlines()), ended[name].errors) == (0, 3, "")
    assert ended["error without a reader"].code == 2
    assert ended["no output"].code == 0


def test_a_reader_that_leaves_ends_a_command_that_would_go_on(run: Path):
    """As `yes | regard predict RUN - | head -1`, with the reaction to SIGPIPE that a shell leaves to its commands."""
    endless = subprocess.Popen(["yes", "14 July 1989"], stdout=subprocess.PIPE)
    with start("predict", str(run), "-", stdin=endless.stdout) as process:
        assert endless.stdout is not None
        assert process.stdout is not None
        assert process.stderr is not None
        endless.stdout.close()
        assert process.stdout.readline().strip()
        process.stdout.close()
        left = time.monotonic()
        assert process.wait(30) == 0
        assert time.monotonic() - left < 20
        assert process.stderr.read() == ""
    assert endless.wait(30) == -signal.SIGPIPE


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "regard: interrupted\n"), (signal.SIGTERM, -15, "")]
)
def test_a_command_that_waits_for_input_ends_at_a_signal(run: Path, number: int, code: int, said: str):
    with start("predict", str(run), "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("14 July 1989\n")
        process.stdin.flush()
        assert process.stdout.readline().strip()
        process.send_signal(number)
        assert process.wait(20) == code
        assert process.stderr.read() == said
