"""Resuming under another environment: compared, refused or allowed, and written down."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import PartialState

import regard
from regard.errors import InputError, RunError
from regard.runs import train as train_module
from regard.runs.train import open_folder
from regard.storage.run_folder import RunDirectory
from regard.storage.verified_files import sha256
from regard.training.settings import VARIABLES, Training, choose_threads
from tests.runs.test_interface import Reader, lookup


def train(folder: Path, steps: int, **options: Any) -> None:
    torch.manual_seed(1)
    settings = {"steps": steps, "device": "cpu", "tensorboard": False, "batch_tokens": 32}
    regard.fit(Reader(), lookup(), folder, training=settings, **options)


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    train(tmp_path / "run", 2)
    return tmp_path / "run"


@pytest.mark.parametrize("name", train_module.DECISIVE)
def test_another_environment_is_refused_or_allowed(
    begun: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    before = json.loads((begun / "environment.json").read_text())
    now = train_module.current_environment
    monkeypatch.setattr(
        train_module, "current_environment", lambda *given: now(*given) | {name: 77 if name == "threads" else "other"}
    )
    other = "77" if name == "threads" else "'other'"
    line = f"environment.{name}: {before[name]!r} in the run, {other} now"
    with pytest.raises(InputError) as refused:
        train(begun, 2, resume=True)
    assert str(refused.value) == f"cannot resume: {line}; undo it or give --allow-change"
    assert json.loads((begun / "environment.json").read_text()) == before
    with caplog.at_level("WARNING", "regard"):
        train(begun, 2, resume=True, allow_change=True)
    assert caplog.messages == [f"resuming with a change: {line}"]
    assert json.loads((begun / "environment.json").read_text()) == before


@pytest.fixture
def three_threads() -> Iterator[None]:
    """PyTorch as it starts with OMP_NUM_THREADS=3."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_threads_are_compared_where_the_setting_is_automatic(begun: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with pytest.raises(InputError, match=r"environment.threads: 1 in the run, 3 now"):
        train(begun, 2, resume=True)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    train(begun, 2, resume=True)
    assert torch.get_num_threads() == 3  # the number of this process returns after a run


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(
    ("setting", "variable", "parameters", "began", "expected"),
    [
        (0, None, 10**5, None, 1),
        (0, None, 10**9, None, 3),
        (0, "3", 10**5, None, 3),
        (0, None, 10**9, 2, 2),
        (0, "3", 10**9, 2, 3),
        (5, "3", 10**5, 2, 5),
    ],
)
def test_threads_follow_setting_environment_beginning_and_size(
    setting: int,
    variable: str | None,
    parameters: int,
    began: int | None,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert choose_threads(Training(threads=setting), parameters, began) == expected


def test_a_run_of_an_older_version_resumes(begun: Path, monkeypatch: pytest.MonkeyPatch):
    now = train_module.current_environment
    monkeypatch.setattr(train_module, "current_environment", lambda *given: now(*given) | {"instructions": "other"})
    older = json.loads((begun / "environment.json").read_text())
    del older["instructions"]
    with RunDirectory.create(begun, resume=True) as run:
        run.write_json("environment.json", older)
    train(begun, 2, resume=True)
    assert "instructions" not in json.loads((begun / "environment.json").read_text())


SIZES = {"width": 8, "heads": 2, "layers": 1, "hidden": 8}
TRAINING = {"steps": 2, "warmup": 1, "batch_tokens": 64, "validate_every": 0, "tensorboard": False}


def write_table(path: Path, *rows: str) -> str:
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return str(path)


def settings(data: str, **model: int) -> dict[str, Any]:
    return {"data": {"train": data}, "tokenizer": {"kind": "character"}, "model": {**SIZES, **model}}


def digests(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(folder)): sha256(path) for path in paths}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    rows = [f"{text} {number},{label}" for number in range(40) for text, label in (("good", "pos"), ("bad", "neg"))]
    data = write_table(folder / "rows.csv", *rows)
    regard.train("classify", folder / "run", training=TRAINING, **settings(data))
    return folder


