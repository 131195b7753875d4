"""Folders and pictures are replaced on request only, and only where regard wrote them."""

import shutil
from pathlib import Path

import pytest

from regard.storage.lock import Lock
from tests.cli.command import tiny
from tests.hub.published import CONFIGURATIONS, gpt2


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != ".lock"}


def test_a_run_is_replaced_by_a_new_one(copy: Path, regard):
    before = content(copy)
    code, output, errors = regard("train", "dates", "--out", str(copy), "--overwrite", *tiny(training__seed="7"))
    assert code == 0, errors
    assert f"The run is in {copy}." in output
    assert content(copy)["weights.safetensors"] != before["weights.safetensors"]
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]


def test_a_run_stays_if_the_new_one_cannot_begin(copy: Path, regard):
    before = content(copy)
    wrong = tiny(data="{kind: table, train: nowhere.tsv, valid: nowhere.tsv}")
    code, _, errors = regard("train", "dates", "--out", str(copy), "--overwrite", *wrong)
    assert (code, "nowhere.tsv: no such file" in errors) == (2, True)
    assert content(copy) == before
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]


def test_a_folder_of_somebody_else_is_kept(tmp_path: Path, regard):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for name in ("mine", "mine/thesis.txt", "link"):
        code, _, errors = regard("train", "dates", "--out", str(tmp_path / name), "--overwrite", *tiny())
        assert (code, "--overwrite replaces a run only, which this is not" in errors) == (2, True)
    assert (tmp_path / "mine" / "thesis.txt").read_text(encoding="utf-8") == "years of work"


def test_a_run_in_use_is_kept(copy: Path, regard):
    lock = Lock(copy)
    try:
        code, _, errors = regard("train", "dates", "--out", str(copy), "--overwrite", *tiny())
    finally:
        lock.release()
    assert (code, "in use by process" in errors) == (2, True)
    assert (copy / "weights.safetensors").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dates", "--resume"], "--resume continues a run and --overwrite replaces it; choose one"),
        (["{copy}"], "is the run to train on, so it cannot be replaced"),
    ],
)
def test_what_cannot_be_replaced(arguments: list[str], said: str, copy: Path, regard):
    given = [each.replace("{copy}", str(copy)) for each in arguments]
    code, _, errors = regard("train", *given, "--out", str(copy), "--overwrite")
    assert (code, said in errors) == (2, True)
    assert (copy / "weights.safetensors").is_file()


def test_a_folder_may_have_the_name_of_its_recipe(tmp_path: Path, regard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        code, _, errors = regard("train", "dates", "--out", "dates", "--overwrite", *tiny())
        assert code == 0, errors
    assert (tmp_path / "dates" / "weights.safetensors").is_file()


def test_a_picture_has_a_name_of_its_own_by_default(run: Path, tmp_path: Path, regard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    name = f"{run.name}-attention"
    for arguments, expected in (
        ([], f"{name}.png"),
        ([], f"{name}-2.png"),
        (["--overwrite"], f"{name}.png"),
        (["--kind", "norms", "--kind", "weights"], f"{name}.html"),
        (["--compare-text", "3 May 2018"], f"{name}-2.html"),
    ):
        code, output, errors = regard("show", str(run), "14 July 1989", *arguments)
        assert (code, errors) == (0, "")
        assert output.splitlines()[-1] == f"The picture is {expected}."
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{name}-2.html",
        f"{name}-2.png",
        f"{name}.html",
        f"{name}.png",
    ]


def test_without_matplotlib_the_picture_is_a_page(run: Path, tmp_path: Path, regard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.cli.show.find_spec", lambda name: None)
    assert regard("show", str(run), "14 July 1989")[1].endswith(f"The picture is {run.name}-attention.html.\n")


def test_imports_and_exports_are_replaced(tmp_path: Path, regard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    gpt2(tmp_path / "small", **CONFIGURATIONS[0])
    commands = ("import", "small", "--out", "run"), ("export", "run", "--out", "out")
    for command in commands:
        assert regard(*command)[0] == 0
        assert regard(*command)[0] == 2
        assert regard(*command, "--overwrite")[0] == 0
    (tmp_path / "out" / "README.md").unlink()
    code, _, errors = regard(*commands[1], "--overwrite")
    assert (code, "--overwrite replaces an export of regard only" in errors) == (2, True)
