"""Readers that leave, streams that are closed, full disks, encodings and environments that lack something."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from regard.cli.main import CHUNK, iterate_chunks, open_standard_input
from regard.data.files import FileLimits
from regard.errors import InputError
from tests import forked
from tests.cli.command import environment, finish, start, start_limited, tiny

LINES = "".join(f"{day} July 1989\n" for day in range(1, 29)) * 20
"""Several chunks of standard input."""
UNREADABLE = "中文 日本\n" * 3
"""Texts of which the models of these tests know little."""
STREAMS = ("stdin", "stdout", "stderr")
COMMANDS = {
    "help": ["--help"],
    "info": ["info"],
    "predict": ["predict", "{run}", "14 July 1989", "1 May 2000", "--json", "--attention"],
    "lines": ["predict", "{run}", "-"],
    "evaluate": ["evaluate", "{run}"],
    "generate": ["generate", "{language}", "the cat", "--tokens", "5"],
    "show": ["show", "{run}", "14 July 1989", "--out", "{folder}/a.svg"],
    "align": ["align", "{run}", "--source", "{folder}/dates.txt", "--target", "{folder}/dates.txt"],
}
REPORTED = {"evaluate": ["evaluated on 13 examples", "decoding", "exact-match"]}
"""The lines of a report to standard error, which can still be read."""


def ended(
    *arguments: str, gone: Sequence[str] = (), closed: Sequence[str] = (), text: str = ""
) -> tuple[int, str, str]:
    """How a command ends some of whose streams nobody reads, and others are not there: code, output and errors."""
    code = "import os, sys\n"
    for name in closed:
        code += f"os.close({STREAMS.index(name)}); sys.{name} = None\n"
    code += "from regard.cli.main import main; sys.exit(main())"
    files = {}
    for name in gone:
        reading, files[name] = os.pipe()
        os.close(reading)
    process = forked.start(("-c", code, *arguments), environment(), **files)
    for each in files.values():
        os.close(each)
    return finish(process, text)


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model that was trained without a reader of anything."""
    folder = tmp_path_factory.mktemp("language")
    (folder / "text.txt").write_text("the cat sat on the mat\nthe dog sat on the cat\n\n" * 40, encoding="utf-8")
    settings = [f"data.{name}={folder / 'text.txt'}" for name in ("train", "test")]
    settings += ["model={name: recurrent, embedding: 13, width: 13}", "window=8"]
    settings += ["training={steps: 5, batch_tokens: 96, threads: 1, log_every: 1}"]
    options = [part for each in settings for part in ("--set", each)]
    arguments = ("train", "language-lstm", *options, "--out", str(folder / "run"))
    assert ended(*arguments, gone=["stdout", "stderr"]) == (0, "", "")
    return folder / "run"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_whose_reader_has_gone_ends_quietly(name: str, run: Path, language: Path, tmp_path: Path):
    """Neither an error nor a signal, and nothing on what can still be read but a report."""
    (tmp_path / "dates.txt").write_text("14 July 1989\n" * 3, encoding="utf-8")
    arguments = [each.format(run=run, language=language, folder=tmp_path) for each in COMMANDS[name]]
    code, output, errors = ended(*arguments, gone=["stdout"], text=LINES)
    assert (code, output) == (0, "")
    assert [line.split(": ")[1] for line in errors.splitlines()] == REPORTED.get(name, [])


def test_input_that_is_closed_is_an_error_and_one_that_has_ended_is_not(run: Path, language: Path):
    for command in (["predict", str(run), "-"], ["generate", str(language), "-"]):
        told = "regard: standard input is closed; give the texts as arguments\n"
        assert ended(*command, closed=["stdin"]) == (2, "", told)
    assert ended("predict", str(run), "-") == (0, "", "")
    assert ended("predict", str(run), "1 May 2000", closed=STREAMS) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["gone", "closed"])
def test_output_goes_on_where_nobody_reads_warnings(missing: str, run: Path):
    silent: dict[str, Any] = {missing: ["stderr"]}
    code, output, errors = ended("predict", str(run), "-", text=UNREADABLE, **silent)
    assert (code, len(output.splitlines()), errors) == (0, 3, "")
    assert ended("predict", str(run), "--nonsense", **silent)[0] == 2


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


class Arriving(io.RawIOBase):
    """Bytes that come in given portions."""

    def __init__(self, *portions: bytes) -> None:
        self.portions = list(portions)
        self.reads = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        self.reads += 1
        portion = self.portions.pop(0) if self.portions else b""
        buffer[: len(portion)] = portion
        return len(portion)


def stream(*portions: bytes) -> io.BufferedReader:
    return io.BufferedReader(Arriving(*portions), 1 << 20)


