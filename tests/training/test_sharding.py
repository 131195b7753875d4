"""Shards of FSDP: each process has its part, and one layer is whole at a time; the losses are the same."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import InputError
from regard.models.bert import BertConfig
from regard.models.catalog import build_classifier
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.training.layers import list_sharded_parts, recompute_layers
from tests import forked
from tests.cli.command import environment
from tests.training import sharded, toy

SLACK = 1024
"""Bytes of tensors that do not divide, and of Adam's counters."""


def launched(folder: Path, processes: int, *choices: str) -> dict[str, Any]:
    path = folder / "result.json"
    code = "import sys; from pathlib import Path; from tests.training import sharded; "
    code += "sharded.main(Path(sys.argv[1]), *sys.argv[2:])"
    env = environment(PYTHONPATH=toy.environment()["PYTHONPATH"])
    for status, _, errors in forked.together(processes, ("-c", code, str(path), *choices), env):
        assert status == 0, errors
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return launched(tmp_path_factory.mktemp("alone"), 1)


@pytest.mark.parametrize(
    ("processes", "choices"),
    [
        (2, ("sharded",)),
        pytest.param(4, ("sharded",), marks=pytest.mark.slow),
        pytest.param(2, ("sharded", "recompute"), marks=pytest.mark.slow),
    ],
)
def test_each_process_has_its_part(processes: int, choices: tuple[str, ...], alone: dict[str, Any], tmp_path: Path):
    found = launched(tmp_path, processes, *choices)
    offloaded, bf16 = found.pop("offloaded"), found.pop("bf16")
    assert found.keys() == alone.keys()
    assert offloaded == found["gpt2"]
    assert bf16["losses"] != found["gpt2"]["losses"]
    torch.testing.assert_close(bf16["losses"], found["gpt2"]["losses"], rtol=1e-2, atol=1e-2)
    assert bf16["bytes"] == found["gpt2"]["bytes"]  # of what stays: fp32
    assert (bf16["kinds"], found["gpt2"]["kinds"]) == (["torch.bfloat16"], ["torch.float32"])
    for name, one in alone.items():
        losses = (torch.tensor(each[name]["losses"]) for each in (found, alone))
        torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-5)
        for what, count in one["bytes"].items():
            assert found[name]["bytes"][what] <= count / processes + SLACK, (name, what)
        assert found[name]["parts"] == one["parts"] >= 3
        assert found[name]["gathered"] == 1, name


def test_recomputed_activations_have_the_same_gradients():
    found = []
    for recompute in (False, True):
        model: Any = sharded.models()["gpt2"]
        calls: list[int] = []
        model.blocks[1].feedforward.register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        words = torch.arange(21).view(3, 7)
        batch = toy.ToyBatch(words, words)
        if recompute:
            with recompute_layers(model):
                sharded.Next().loss(model, batch, 1, None).total.backward()
        else:
            sharded.Next().loss(model, batch, 1, None).total.backward()
        assert len(calls) == (2 if recompute else 1)
        assert "forward" not in vars(model.blocks[1])
        found.append([each.grad for each in model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_layers_that_share_a_parameter_are_in_one_group():
    config = BertConfig(layers=2, width=8, heads=2, hidden=8, context=8, relative="bucketed")
    assert list_sharded_parts(build_classifier(config, 13, 2)) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("compile=true", "recompute=true"), "compile and recompute are both set; choose one of them"),
        (("offload=true",), "offload and gathered_precision are of sharded weights; set sharded: true with them"),
        (("gathered_precision=bf16",), "of sharded weights; set sharded: true"),
        (("gathered_precision=bf16", "sharded=true"), "gathered_precision is bf16 and precision fp32; set precision"),
    ],
)
def test_settings_that_exclude_each_other(options: tuple[str, ...], message: str):
    with pytest.raises(InputError, match=message):
        run_file.read(path_of("dates"), [f"training.{option}" for option in options])
