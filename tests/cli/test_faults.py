"""Every error becomes a line and an exit code."""

import errno
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.cli.main import explain
from regard.errors import InputError, RunError
from regard.training.update import Stopped
from tests.cli.command import tiny
from tests.code.tree import ROOT

LONG = "x" * 300


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (InputError("a.yaml:3: wrong"), "a.yaml:3: wrong", 2),
        (RunError("no space"), "no space", 1),
        (
            Stopped(signal.SIGTERM, 7, Path("a b")),
            "stopped by SIGTERM after update 7, which is saved; continue with `regard train --resume --out 'a b'",
            143,
        ),
        (Stopped(signal.SIGINT, 7, Path("run")), "stopped by SIGINT after update 7", 130),
        (KeyboardInterrupt(), "interrupted", 130),
        (MemoryError(), "out of memory", 1),
        (UnicodeEncodeError("ascii", "ä", 0, 1, ""), r"'\xe4' cannot be written in ascii; set PYTHONUTF8=1", 2),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB"),
            "out of memory (CUDA out of memory. Tried 2 GiB)",
            1,
        ),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes"), "out of memory (DefaultCPUAllocator", 1),
        (ModuleNotFoundError("No module", name="matplotlib.pyplot"), "this needs matplotlib", 2),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "a package cannot be imported (No module", 1),
        (OSError(errno.ENAMETOOLONG, "File name too long", LONG), f"{LONG[:80]}...: the path is too long", 2),
        (KeyError("missing"), "unexpected KeyError: 'missing'; run again with --debug", 1),
        (RuntimeError("one\n two"), "unexpected RuntimeError: one two; run again", 1),
        (AssertionError(), "unexpected AssertionError; run again", 1),
        (TypeError("no <f at 0x7ff756930b8d> Exception raised from C: 0x1234567"), "unexpected TypeError: no <f>;", 1),
        (RuntimeError("Storage size calculation overflowed with sizes=[1]"), "out of memory (Storage size", 1),
    ],
)
def test_message_and_exit_code(error: BaseException, said: str, code: int):
    message, exit_code = explain(error)
    assert message.startswith(said)
    assert exit_code == code
    assert "\n" not in message


