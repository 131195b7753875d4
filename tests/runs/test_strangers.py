"""A run of a stranger: what its folder may not have is refused in one line, before anything is allocated."""

import hashlib
import json
import os
import re
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import InputError
from regard.hub.importing import import_run
from regard.runs import run_file
from regard.runs.listing import read_record
from regard.runs.run_file import check_sizes, load
from regard.runs.train import ENVIRONMENT, read_threads
from regard.storage.run_folder import SCALE, RunDirectory
from regard.tasks.regression import NumberOutput
from regard.training.loop import fit
from tests.hub.published import CONFIGURATIONS, gpt2
from tests.training import toy
from tests.training.test_loop import run as train

RUNS = Path(__file__).parents[1] / "data" / "runs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUNS / "dates", tmp_path / "run"))


def sign(folder: Path) -> None:
    """Give every file of the folder its digest of now."""
    path = folder / "manifest.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    for name, digests in known["files"].items():
        known["files"][name] = digests and [hashlib.sha256((folder / name).read_bytes()).hexdigest()]
    path.write_text(json.dumps(known), encoding="utf-8")


def change(folder: Path, key: str, value: object) -> None:
    path = folder / "config.yaml"
    found, count = re.subn(rf"^( *){key}: .*$", rf"\g<1>{key}: {value}", path.read_text(encoding="utf-8"), flags=re.M)
    assert count
    path.write_text(found, encoding="utf-8")
    sign(folder)


def resume(folder: Path) -> None:
    with RunDirectory.create(folder, resume=True) as directory:
        fit(toy.model(), toy.Following(), toy.settings(), directory, resume=True)


def refused(folder: Path, message: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=message) as caught:
        load(folder, "cpu")
    assert "\n" not in str(caught.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


@pytest.mark.parametrize("name", ["config.yaml", "weights.safetensors", "manifest.json", "source-tokenizer.json"])
def test_a_link_out_of_the_folder(name: str, folder: Path):
    path = next(each for each in folder.iterdir() if each.name.endswith(name.split("-")[-1]))
    path.rename(folder.parent / "outside")
    path.symlink_to(folder.parent / "outside")
    refused(folder, rf"{path.name}: is a link that leads out of the folder; refused")


def test_links_inside_the_folder_and_to_it(folder: Path):
    (folder / "config.yaml").rename(folder / "other.yaml")
    (folder / "config.yaml").symlink_to("other.yaml")
    (folder.parent / "link").symlink_to(folder)
    assert load(folder.parent / "link", "cpu")


def test_a_file_without_a_digest(folder: Path):
    path = folder / "manifest.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    known["files"]["weights.safetensors"] = []
    path.write_text(json.dumps(known), encoding="utf-8")
    refused(folder, r"weights.safetensors: manifest.json has no SHA-256 of it, which only a log \(.jsonl\) may lack")


@pytest.mark.parametrize("value", [1 << 20, 1 << 40])
def test_sizes_that_the_weights_do_not_have(value: int, folder: Path):
    change(folder, "embedding", value)
    refused(folder, r"describes a model of [\d,]+ bytes, its weights have|weights do not fit|out of range|at most")


def test_layers_that_the_weights_do_not_have(tmp_path: Path):
    gpt2(tmp_path / "published", **CONFIGURATIONS[0])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    change(tmp_path / "run", "layers", 10**9)
    refused(tmp_path / "run", "describes far more layers than the weights have")


def test_comparing_sizes_draws_no_random_numbers(folder: Path):
    torch.manual_seed(3)
    expected = torch.rand(3)
    config = run_file.read(folder / "config.yaml")
    torch.manual_seed(3)
    check_sizes(RunDirectory.open(folder), config)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("name", "text"), [("labels", "{}"), ("labels", "[1]"), ("x", "\xff"), ("x", "[")])
