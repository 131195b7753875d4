"""Checkpoints in parts: written in the background, complete or not there, read whole or in parts."""

import errno
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from regard.errors import InputError, RunError
from regard.storage import tensor_shards
from regard.storage.run_folder import RunDirectory
from regard.training.processes import Processes
from regard.training.settings import Training
from regard.training.snapshot import CheckpointWriter


@pytest.fixture
def mesh() -> Iterator[Any]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield torch.distributed.init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


@pytest.fixture
def writer(tmp_path: Path, mesh: Any) -> Iterator[CheckpointWriter]:
    with RunDirectory.create(tmp_path / "run") as run:
        yield CheckpointWriter(run, Processes(Training(device="cpu")), Training(sharded=True))


def groups(mesh: Any, value: float = 1.0) -> dict[str, dict[str, Tensor]]:
    weight = distribute_tensor(torch.arange(6.0).view(3, 2) * value, mesh, [Shard(0)])
    model = {"weight": weight, "tied": weight.clone(), "buffer": torch.tensor([True, False])}
    return {"model": model, "optimizer": {"weight:step": torch.tensor(3.0)}, "carried-0": {"state": torch.ones(2, 1)}}


def test_read_whole_and_in_parts(writer: CheckpointWriter, mesh: Any):
    written = groups(mesh)
    writer.save(5, written, {"counters": 5}, [])
    writer.wait()
    found = writer.newest()
    assert found is not None
    assert found.state == {"counters": 5}
    like = {"weight": torch.zeros_like(written["model"]["weight"]), "tied": torch.zeros(2, 2)}  # of another shape
    for tensors in (found.tensors("model"), found.tensors("model", like)):
        assert tensors.keys() == written["model"].keys()
        for name, each in tensors.items():
            whole = each.full_tensor() if isinstance(each, DTensor) else each
            expected = written["model"][name]
            expected = expected.full_tensor() if isinstance(expected, DTensor) else expected
            assert whole.dtype == expected.dtype
            torch.testing.assert_close(whole, expected, rtol=0, atol=0)
    assert isinstance(found.tensors("model", like)["weight"], DTensor)
    assert not isinstance(found.tensors("model", like)["tied"], DTensor)
    assert found.tensors("optimizer")["weight:step"].item() == 3
    assert found.tensors("carried-0")["state"].shape == (2, 1)
    with pytest.raises(InputError, match=r"shards: has no tensors of average$"):
        found.tensors("average")
    assert {path.suffix for path in found.folder.rglob("*") if path.is_file()} == {".json", ".safetensors"}


def test_training_goes_on_while_it_is_written(
    writer: CheckpointWriter, mesh: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    write, go = tensor_shards.write, threading.Event()
    monkeypatch.setattr(tensor_shards, "write", lambda *inputs: (go.wait(10), write(*inputs)))
    written = groups(mesh)
    writer.save(5, written, {}, [])
    for each in written["model"].values():
        each.zero_()
    assert writer.newest() is None
    go.set()
    writer.wait()
    found = writer.newest()
    assert found is not None
    assert found.tensors("model")["weight"].sum() == 15


def test_a_failed_write_leaves_the_one_before(
    writer: CheckpointWriter, mesh: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    writer.save(5, groups(mesh), {}, [])
    writer.wait()

    def full(path: Path) -> str:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr("regard.training.snapshot.sha256", full)
        writer.save(10, groups(mesh, 2.0), {}, [5])
        with pytest.raises(RunError, match=r"step-00000010: cannot be written: no space left on the device; free some"):
            writer.wait()
    assert [path.name for path in writer.run.checkpoints.iterdir()] == ["step-00000005"]
    writer.save(10, groups(mesh, 2.0), {}, [5])
    writer.wait()
    assert writer.run.checkpoint_steps() == [10]


def test_a_process_that_cannot_write_its_part(writer: CheckpointWriter, mesh: Any, tmp_path: Path):
    writer.run.checkpoints.mkdir()
    writer.run.checkpoints.rmdir()
    writer.run.checkpoints.write_text("a file where the folder is to be")
    writer.save(5, groups(mesh), {}, [])
    with pytest.raises(RunError, match=r"cannot be written"):
        writer.wait()


def test_parts_that_are_missing_or_damaged(writer: CheckpointWriter, mesh: Any, tmp_path: Path):
    info = json.dumps({"model/a": {"saved_offsets": [1, 0]}})
    folder = tmp_path / "shards"
    folder.mkdir()
    save_file({"model/a": torch.ones(1, 2)}, folder / "shard-00002-x.safetensors", {"DCP_SHARDING_INFO": info})
    with pytest.raises(InputError, match=r"shards: has not all parts of model/a; expected \[2, 2\]"):
        tensor_shards.read(folder, "model/", {})
    (folder / "shard-00001-x.safetensors").write_bytes(b"cut")
    with pytest.raises(InputError, match=r"shard-00001-x.safetensors: is plain text; expected a .safetensors file"):
        tensor_shards.read(folder, "model/", {})
    writer.save(5, groups(mesh), {}, [])
    writer.wait()
    path = tensor_shards.part_of(writer.run.checkpoints / "step-00000005" / "shards", 0)
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="none of its 1 checkpoints is undamaged"):
        writer.newest()
