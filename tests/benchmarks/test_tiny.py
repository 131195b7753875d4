"""Each benchmark that the documentation names runs to its end, with small sizes."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks import (
    additive,
    decoding,
    efficientnet_lite,
    gpu,
    kills,
    ragged,
    recording,
    report,
    scale,
    startup,
    training,
)
from benchmarks.kills import Case
from regard.models.gpt2 import GPT2Config
from regard.models.published_images import read_tower
from regard.storage.published_folder import PublishedFolder


def some_of(systems: dict[str, Any]) -> dict[str, Any]:
    """Only those that need no environment of their own, and one of ours."""
    return {
        name: build
        for name, build in systems.items()
        if name.endswith(("Marian", "Luong GRU")) and "JoeyNMT" not in name
    }


PAIRS = [([5, 7, 11], [13, 5]), ([7], [5, 11, 7, 13]), ([5, 11], [5])] * 8
TINY: dict[str, tuple[ModuleType, dict[str, Any], Callable[[Path], object]]] = {
    "training": (
        training,
        {"SIZES": (64,), "BATCHES": 1, "ROUNDS": 1, "sample_pairs": lambda: PAIRS, "precisions": lambda: ("fp32",)}
        | {"SYSTEMS": some_of(training.SYSTEMS)},
        lambda folder: training.main(),
    ),
    "decoding": (
        decoding,
        {"CASES": ((8, 5),), "ROUNDS": 1, "SYSTEMS": some_of(decoding.SYSTEMS), "COPIED_BYTES": 1 << 12, "GENERATED": 2}
        | {"GPT2_SIZES": GPT2Config(layers=1, width=8, heads=2, context=8)},
        lambda folder: decoding.main(),
    ),
    "ragged": (
        ragged,
        {"ROWS": 2, "LONGEST": 12, "SHORTEST": {"ragged": 2}, "LAYERS": 1, "ROUNDS": 1},
        lambda folder: ragged.main(),
    ),
    "recording": (recording, {"SHAPES": ("2x5x6x3",), "ROUNDS": 1, "LENGTH": 32}, lambda folder: recording.main()),
    "additive": (
        additive,
        {"SHAPES": ("2x3x5x7",), "ROUNDS": 1, "REPEATS": 8},
        lambda folder: additive.main(["plain"]),
    ),
    "startup": (
        startup,
        {"ROUNDS": 1, "LEARNED": ("training.steps=3", "training.warmup=0", "training.validate_every=0")},
        lambda folder: startup.main(),
    ),
    "kills": (kills, {"CASES": {"one": Case(chains=1, kills=1)}}, lambda folder: kills.main([])),
    "scale sets": (scale, {"PROCESSES": (1,), "UPDATES": 2}, lambda folder: scale.run_sets(folder, 400)),
    "scale predict": (scale, {}, lambda folder: scale.run_predict(folder, 300)),
    "scale evaluate": (scale, {"PROCESSES": (1,)}, lambda folder: scale.run_evaluate(folder, 8)),
    "gpu": (gpu, {}, lambda folder: gpu.main(["--tiny", "tests", "additive", "recipes"])),
}
"""The module, what is smaller there, and what is run."""


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")
@pytest.mark.parametrize("name", TINY)
def test_it_runs_to_its_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    module, sizes, run = TINY[name]
    for constant, value in sizes.items():
        monkeypatch.setattr(module, constant, value)
    for folder in ("src", "benchmarks"):
        (tmp_path / folder).symlink_to(report.ROOT / folder)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "ROOT", report.ROOT if name == "gpu" else tmp_path)
    threads = torch.get_num_threads()
    try:
        assert not run(tmp_path)
    finally:
        torch.set_num_threads(threads)
    for path in (tmp_path / "results").glob("*.json"):
        assert json.loads(path.read_text())["rows"]
    assert "|" in capfd.readouterr().out or name == "gpu"


@pytest.mark.slow
def test_a_published_network_without_squeeze_and_excitation_is_written_exactly(tmp_path: Path):
    """Each tensor has its place, and the gates that the published network lacks are exactly 1."""
    network = efficientnet_lite.build_network()
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in network.state_dict().items():
        if ".squeeze_excite." in name:
            continue
        first, _, rest = name.removeprefix("efficientnet.encoder.blocks.").partition(".")
        block = f"_blocks.{first}." if first.isdecimal() else ""
        whole = rest if block else name
        names = efficientnet_lite.BLOCK_NAMES if block else efficientnet_lite.NAMES
        ours, theirs = next(pair for pair in names.items() if whole.startswith(pair[1]))
        value = torch.rand_like(tensor) if tensor.is_floating_point() else tensor
        weights[block + ours + whole.removeprefix(theirs)] = value
    efficientnet_lite.convert(weights, tmp_path)
    source = read_tower(str(tmp_path), None)
    tower: Any = source.model.encoder()
    tower.load_published(PublishedFolder(tmp_path))
    assert (source.model.cells, source.model.width, source.images.resize) == (7, 1280, 256)
    gate = tower.eval().network.encoder.blocks[1].squeeze_excite
    states = torch.randn(1, gate.dim, 3, 5)
    assert torch.equal(gate(states), states)
    stem = tower.network.embeddings.convolution.weight
    assert torch.equal(stem, weights["_conv_stem.weight"])
    last = tower.network.encoder.blocks[15].projection.project_conv.weight
    assert torch.equal(last, weights["_blocks.15._project_conv.weight"])
