"""The layers that `training.compile` compiles, and its message where it compiles nothing."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.errors import InputError, RunError
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.layers import CompiledForward, compile_layers
from regard.training.objectives import AttentionLoss, AttentionLosses
from regard.work import enable_debugging
from tests.laws import cases
from tests.training import toy


def transformer() -> Transformer:
    return Transformer(13, 17, TransformerConfig(layers=1, width=6, heads=2, hidden=7))


def told(caplog: pytest.LogCaptureFixture, model: torch.nn.Module) -> str:
    """The one line that is logged."""
    with caplog.at_level(logging.INFO, "regard"), compile_layers(model):
        assert not any("forward" in vars(module) for module in model.modules())
    (line,) = caplog.messages
    return line


def test_a_layer_that_cannot_be_compiled():
    """One line, where PyTorch has pages."""

    def broken(graph: Any, inputs: Any) -> Any:
        raise ValueError("no such kernel\nand more")

    layer = torch.nn.Linear(2, 3)
    forward = CompiledForward(layer, broken)
    with pytest.raises(RunError, match=r"raised: ValueError: no such kernel\); leave training"):
        forward(torch.ones(1, 2))
    with torch.no_grad():
        assert torch.equal(forward(torch.ones(1, 2)), layer(torch.ones(1, 2)))


@pytest.mark.slow
def test_updates_are_the_same_and_one_graph_serves_all_lengths():
    """Graphs of both passes, run as they are: `benchmarks/compiling.py` has PyTorch write fifty C++ files of them."""
    command = [sys.executable, str(Path(__file__).parent / "compiled.py"), "aot_eager"]
    done = subprocess.run(command, env=toy.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "INFO training.compile: 4 layers are compiled (encoder.layers, decoder.layers); the first updates wait for it"
    ]
    found: dict[str, Any] = json.loads(done.stdout)
    assert found.pop("updates") < 1e-5  # losses and gradients, with the same numbers dropped
    assert found == {
        "graphs": 2,  # of an encoder's layer and a decoder's
        "breaks": [],
        "names": True,
        "maps": 0.0,
        "graphs later": 2,  # nothing was compiled to be recorded or validated
        "left": [],
        "own": ["attend"],
    }


def test_a_recurrence_is_not_compiled(caplog: pytest.LogCaptureFixture):
    line = told(caplog, cases.MODELS["bahdanau"]())
    assert line == "training.compile: nothing of this model is compiled: it has no such layer"


def test_with_debug_nothing_is_compiled(caplog: pytest.LogCaptureFixture):
    with enable_debugging():
        line = told(caplog, transformer())
    assert line.endswith("nothing of this model is compiled: --debug checks every module")


def test_other_processes_are_silent(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "regard"), compile_layers(torch.nn.Linear(2, 3), log_layers=False):
        pass
    assert not caplog.messages


def test_losses_of_attention_leave_nothing_to_compile():
    model = transformer()
    loss, settings = AttentionLoss(AttentionLosses(coverage=1.0), model.decoder), toy.settings(compile=True)
    batch: Any = SimpleNamespace(target_in=None, target_out=None, source_lengths=None, links=None)
    with pytest.raises(InputError, match=r"attention_losses .* leave training\.compile out"):
        loss.of(model, (), batch, settings, 1)
