"""The greatest weights of each query of a transformers model, as a table."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.errors import InputError
from regard.hub.open_run import open_run
from regard.maps.heads import COLUMNS
from tests.hub.tiny_folders import TEXT, example, tiny_folder

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the library


@pytest.mark.parametrize(
    ("name", "role", "target"),
    [
        ("bert", None, None),
        ("mistral", None, None),
        ("deberta", None, None),
        ("bart", "cross", "the mat"),
        ("bart", "encoder", "the mat"),
        ("bart", "decoder", "the mat"),
        ("vit", None, None),
    ],
)
def test_they_are_the_greatest_of_all_weights(name: str, role, target: str | None, tmp_path: Path):
    run, text = open_run(tiny_folder(name, tmp_path / name)), example(name, tmp_path)
    whole = run.attribute(text, role=role or "encoder" if name in ("bert", "bart") else None, target=target).lookups
    whole = whole[1] if name == "mistral" else whole[0]
    found = run.greatest(text, 3, role=role, target=target)
    assert found.weights.shape == (*whole.weights.shape[:3], min(3, whole.weights.shape[3]))
    np.testing.assert_allclose(found.weights, -np.sort(-whole.weights, -1)[..., :3], atol=1e-6)
    read = found.keys >= 0
    own = np.take_along_axis(whole.weights, found.keys.clip(0), -1)
    np.testing.assert_allclose(found.weights[read], own[read], atol=1e-6)
    assert found.target == whole.target
    assert [label.split(" (sink")[0] for label in whole.source] == [*found.source]


def test_rows_keep_their_positions_and_maps_are_chosen(tmp_path: Path):
    run = open_run(tiny_folder("bert", tmp_path / "bert"))
    every = [*run.greatest(TEXT, 2).rows()]
    assert len(every) == 2 * 3 * 15 * 2
    assert [*run.greatest(TEXT, 2, rows="4:6").rows([1, 5])] == [
        row for row in every if row[2] in (4, 5) and row[:2] in ((0, 1), (1, 2))
    ]
    assert every[8][2:4] == (4, "sat")
    with pytest.raises(InputError, match="map 6 is not there; the model has 6, from 0 to 5"):
        list(run.greatest(TEXT, 2).rows([6]))


class Largest(TorchDispatchMode):
    """The most numbers of a tensor that exists within the block."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.is_floating_point():
            self.numbers = max(self.numbers, found.numel())
        return found


def test_no_tensor_of_queries_by_keys_exists(tmp_path: Path):
    run, text = open_run(tiny_folder("llama", tmp_path / "llama")), " ".join([TEXT] * 120)
    with Largest() as largest:
        found = run.greatest(text, 2)
    queries = found.weights.shape[2]
    assert queries > 1500
    assert 0 < largest.numbers < queries**2


def test_a_window_leaves_fewer_keys(tmp_path: Path):
    run = open_run(tiny_folder("mistral", tmp_path / "mistral"))
    rows = [*run.greatest(TEXT, 9).rows([0])]
    by_query = {query: [row[4] for row in rows if row[2] == query] for query in range(13)}
    assert by_query[0] == [0]
    assert sorted(by_query[12]) == [7, 8, 9, 10, 11, 12]


def test_from_the_command_line(regard, tmp_path: Path):
    folder, out = str(tiny_folder("gpt2", tmp_path / "gpt2")), tmp_path / "top.tsv"
    code, output, _ = regard("show", folder, "the old cat", "--top", "2", "--out", str(out))
    assert (code, output) == (0, f"The table is {out}.\n")
    with out.open(newline="") as file:
        header, *rows = csv.reader(file, delimiter="\t")
    assert tuple(header) == COLUMNS
    assert rows[0] == ["0", "0", "0", "the", "0", "the", "1"]
    for options, message in (
        (["--kind", "rollout"], "the greatest weights are of the kind weights; leave rollout out"),
        (["--role", "cross"], "has no maps of the role cross: none of its parts has that role"),
        (["--rows", "99"], "rows is '99'; there are"),
    ):
        code, _, errors = regard("show", folder, "the old cat", "--top", "2", "--out", str(out), *options)
        assert code == 2
        assert message in errors


def test_the_mean_and_the_entropies_of_a_long_text_are_tables_too(regard, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("regard.hub.any_model.passes.WHOLE", 8)
    folder, out = str(tiny_folder("bert", tmp_path / "bert")), tmp_path / "all.tsv"
    run = open_run(tmp_path / "bert")
    regard("show", folder, TEXT, "--out", str(out), "--map", "3:6")
    header, *rows = [line.split("\t") for line in out.read_text().splitlines()]
    assert [row[:4] for row in rows] == [
        ["1", f"{head}", "0", "all 15 positions (mean)"] for head in range(3) for _ in range(15)
    ]
    mean = run.attribute(TEXT).lookups[0].weights[1, :, 0]
    np.testing.assert_allclose(np.array([float(row[6]) for row in rows]).reshape(3, 15), mean, atol=1e-6)
    regard("show", folder, TEXT, "--out", str(out), "--view", "entropy")
    header, *rows = [line.split("\t") for line in out.read_text().splitlines()]
    assert header == ["layer", "head", "entropy"]
    expected = np.stack(run.attribute(TEXT).entropies()).ravel()
    np.testing.assert_allclose([float(row[2]) for row in rows], expected, atol=1e-4)