def test_json_with_a_valid_digest(name: str, text: str, tmp_path: Path):
    with RunDirectory.create(tmp_path / "run") as run:
        run.write_text(f"{name}.json", "{}")
        run.path.joinpath(f"{name}.json").write_bytes(text.encode("latin-1"))
    sign(tmp_path / "run")
    read = RunDirectory.open(tmp_path / "run")
    with pytest.raises(InputError, match=rf"{name}.json: .*though its SHA-256 is right; was it changed\?"):
        read.read_labels() if name == "labels" else read.read_json(f"{name}.json")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("result.json", "[]", "result.json: does not have its content, though its SHA-256 is right"),
        ("result.json", '{"steps": "many"}', "result.json: steps is not a number, though its SHA-256 is right"),
        ("metrics.jsonl", '{"kind": "training", "update": 1}\n[]\n', r"metrics.jsonl:2: is not a record of a log"),
        ("metrics.jsonl", '{"kind": "training", "update": 1, "loss": "x"}\n', r"metrics.jsonl:1: has no kind, update"),
    ],
)
def test_figures_of_a_stranger(name: str, content: str, message: str, folder: Path):
    (folder / name).write_text(content, encoding="utf-8")
    sign(folder)
    with pytest.raises(InputError, match=message):
        read_record(folder)


def test_an_environment_of_a_stranger(folder: Path):
    (folder / ENVIRONMENT).write_text('{"threads": "many"}', encoding="utf-8")
    sign(folder)
    with pytest.raises(InputError, match=r"environment.json: threads is 'many', though its SHA-256 is right"):
        read_threads(RunDirectory.open(folder))


@pytest.mark.parametrize("content", ["[]", "{}", '{"mean": 1}', '{"mean": "x", "deviation": 1}'])
def test_a_scale_of_a_stranger(content: str, folder: Path):
    with RunDirectory.create(folder, resume=True) as run:
        run.write_text(SCALE, content)
    with pytest.raises(InputError, match=rf"{SCALE}: .*though its SHA-256 is right"):
        NumberOutput.read(RunDirectory.open(folder))


def state(edit: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def spoil(checkpoint: Path) -> None:
        values = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
        edit(values)
        (checkpoint / "state.json").write_text(json.dumps(values), encoding="utf-8")

    return spoil


def optimizer(edit: Callable[[dict[str, torch.Tensor], str], object]) -> Callable[[Path], None]:
    def spoil(checkpoint: Path) -> None:
        tensors = load_file(checkpoint / "optimizer.safetensors")
        edit(tensors, next(name for name in tensors if name.endswith(":exp_avg")))
        save_file(tensors, checkpoint / "optimizer.safetensors")

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        state(lambda values: values["counters"].update(update="many")),
        state(lambda values: values["counters"].update(update=-1)),
        state(lambda values: values["counters"].update(index=1.5)),
        state(lambda values: values.pop("counters")),
        state(lambda values: values.pop("random")),
        state(lambda values: values["random"][0].update(torch="00")),
        optimizer(lambda tensors, name: tensors.pop(name)),
        optimizer(lambda tensors, name: tensors.update({name: torch.zeros(1)})),
        optimizer(lambda tensors, name: tensors.update({"nowhere:exp_avg": torch.zeros(1)})),
    ],
)
def test_training_state_with_valid_digests(spoil: Callable[[Path], None], tmp_path: Path):
    train(tmp_path / "run", steps=6)
    checkpoint = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    spoil(checkpoint)
    sign(checkpoint)
    with pytest.raises(
        InputError, match=r"its training state cannot be restored, though its SHA-256 is right"
    ) as found:
        resume(tmp_path / "run")
    assert "\n" not in str(found.value)
    assert checkpoint.is_dir()


@pytest.mark.parametrize("name", ["checkpoints", "metrics.jsonl"])
def test_checkpoints_and_logs_elsewhere(name: str, tmp_path: Path):
    train(tmp_path / "run", steps=6)
    outside = tmp_path / "outside"
    (tmp_path / "run" / name).rename(outside)
    (tmp_path / "run" / name).symlink_to(outside)
    before = outside.is_dir() or outside.read_bytes()
    with pytest.raises(InputError, match=f"{name}: is a link that leads out of the folder"):
        resume(tmp_path / "run")
    assert (outside.is_dir() or outside.read_bytes()) == before


def test_a_run_file_without_an_end(tmp_path: Path):
    with pytest.raises(InputError, match="/dev/zero: larger than"):
        run_file.read(Path("/dev/zero"))
    os.symlink("/dev/zero", tmp_path / "manifest.json")
    with pytest.raises(InputError):
        RunDirectory.open(tmp_path)
