"""The models that the benchmark of ragged batches compares."""

from typing import Any

import pytest
import torch

from benchmarks import ragged
from regard.models.bert import BertConfig

SIZES = {"layers": 1, "width": 6, "heads": 2, "hidden": 7, "context": 16}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    def theirs(**sizes: Any) -> Any:
        return whole(hidden_size=6, num_attention_heads=2, intermediate_size=7, vocab_size=19, **sizes)

    whole = ragged.TheirConfig
    monkeypatch.setattr(ragged, "TheirConfig", theirs)
    monkeypatch.setattr(BertConfig, "named_sizes", {"base": SIZES})
    for name, size in {"VOCABULARY": 19, "FIRST": 5, "ROWS": 3, "LONGEST": 11}.items():
        monkeypatch.setattr(ragged, name, size)


def test_both_give_states_of_one_shape():
    shapes = [form() for form in ragged.forms(torch.tensor([3, 11, 7]), 2, torch.float64).values()]
    ours, theirs = shapes
    assert isinstance(ours, torch.Tensor)
    assert ours.shape == theirs.last_hidden_state.shape == (3, 11, 6)  # type: ignore[attr-defined]


def test_the_aim_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ragged, "timed", lambda *_: {"regard": 2.0, "Hugging Face": 3.5})
    (aim,) = ragged.aims()
    assert aim.met
    assert aim.ratio == 1.75


def test_times_are_of_both():
    found = ragged.timed(2, 1, torch.float32, rounds=1)
    assert list(found) == ["regard", "Hugging Face"]
    assert all(each > 0 for each in found.values())
