import errno
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.errors import InputError, RunError
from regard.storage import run_folder as run_directory
from regard.storage.run_folder import RunDirectory
from regard.storage.verified_files import Manifest, sha256

SOURCE = str(Path(run_directory.__file__).parents[2])
GROUPS = {"model": {"weight": torch.arange(15.0).reshape(3, 5)}, "optimizer": {"step": torch.tensor(7)}}


def script(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def flip(path: Path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_everything_written_is_read_back_by_another_reader(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        run.write_text("notes/one.txt", "é\r\n")
        run.write_json("result.json", {"loss": 0.1, "names": ["b", "a"]})
        run.append_jsonl("log.jsonl", {"step": 1})
        run.append_jsonl("log.jsonl", {"step": 2, "text": "a\u2028b"})
        run.save_tensors("weights.safetensors", GROUPS["model"], {"model": "toy"})
        run.checkpoints.save(7, GROUPS, {"epoch": 3, "rate": 0.1})
        reader = RunDirectory.open(tmp_path / "run")
        run.write_text("later.txt", "x")
        assert reader.read_text("later.txt") == "x"
    assert reader.read_text("notes/one.txt") == "é\r\n"
    assert reader.read_json("result.json") == {"loss": 0.1, "names": ["b", "a"]}
    assert reader.read_jsonl("log.jsonl") == [{"step": 1}, {"step": 2, "text": "a\u2028b"}]
    assert torch.equal(reader.load_tensors("weights.safetensors")["weight"], GROUPS["model"]["weight"])
    found = reader.checkpoints.newest()
    assert found is not None
    assert (found.step, found.state) == (7, {"epoch": 3, "rate": 0.1})
    assert torch.equal(found.tensors("model")["weight"], GROUPS["model"]["weight"])
    assert found.tensors("optimizer")["step"].item() == 7
    assert reader.has("result.json")
    assert not reader.has("none.json")
    listed = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert listed["format"] == 1
    assert listed["files"]["later.txt"] == [sha256(tmp_path / "run" / "later.txt")]


def test_a_reader_cannot_write_and_names_stay_inside(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        for name in ("../x", "/x", "a/../../x", "", "a\\b", "./x"):
            with pytest.raises(ValueError, match="plain file name"):
                run.write_text(name, "x")
    with pytest.raises(ValueError, match="reading only"):
        RunDirectory.open(tmp_path / "run").write_text("x", "x")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run"]


def test_an_existing_run_is_not_begun_again_and_a_missing_one_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder, so there is no run to resume"):
        RunDirectory.create(tmp_path / "run", resume=True)
    assert not (tmp_path / "run").exists()
    with RunDirectory.create(tmp_path / "run") as run:
        run.write_text("a.txt", "kept")
    with pytest.raises(InputError, match=r"already holds a run; use --resume to continue it"):
        RunDirectory.create(tmp_path / "run")
    with RunDirectory.create(tmp_path / "run", resume=True) as run:
        assert run.read_text("a.txt") == "kept"


def test_a_folder_that_is_no_run_is_left_alone_and_named(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    with pytest.raises(InputError, match=r"is a folder with photo\.png, not a run; choose another --out"):
        RunDirectory.create(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["photo.png"]
    with pytest.raises(InputError, match="is a file"):
        RunDirectory.create(tmp_path / "photo.png")


def test_what_was_given_in_place_of_a_run_is_named(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        run.checkpoints.save(3, GROUPS, {})
    (tmp_path / "hub").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "hub" / name).write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "page.html").write_text("<!DOCTYPE html><html>")
    given = {
        "none": "no such folder",
        "empty": "is an empty folder",
        "hub": "is a Hugging Face folder",
        "page.html": "is an HTML page",
        "run/checkpoints/step-00000003": "is a checkpoint inside a run",
        "run/checkpoints": "is a folder with step-00000003",
    }
    for name, what in given.items():
        with pytest.raises(InputError, match=what):
            RunDirectory.open(tmp_path / name)


def test_leftovers_of_a_killed_run_are_removed_at_the_next_start(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        run.checkpoints.save(3, GROUPS, {"epoch": 1})
        run.append_jsonl("log.jsonl", {"step": 1})
    half = tmp_path / "run" / "checkpoints" / "step-00000005.tmp"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    (tmp_path / "run" / "weights.safetensors.tmp").write_bytes(b"half")
    with (tmp_path / "run" / "log.jsonl").open("a") as log:
        log.write('{"step": 2, "lo')
    assert RunDirectory.open(tmp_path / "run").read_jsonl("log.jsonl") == [{"step": 1}]
    with RunDirectory.create(tmp_path / "run", resume=True) as run:
        found = run.checkpoints.newest()
        assert found is not None
        assert found.step == 3
        run.append_jsonl("log.jsonl", {"step": 2})
        assert run.read_jsonl("log.jsonl") == [{"step": 1}, {"step": 2}]
    assert not list((tmp_path / "run").rglob("*.tmp"))


KILLED = """
import os, signal, sys, torch
from pathlib import Path
from regard.storage.run_folder import RunDirectory

torch.set_num_threads(1)
root, sync, replace = Path(sys.argv[1]), os.fsync, os.replace

def write(run, step):
    run.save_tensors("best.safetensors", {"weight": torch.full((3,), float(step))})
    run.checkpoints.save(step, {"model": {"weight": torch.full((5,), float(step))}}, {"step": step})
    run.checkpoints.remove(step - 1)

def killed_at(moment, path):
    left = [moment]
    def counted(function):
        def call(*arguments):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)
        return call
    with RunDirectory.create(path, resume=True) as run:
        os.fsync, os.replace = counted(sync), counted(replace)
        write(run, 2)
    os._exit(0)

for moment in range(200):
    path = root / str(moment)
    with RunDirectory.create(path) as run:
        run.checkpoints.save(0, {"model": {}}, {"step": 0})
        write(run, 1)
    child = os.fork()
    if child == 0:
        killed_at(moment, path)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        break
    with RunDirectory.create(path, resume=True) as run:
        found = run.checkpoints.newest()
        best = run.load_tensors("best.safetensors")["weight"]
        assert found.tensors("model")["weight"].tolist() == [float(found.step)] * 5
        assert best.tolist() in ([1.0] * 3, [2.0] * 3), best
        assert found.step == found.state["step"] and found.step in (1, 2)
        assert not list(path.rglob("*.tmp"))
        print(found.step, int(best[0]))
        if found.step == 1:
            write(run, 2)
        assert run.checkpoints.newest().step == 2
        assert run.load_tensors("best.safetensors")["weight"].tolist() == [2.0] * 3
"""


@pytest.mark.slow
def test_killed_at_every_moment_of_a_save_the_newest_whole_files_load(tmp_path: Path) -> None:
    done = script(KILLED, tmp_path)
    assert done.returncode == 0, done.stderr
    seen = done.stdout.splitlines()
    assert set(seen) == {"1 1", "1 2", "2 2"}
    assert seen == sorted(seen)
    assert len(seen) > 10


LIMITED = """
import resource, sys, torch
from pathlib import Path
from regard.errors import RunError
from regard.storage.run_folder import RunDirectory

with RunDirectory.create(Path(sys.argv[1])) as run:
    run.write_text("a.txt", "old")
    run.append_jsonl("log.jsonl", {"step": 1})
    run.checkpoints.save(1, {"model": {"weight": torch.zeros(3)}}, {})
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    attempts = [
        lambda: run.write_text("a.txt", "x" * 3000),
        lambda: run.append_jsonl("log.jsonl", {"text": "x" * 3000}),
        lambda: run.save_tensors("weights.safetensors", {"weight": torch.zeros(1000)}),
        lambda: run.checkpoints.save(2, {"model": {"weight": torch.zeros(1000)}}, {}),
        lambda: run.checkpoints.save(1, {"model": {"weight": torch.zeros(1000)}}, {}),
    ]
    for attempt in attempts:
        try:
            attempt()
        except RunError as error:
            print(error)
"""


def test_a_full_disk_is_one_line_and_leaves_no_partial_file(tmp_path: Path) -> None:
    done = script(LIMITED, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    names = ["a.txt", "log.jsonl", "weights.safetensors", "step-00000002", "step-00000001"]
    assert [line.split(": ")[0].rsplit("/", 1)[1] for line in lines] == names
    assert all("cannot be written: no space" in line for line in lines)
    run = RunDirectory.open(tmp_path / "run")
    assert run.read_text("a.txt") == "old"
    assert run.read_jsonl("log.jsonl") == [{"step": 1}]
    assert run.checkpoints.steps() == [1]
    assert run.checkpoints.load(1).tensors("model")["weight"].tolist() == [0, 0, 0]
    assert not (tmp_path / "run" / "weights.safetensors").exists()
    assert not list((tmp_path / "run").rglob("*.tmp"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "no space left on the device"),
        (errno.EDQUOT, "no space left in the quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "no permission"),
        (errno.EIO, "Input/output error"),
    ],
)
@pytest.mark.parametrize("function", ["replace", "fsync", "mkdir", "open"])
def test_whatever_the_system_refuses_with_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str, function: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with RunDirectory.create(tmp_path / "run") as run:
        run.write_text("a.txt", "old")
        run.checkpoints.save(2, GROUPS, {})
        attempts = [lambda: run.write_text("a.txt", "new"), lambda: run.checkpoints.save(3, GROUPS, {})]
        for attempt in attempts[function == "mkdir" :]:
            with monkeypatch.context() as patch:
                patch.setattr(os, function, refuse)
                with pytest.raises(RunError, match=said):
                    attempt()
        assert run.read_text("a.txt") == "old"
        assert run.checkpoints.steps() == [2]
        leftovers = [each.name for each in (tmp_path / "run").rglob("*.tmp")]
        assert leftovers == (["step-00000003.tmp"] if function == "open" else [])  # a folder is opened to be emptied


@pytest.mark.parametrize("name", ["model.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_checkpoint_is_passed_over_for_the_previous_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        for step in (2, 3, 5):
            run.checkpoints.save(step, GROUPS, {"step": step})
        path = tmp_path / "run" / "checkpoints" / "step-00000005" / name
        if damage == "flip":
            flip(path, 0 if name == "manifest.json" else -2)
        elif damage == "cut":
            path.write_bytes(path.read_bytes()[:-3])
        else:
            path.unlink()
        with caplog.at_level(logging.WARNING, "regard"):
            found = run.checkpoints.newest()
        assert found is not None
        assert (found.step, found.state["step"]) == (3, 3)
        assert len(caplog.messages) == 1
        assert str(path) in caplog.messages[0]
        if damage != "gone" and name != "manifest.json":
            assert "SHA-256 mismatch" in caplog.messages[0]
        run.checkpoints.save(5, GROUPS, {"step": 5})
        assert run.checkpoints.load(5).state == {"step": 5}


def test_with_every_checkpoint_damaged_the_run_is_not_begun_again(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        assert run.checkpoints.newest() is None
        run.checkpoints.save(2, GROUPS, {})
        flip(tmp_path / "run" / "checkpoints" / "step-00000002" / "model.safetensors")
        with pytest.raises(InputError, match="none of its 1 checkpoints is undamaged"):
            run.checkpoints.newest()


@pytest.mark.parametrize("name", ["a.txt", "weights.safetensors"])
def test_a_changed_file_is_named(tmp_path: Path, name: str) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        run.write_text("a.txt", "old")
        run.save_tensors("weights.safetensors", GROUPS["model"])
        flip(tmp_path / "run" / name)
        with pytest.raises(InputError, match=f"{name}: SHA-256 mismatch"):
            run.file(name)
        (tmp_path / "run" / name).unlink()
        with pytest.raises(InputError, match=f"{name}: missing"):
            run.file(name)
        with pytest.raises(InputError, match=r"b\.txt: not in manifest\.json"):
            run.file("b.txt")


def test_a_manifest_of_a_newer_format_is_refused_with_both_versions(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "run").close()
    path = tmp_path / "run" / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    for attempt in (lambda: RunDirectory.open(tmp_path / "run"), lambda: RunDirectory.create(tmp_path / "run")):
        with pytest.raises(InputError, match="format version 2, this regard reads version 1"):
            attempt()


@pytest.mark.parametrize(
    "content", ["", "[", "[]", "{}", '{"format": 1, "content": "run", "files": {"../x": []}}', "[" * 100_000]
)
def test_a_broken_manifest_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(InputError, match="not a manifest"):
        Manifest.read(tmp_path)


HOLDING = """
import sys
from pathlib import Path
from regard.storage.run_folder import RunDirectory

run = RunDirectory.create(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_second_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", HOLDING, str(tmp_path / "run")]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        with pytest.raises(InputError, match=f"in use by process {first.pid}; choose another --out"):
            RunDirectory.create(tmp_path / "run", resume=True)
        with pytest.raises(InputError, match="already holds a run"):
            RunDirectory.create(tmp_path / "run")
        assert RunDirectory.open(tmp_path / "run").checkpoints.steps() == []
        first.kill()
    RunDirectory.create(tmp_path / "run", resume=True).close()


def test_one_process_cannot_write_twice_either(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run"), pytest.raises(InputError, match="in use by this process"):
        RunDirectory.create(tmp_path / "run", resume=True)
    RunDirectory.create(tmp_path / "run", resume=True).close()


def test_checkpoints_are_ordered_by_step_whatever_the_clock_says(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        for age, step in enumerate((99_999_999, 100_000_000, 5)):
            run.checkpoints.save(step, GROUPS, {"step": step})
            folder = tmp_path / "run" / "checkpoints" / f"step-{step:08d}"
            for path in (folder, *folder.iterdir()):
                os.utime(path, (10**9 - age, 10**9 - age if step != 5 else 2 * 10**9))
        found = run.checkpoints.newest()
        assert found is not None
        assert found.step == 100_000_000
        assert run.checkpoints.steps() == [5, 99_999_999, 100_000_000]
        run.checkpoints.remove(100_000_000)
        assert run.checkpoints.steps() == [5, 99_999_999]
        with pytest.raises(InputError, match=r"no such checkpoint; there are \[5, 99999999\]"):
            run.checkpoints.remove(7)


@pytest.mark.parametrize(
    "name",
    [
        *("with space", "日本 ünï 🙂", "l" * 255, "-dash", "a'b\"c;$(d)", "/".join(["d" * 200] * 12)),
        *("CON", "nul.txt", "aux", "a:b?*<>|", "trailing. "),  # none of which Windows allows
    ],
)
def test_any_output_path_works(tmp_path: Path, name: str) -> None:
    with RunDirectory.create(tmp_path / name) as run:
        run.checkpoints.save(3, GROUPS, {})
        run.write_json("a.json", 1)
    with RunDirectory.create(tmp_path / name, resume=True) as run:
        found = run.checkpoints.newest()
        assert found is not None
        assert torch.equal(found.tensors("model")["weight"], GROUPS["model"]["weight"])


@pytest.mark.parametrize("name", ["l" * 256, "/".join(["d" * 200] * 21)])
def test_a_path_longer_than_the_system_allows_is_bad_usage(tmp_path: Path, name: str) -> None:
    for resume in (False, True):
        with pytest.raises(InputError, match="too long"):
            RunDirectory.create(tmp_path / name, resume=resume)
    with pytest.raises(InputError):
        RunDirectory.open(tmp_path / name)


def test_a_log_is_cut_back_to_the_step_that_a_run_resumes_from(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run") as run:
        for step in range(5):
            run.append_jsonl("log.jsonl", {"step": step})
        run.keep_jsonl("log.jsonl", lambda record: record["step"] <= 2)
        run.append_jsonl("log.jsonl", {"step": 3})
        assert [record["step"] for record in run.read_jsonl("log.jsonl")] == [0, 1, 2, 3]
        run.write_text("log.jsonl", '{"step": 7}\n')
        run.append_jsonl("log.jsonl", {"step": 8})
        assert [record["step"] for record in run.read_jsonl("log.jsonl")] == [7, 8]
        run.write_text("a.txt", "whole")
        with pytest.raises(ValueError, match="not a log"):
            run.append_jsonl("a.txt", {})
