"""Every error becomes a line and an exit code."""

import errno
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regard.cli.errors import explain
from regard.cli.main import main
from regard.errors import InputError, RunError
from regard.training.processes import Stopped
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
            ["train", "dates", "training.steps=5"],
            "training.steps=5: a setting needs --set; did you mean --set training.st",
        ),
        (
            ["train", "dates", "data.train=[a b, c]"],
            "data.train=[a b, c]: a setting needs --set; did you mean --set 'data.train=[a b, c]'?",
        ),
        (
            ["export", "run", "two", "--out", "x"],
            "regard export: 'two': an argument too many; put a text with blanks in quotes",
        ),
        (["predict"], "regard predict needs RUN; see `regard predict --help`"),
        (["tran"], 'Unknown command "tran". Did you mean "train"?'),
        (["train"], "no recipe is given; name one (see `regard recipes`), or a run with --resume --out DIR"),
        (["train", "dates", "--st", "x=1"], "Unknown option: --st. Did you mean --set?"),
        (["train", "daets"], "'daets' is neither a recipe nor a file; did you mean 'dates'?"),
        (["predict", "run", "text", "--beam", "wide"], 'Invalid value for --beam: unable to convert "wide" into int'),
        (
            ["predict", "run", "-5 May"],
            "Unknown option: -5 May. -5 is not a recognized option; a text that begins with -",
        ),
        (["predict", "run", "text", "-"], "texts and - are both given"),
        (["predict", "run", "text", "--attention"], "--attention needs --json"),
        (["predict", "run", "text", "--beam", "0"], 'Invalid value "0" for --beam. Must be >= 1'),
        (["predict", "run", "text", "--n-best", "0"], 'Invalid value "0" for --n-best. Must be >= 1'),
        (
            ["predict", "run", "text", "--n-best", "3", "--beam", "2"],
            "--n-best is 3; expected at least 1, at most --beam",
        ),
        (["predict", "nowhere", "text"], "nowhere: no such folder; expected the folder of a run"),
        (["evaluate", "{run}", "a", "b", "c"], "a, b, c: expected a source and a target file, or one table"),
        (["evaluate", "{run}", "a.txt"], "a.txt: expected a source and a target file, or one table"),
        (["evaluate", "{run}", "a.tsv", "--columns", "a"], "columns is 'a'; expected 2 names or numbers"),
        (["evaluate", "{run}", "a.jsonl", "--columns", "1,2"], "the columns 1, 2 must all be names"),
        (["evaluate", "{run}", "a.tsv"], "a.tsv: no such file"),
        (["show", "nowhere"], "regard show needs TEXT; see `regard show --help`"),
        (
            ["fill", "{run}", "a [MASK]"],
            "{run}: a run of the task seq2seq does not fill blanks, but one of the recipe bert does; use this run with "
            "regard predict, regard evaluate, regard show",
        ),
        (["train", "dates", "--set", "model.widht=3"], "--set model.widht: unknown key; did you mean 'width'?"),
        (["train", LONG], f"{LONG}: cannot be read (File name too long)"),
    ],
)
def test_bad_usage_is_one_line(regard, run: Path, arguments: list[str], said: str):
    code, output, errors = regard(*(argument.replace("{run}", str(run)) for argument in arguments))
    assert (code, output) == (2, "")
    assert errors.startswith(f"regard: {said.replace('{run}', str(run))}")
    assert len(errors.splitlines()) == 1


def test_every_mistake_has_its_line(regard):
    code, _, errors = regard("train", "dates", "--set", "model.widht=3", "--set", "training.steps=many")
    assert code == 2
    assert [line.split(":")[1] for line in errors.splitlines()] == [" --set model.widht", " --set training.steps"]


def test_no_data_file(regard, tmp_path):
    missing = str(tmp_path / "no.tsv")
    table = f"data={{kind: table, train: {missing}, valid: {missing}}}"
    code, _, errors = regard("train", "dates", "--out", str(tmp_path / "run"), "--set", table)
    assert (code, errors) == (2, f"regard: {missing}: no such file; check the path\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has what the test wants absent")
def test_a_device_that_is_not_there(regard, tmp_path):
    code, _, errors = regard("train", "dates", "--out", str(tmp_path / "run"), *tiny(training__device="cuda"))
    assert code == 2
    assert errors.startswith("regard: device 'cuda' is not available here; choose from: auto, ")
    assert not (tmp_path / "run").exists()


def test_a_folder_with_a_name_too_long(regard, tmp_path):
    code, _, errors = regard("train", "dates", "--out", str(tmp_path / LONG), *tiny())
    assert code == 2
    assert "too long" in errors
    assert list(tmp_path.iterdir()) == []


def fail() -> None:
    raise LookupError("on purpose")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr("regard.runs.recipes.names", fail)
    return fail


def test_an_unexpected_error_is_one_line(regard, failing):
    assert regard("recipes") == (
        1,
        "",
        "regard: unexpected LookupError: on purpose; run again with --debug to see where\n",
    )


def test_debug_shows_the_traceback(regard, failing):
    code, _, errors = regard("recipes", "--debug")
    assert code == 1
    assert "Traceback" in errors
    assert "in fail" in errors


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.runs.recipes.names", interrupt)
    assert main(["recipes"]) == 130
    assert capsys.readouterr().err == "regard: interrupted\n"


@pytest.mark.parametrize(
    "align", ["softmax", "sparsemax", "entmax", "local-p", "hard", "straight-through", "monotonic"]
)
def test_a_diverging_run_ends(align: str, tmp_path: Path, regard: Callable[..., tuple[int, str, str]]):
    """Whatever aligns the scores, updates with NaN are skipped and the run ends in one line."""
    far = {"training__learning_rate": "1e20", "training__clip": "0", "training__steps": "20"}
    settings = tiny(model__width="16", model__heads="2", model__layers="1", model__align=align, **far)
    code, _, errors = regard("train", "dates-transformer", *settings, "--out", str(tmp_path / "run"))
    assert code == 1
    assert "skipped: loss nan" in errors
    assert "was not finite in 10 updates in a row" in errors.splitlines()[-1]
