"""Runs are listed, compared and drawn."""

import json
import shutil
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.runs.listing import list_runs, read_record, sort_records
from regard.storage.run_folder import RunDirectory


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """A folder with a run, a better one of more steps, and one that was interrupted."""
    for name in ("one", "two", "below/three"):
        shutil.copytree(run, tmp_path / name)
    changed(tmp_path / "two", {"steps": 5, "test/exact-match": 90.0})
    with RunDirectory.create(tmp_path / "below" / "three", resume=True) as directory:
        directory._manifest.files.pop("result.json")
        directory._manifest.write()
        (directory.path / "result.json").unlink()
    return tmp_path


def changed(run: Path, figures: dict[str, float]) -> None:
    with RunDirectory.create(run, resume=True) as directory:
        directory.write_json("result.json", directory.read_json("result.json") | figures)
        directory.write_text("config.yaml", directory.read_text("config.yaml").replace("steps: 3", "steps: 5"))


def test_the_runs_of_a_folder(folder: Path, regard):
    code, output, errors = regard("runs", str(folder))
    assert (code, errors) == (0, "")
    header, *rows = output.splitlines()
    assert header.split() == ["run", "task", "model", "steps", "figure", "parameters", "date", "size"]
    assert [row.split()[0] for row in rows] == [str(folder / name) for name in ("below/three", "one", "two")]
    assert "  seq2seq  bahdanau  3 of 3  valid/exact-match" in rows[0]
    assert "  seq2seq  bahdanau  5       test/exact-match 90  " in rows[2]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("figure", ["two"]),
        ("test/exact-match", ["two", "one", "three"]),
        ("steps", ["two"]),
        ("run", ["three", "one", "two"]),
    ],
)
def test_runs_are_sorted_by_any_figure(key: str, names: list[str], folder: Path):
    assert [Path(each.run).name for each in sort_records(list_runs(folder), key)][: len(names)] == names


def test_the_keys_to_sort_by_are_named(folder: Path):
    with pytest.raises(InputError, match="no run has a bleu to sort by; there are run, task, model, steps"):
        sort_records(list_runs(folder), "bleu")


def test_runs_as_json(folder: Path, regard):
    code, output, _ = regard("runs", str(folder), "--sort", "steps", "--json")
    records = json.loads(output)
    assert (code, len(records), records[0]["figures"]["test/exact-match"]) == (0, 3, 90.0)
    assert records[0]["size"] == read_record(folder / "two").size > 0


def test_the_differences_of_two_runs(folder: Path, regard):
    code, output, _ = regard("runs", str(folder / "one"), str(folder / "two"))
    assert code == 0
    rows = [line.split() for line in output.splitlines()[1:]]
    assert rows[0] == ["training.steps", "3", "5"]
    assert rows[1][0] == "test/exact-match"
    code, _, errors = regard("runs", str(folder / "one"), str(folder / "one"))
    assert (code, "have the same settings and figures" in errors) == (2, True)


def test_a_run_in_detail(run: Path, regard):
    code, output, errors = regard("info", str(run))
    assert (code, errors) == (0, "")
    for text in ("task     seq2seq", "model    bahdanau", "first source", "test/exact-match", "weights.safetensors"):
        assert text in output
    assert "torch" in output.split("\nEnvironment\n")[1]


@pytest.mark.parametrize("command", ["info", "runs"])
def test_a_folder_that_is_not_there(command: str, regard, tmp_path: Path):
    code, _, errors = regard(command, str(tmp_path / "nowhere"))
    assert (code, "no such folder; expected" in errors) == (2, True)


def test_a_folder_without_runs(regard, tmp_path: Path):
    code, _, errors = regard("runs", str(tmp_path))
    assert (code, "has no runs; `regard train RECIPE` makes one" in errors) == (2, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_names_commands_and_options(shell: str, regard):
    code, output, errors = regard("completion", shell)
    assert (code, errors) == (0, "")
    for text in ("predict", "evaluate", "n-best"):
        assert text in output