@pytest.mark.parametrize(
    ("portions", "expected"),
    [
        ([], []),
        ([b"a\n"], [["a"]]),
        ([b"a"], [["a"]]),
        ([b"a\n", b"b\nc\n"], [["a"], ["b", "c"]]),
        ([b"a", b"b\nc", b"d"], [["ab"], ["cd"]]),
        ([b"a\r\nb\rc\n"], [["a", "b\rc"]]),
        ([b"\n\n"], [["", ""]]),
        ([b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"], [["a", "\ufeffb"]]),
        (["ä".encode()[:1], "ä".encode()[1:] + b"\n"], [["ä"]]),
        (["a\u2028b\x0bc\n".encode()], [["a\u2028b\x0bc"]]),
    ],
)
def test_lines_as_they_arrive(portions: list[bytes], expected: list[list[str]]):
    assert list(iterate_chunks(stream(*portions))) == expected


def test_a_line_is_given_before_the_next_is_asked_for():
    raw = Arriving(b"a\n", b"b\n")
    given = iterate_chunks(io.BufferedReader(raw))
    assert (next(given), raw.reads) == (["a"], 1)


def test_chunks_are_small():
    sizes = [len(chunk) for chunk in iterate_chunks(stream(b"x\n" * (2 * CHUNK + 3)))]
    assert sizes == [CHUNK, CHUNK, 3]


@pytest.mark.parametrize(
    ("portions", "said"),
    [
        ([b"a\nb\xffc\n"], "standard input:2: byte 0xff at byte offset 1 is not UTF-8"),
        ([b"a\n", b"\xe4"], "standard input:2: byte 0xe4 at byte offset 0"),
        ([b"a\n", b"b\0\n"], "standard input:2: NUL byte at byte offset 1"),
        ([b"a\n" + b"x" * 8 + b"\n"], "standard input:2: line longer than 7 characters"),
        ([b"a\n", b"x" * 29], "standard input:2: line longer than 7 characters"),
    ],
)
def test_what_is_not_text_is_refused_after_what_is(portions: list[bytes], said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.data.files.DEFAULT_LIMITS", FileLimits(max_line=7))
    given = iterate_chunks(stream(*portions))
    assert next(given) == ["a"]
    with pytest.raises(InputError) as caught:
        next(given)
    assert str(caught.value).startswith(said)


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        open_standard_input()


ALONE = """
import pwd, sys
def unknown(user): raise KeyError(f"getpwuid(): uid not found: {user}")
pwd.getpwuid = unknown
from regard.cli.main import main
sys.exit(main())
"""
"""A process of a user whom the system does not know."""
FULL = "regard: standard output cannot be written: No space left on device; give it another place\n"


@pytest.mark.parametrize("arguments", [["--help"], ["predict", "RUN", "14 July 1989"]])
def test_standard_output_on_a_full_disk(run: Path, arguments: list[str]):
    with open("/dev/full", "w") as full:
        process = start(*(str(run) if each == "RUN" else each for each in arguments), stdout=full)
        code, _, errors = finish(process)
    assert (code, errors) == (1, FULL)


@pytest.mark.slow
def test_training_outlives_closed_standard_errors(tmp_path: Path):
    options = tiny(training__log_every="1")
    process = start("train", "dates", "--out", str(tmp_path / "run"), *options, preexec_fn=lambda: os.close(2))
    code, output, _ = finish(process)
    assert (code, "test/exact-match" in output) == (0, True)
    assert "loss" not in output  # where a print without a stream would go


@pytest.mark.slow
def test_a_full_disk_while_training(tmp_path: Path):
    options = tiny(training__steps="500", training__log_every="1", training__tensorboard="false")
    # above the files that precede training
    process = start_limited(5000, "train", "dates", "--out", str(tmp_path / "run"), *options)
    code, _, errors = finish(process)
    last = errors.splitlines()[-1]
    assert code == 1
    assert "metrics.jsonl: cannot be written: no space" in last
    assert last.endswith("larger than the limit for files; free some and start again (training: with --resume)")
    assert "Traceback" not in errors
    records = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assert records.endswith(b"\n")
    assert all(map(json.loads, records.splitlines()))


@pytest.mark.parametrize("form", [".png", ".svg", ".html"])
def test_a_picture_on_a_full_disk(run: Path, tmp_path: Path, form: str):
    old = tmp_path / f"picture{form}"
    old.write_text("old")
    process = start_limited(2000, "show", str(run), "14 July 1989", "--out", str(old))
    code, _, errors = finish(process)
    assert code == 1
    reason = "no space: the file would be larger than the limit for files; free some and start again"
    assert errors == f"regard: {old}: cannot be written: {reason} (training: with --resume)\n"
    assert [each.name for each in tmp_path.iterdir()] == [old.name]
    assert old.read_text() == "old"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_json_stays_json(run: Path, encoding: str):
    text = "14 Jüly 日本 \U0001f600"
    command = [sys.executable, "-m", "regard", "predict", str(run), text, "--json"]
    done = subprocess.run(
        command, env=environment(PYTHONIOENCODING=encoding, PYTHONUTF8="0"), capture_output=True, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout.decode(encoding))["source"] == text
    assert encoding == "utf-16" or json.loads(done.stdout.decode("utf-8"))["source"] == text


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["predict", "--nonsense"]], ids=" ".join)
def test_a_terminal_without_width(regard, monkeypatch: pytest.MonkeyPatch, arguments: list[str]):
    monkeypatch.setenv("COLUMNS", "0")
    code, _, errors = regard(*arguments)
    assert code == (2 if "--nonsense" in arguments else 0)
    assert "unexpected" not in errors


@pytest.mark.slow
def test_no_home_and_no_user(run: Path, tmp_path: Path):
    without = {name: value for name, value in environment().items() if name not in NAMES}
    command = [sys.executable, "-c", ALONE, "show", str(run), "14 July 1989", "--out", "a.png"]
    done = subprocess.run(command, env=without, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "unexpected" not in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "a.png").is_file()


NAMES = ("HOME", "USER", "LOGNAME", "USERNAME", "LNAME", "TMPDIR", "XDG_CACHE_HOME", "MPLCONFIGDIR")