@pytest.mark.parametrize(
    ("module", "extra"), [("matplotlib", "plot"), ("babel", "dates"), ("tensorboard", "tensorboard")]
)
def test_the_extra_is_named(module: str, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def hint() -> str:
        return explain(ModuleNotFoundError(name=module))[0]

    assert f"pip install -e '{ROOT}[{extra}]'" in hint() or f"pip install -e '.[{extra}]'" in hint()
    monkeypatch.chdir(ROOT)
    assert f"pip install -e '.[{extra}]'" in hint()
    monkeypatch.setattr("regard.extras.PACKAGE", tmp_path / "site-packages" / "regard")
    assert f"pip install 'regard[{extra}]'" in hint()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["train", "dates", "data.train=[a b, c]"],
            "'data.train=[a b, c]': a setting needs --set; did you mean --set 'data.train=[a b, c]'?",
        ),
        (["train", "dates", "--set", "data.x", "a.csv"], "regard train: --set takes KEY=VALUE; did you mean --set"),
        (["train", "dates", "a.csv"], "regard train: a.csv: a file needs a key; did you mean --set data.train=a.csv?"),
        (["train", "dates", "--epochs", "3"], "--epochs is a setting: write --set training.epochs=3; see"),
        (["train", "dates", "--lr", "1e-3"], "--lr is a setting: write --set training.learning_rate=1e-3; see"),
        (["show", "{run}", "a", "--out", "a.jpg"], "a.jpg: cannot write '.jpg'; name a picture, .png"),
        (["show", "{run}", "a", "--layer", "9"], "--layer is 9; the model has layers 0 to 0"),
        (["show", "{run}", "a", "--layer", "0", "--map", "1"], "--map and --layer or --head are both given"),
        (["show", "{run}", "a", "b"], "there are 2 texts, and a picture shows one; give one, in quotes"),
        (["predict", "{run}", "--question", "a"], "--question and --context go together; give both"),
        (["export", "run", "two", "--out", "x"], "regard export: too many arguments: 'two'; put a text with blanks in"),
        (["predict"], 'Command "predict" parameter RUN requires an argument; see `regard predict --help`'),
        (["tran"], 'Unknown command "tran". Did you mean "train"?'),
        (["train"], "no recipe is given; name one (see `regard recipes`), or a run with --resume --out DIR"),
        (["train", "dates", "--st", "x=1"], "Unknown option: --st. Did you mean --set?"),
        (["predict", "run", "text", "--beam", "wide"], 'Invalid value for --beam: unable to convert "wide" into int'),
        (
            ["predict", "run", "-5 May"],
            "Unknown option: -5 May. -5 is not a recognized option; a text that begins with -",
        ),
        (["predict", "run", "text", "-"], "texts and - are both given"),
        (["predict", "run", "text", "--attention"], "--attention needs --json"),
        (["predict", "run", "text", "--n-best", "3", "--beam", "2"], "--n-best is 3; expected at most --beam 2"),
        (["predict", "nowhere", "text"], "nowhere: no such folder; expected the folder of a run"),
        (["evaluate", "dates"], "dates: no such folder; `regard train dates` trains this recipe into runs/dates"),
        (["evaluate", "{run}", "a.tsv", "--columns", "a"], "columns is 'a'; expected 2 names or numbers"),
        (["evaluate", "{run}", "a.tsv"], "a.tsv: no such file"),
        (
            ["fill", "{run}", "a [MASK]"],
            "{run}: a run of the task seq2seq does not predict masked words, but one of the recipe bert does; it can "
            "predict, stream, evaluate, attribute",
        ),
        (["train", "dates", "--set", "model.widht=3"], "--set model.widht: unknown key; did you mean 'width'?"),
        (["train", LONG], f"{LONG}: cannot be read (File name too long)"),
    ],
)
def test_bad_usage_is_one_line(regard, run: Path, arguments: list[str], said: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no runs are
    code, output, errors = regard(*(argument.replace("{run}", str(run)) for argument in arguments))
    assert (code, output) == (2, "")
    [line] = [line for line in errors.splitlines() if "kernels cannot be used" not in line]  # home is read-only
    assert line.startswith(f"regard: {said.replace('{run}', str(run))}")


def fail() -> None:
    raise LookupError("on purpose")


def interrupt() -> None:
    raise KeyboardInterrupt


class PanicException(BaseException):
    """Raised as by a native library in Rust."""


def panic() -> None:
    raise PanicException("on purpose")


@pytest.mark.parametrize(
    ("action", "code", "said"),
    [
        (fail, 1, "regard: unexpected LookupError: on purpose; run again with --debug to see where\n"),
        (interrupt, 130, "regard: interrupted\n"),
        (panic, 1, "regard: unexpected PanicException: on purpose; run again with --debug to see where\n"),
    ],
)
def test_an_error_in_a_command_is_one_line(regard, monkeypatch: pytest.MonkeyPatch, action, code: int, said: str):
    monkeypatch.setattr("regard.runs.recipes.names", action)
    assert regard("recipes") == (code, "", said)
    if action is fail:
        debugged = regard("recipes", "--debug")
        assert (debugged[0], "Traceback" in debugged[2], "in fail" in debugged[2]) == (1, True, True)


@pytest.mark.parametrize("align", ["softmax", "sparsemax", "local-p", "hard", "monotonic"])
def test_a_diverging_run_ends(align: str, tmp_path: Path, regard: Callable[..., tuple[int, str, str]]):
    """Whatever aligns the scores, updates with NaN are skipped and the run ends in one line."""
    far = {"training__learning_rate": "1e20", "training__clip": "0", "training__steps": "20"}
    settings = tiny(model__width="16", model__heads="2", model__layers="1", model__align=align, **far)
    code, _, errors = regard("train", "dates-transformer", *settings, "--out", str(tmp_path / "run"))
    assert code == 1
    assert "skipped: loss nan" in errors
    assert "was not finite in 10 updates in a row" in errors.splitlines()[-1]