def refuse(folder: Path, data: str, training: dict[str, Any], **model: int) -> str:
    before = digests(folder / "run")
    with pytest.raises(InputError) as error:
        regard.train(
            "classify", folder / "run", resume=True, allow_change=True, training=training, **settings(data, **model)
        )
    assert digests(folder / "run") == before
    assert regard.load(folder / "run").predict(["good 1"])
    return str(error.value)


def test_another_width_names_the_key_and_a_way_on(finished: Path, tmp_path: Path):
    shutil.copytree(finished, tmp_path / "copy")
    message = refuse(tmp_path / "copy", str(finished / "rows.csv"), {**TRAINING, "steps": 4}, width=16)
    assert "configuration.model.width: 8 in the run, 16 now" in message
    assert "training.start=" in message
    assert "Remove this folder" not in message


def test_a_new_class_is_named(finished: Path, tmp_path: Path):
    shutil.copytree(finished, tmp_path / "copy")
    rows = (finished / "rows.csv").read_text(encoding="utf-8").splitlines()[1:]
    data = write_table(tmp_path / "more.csv", *rows, *["new,third"] * 4)
    message = refuse(tmp_path / "copy", data, {**TRAINING, "steps": 4})
    assert "'third' is new" in message


KINDS = ("absent", "empty", "link", "mount")


@pytest.fixture(params=KINDS)
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "out"
    if request.param in ("empty", "mount"):
        path.mkdir()
    elif request.param == "link":
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere")
    if request.param == "mount":
        mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
        try:
            mounted = subprocess.run(mounting, capture_output=True, check=False).returncode == 0
        except OSError:
            mounted = False
        if not mounted:
            pytest.skip("file systems cannot be mounted here")
        (path / "lost+found").mkdir()
    yield path
    if request.param == "mount":
        subprocess.run(["umount", str(path)], check=True)


def fail(out: Path, error: BaseException, *checkpoints: int, logged: bool = False) -> None:
    """A new run that fails once it has written some files."""
    with open_folder(out, False, PartialState(cpu=True)) as run:
        run.write_text("config.yaml", "x")
        if logged:
            run.append_jsonl("metrics.jsonl", {})
        (out / "tensorboard").mkdir()
        for step in checkpoints:
            run.checkpoints.save(step, {}, {})
        raise error


@pytest.mark.parametrize("error", [InputError("bad data"), RunError("no memory"), KeyboardInterrupt(), ValueError("x")])
def test_the_error_is_reported_and_the_next_start_works(out: Path, error: BaseException):
    was = out.exists(), out.is_symlink(), os.path.ismount(out)
    with pytest.raises(type(error)) as raised:
        fail(out, error)
    assert raised.value is error
    assert (out.exists(), out.is_symlink(), os.path.ismount(out)) == was
    assert not out.exists() or {each.name for each in out.iterdir()} <= {"lost+found"}
    with open_folder(out, False, PartialState(cpu=True)) as run:
        run.write_text("config.yaml", "y")
    assert RunDirectory.open(out).read_text("config.yaml") == "y"


def test_what_a_checkpoint_holds_is_never_removed(tmp_path: Path):
    with pytest.raises(InputError, match="bad data"):
        fail(tmp_path, InputError("bad data"), 3)
    assert RunDirectory.open(tmp_path).checkpoints.steps() == [3]


def test_the_log_of_a_run_that_failed_stays(tmp_path: Path):
    with pytest.raises(RunError, match="the loss is not finite"):
        fail(tmp_path / "failed", RunError("the loss is not finite"), logged=True)
    with open_folder(tmp_path / "failed", True, PartialState(cpu=True)) as run:
        assert run.read_jsonl("metrics.jsonl") == [{}]
    with pytest.raises(InputError, match="bad data"):
        fail(tmp_path / "bad", InputError("bad data"), logged=True)
    assert not (tmp_path / "bad").exists()


def test_a_link_to_nothing(tmp_path: Path):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"is a link to .*nowhere, which does not exist; create it first"):
        RunDirectory.create(tmp_path / "out")
