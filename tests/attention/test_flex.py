"""FlexAttention as a path: its rules of masks are the masks, its plain form gives what the plain path gives, and it
serves only where a GPU compiles it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.attention import flex_attention

import regard
from regard.attention import Attend
from regard.attention.align import Sparsemax
from regard.attention.fast import FAST, Flex, Fused, expressible
from regard.attention.lookup import Lookup
from regard.attention.masks import Mask, causal, padding, prefix, window
from regard.attention.memory import Memory
from regard.attention.scores import Additive, Dot, ScaledDot, Score, SoftCapped
from regard.kernels import flex
from regard.kernels.flex import blocks
from tests.attention.test_masks_and_biases import HEADS, LENGTH, MASKS


@pytest.fixture(autouse=True)
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain form is not traced: the type checks of tests cannot be."""
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


OTHERS: dict[str, Mask] = {
    "causal": causal(LENGTH),
    "after only": window(LENGTH, before=None, after=2),
    "padding": padding(torch.tensor([9, 0]), LENGTH),
    "causal and padding": causal(LENGTH) & padding(torch.tensor([9, 4]), LENGTH),
    "prefix of one length": prefix(torch.tensor([4]), LENGTH),
}
EVERY = {name: mask for name, (mask, _) in MASKS.items()} | OTHERS


def lookup_of(mask: Mask | None, score: Score, groups: int = HEADS, queries: int = LENGTH) -> Lookup:
    torch.manual_seed(4)
    memory = Memory(torch.randn(2, groups, LENGTH, 16), torch.randn(2, groups, LENGTH, 5), mask, clean=False)
    return Lookup(score, Attend(score).align, torch.randn(2, HEADS, queries, 16), memory)


@pytest.mark.parametrize("name", EVERY)
def test_the_rule_of_a_mask_is_the_mask(name: str):
    """For each pair, and for whole blocks: none that holds an allowed pair is skipped."""
    mask = EVERY[name].over_heads()
    row, head, query, key = np.indices((2, HEADS, LENGTH, LENGTH))
    pairs = mask.rule()(*(torch.from_numpy(each) for each in (row, head, query, key)))
    assert torch.equal(pairs, mask.dense().expand(2, HEADS, LENGTH, LENGTH))
    like = torch.zeros(2, HEADS, LENGTH, 16)
    found = blocks(mask.rule(), mask.shape, like, like)
    assert found.shape[-2:] == (LENGTH, LENGTH)
    assert bool(found.to_dense().bool().any()) == bool(pairs.any())


def skipped(mask: Mask) -> list[list[int]]:
    like = torch.zeros(1, 1, 512, 16)
    return blocks(mask.rule(), mask.shape, like, like).to_dense()[0, 0].tolist()


def test_blocks_without_an_allowed_pair_are_skipped():
    assert skipped(causal(512)) == np.tril(np.ones((4, 4), int)).tolist()
    near = window(512, before=3, after=0, sinks=2)
    assert skipped(near) == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 0, 1, 1],
    ]


@pytest.mark.parametrize("groups", [HEADS, 2])
@pytest.mark.parametrize("score", [ScaledDot(0.3), SoftCapped(Dot(), 0.7)], ids=["products", "capped"])
@pytest.mark.parametrize("name", [None, *EVERY])
@torch.no_grad()
def test_its_plain_form_gives_what_the_plain_path_gives(name: str | None, score: Score, groups: int):
    mask = None if name is None else EVERY[name].over_heads()
    lookup = lookup_of(mask, score, groups)
    torch.testing.assert_close(Flex().read(lookup).context, lookup.read().context)


TRACED = """
import torch
from torch.nn.attention.flex_attention import flex_attention
from regard.attention.masks import causal, documents, padding, per_head, prefix, window
from regard.kernels.flex import blocks, bound

torch.manual_seed(1)
lengths = torch.tensor([200, 130])
masks = [
    None, per_head(torch.rand(2, 4, 200, 200) < 0.5), prefix(lengths - 99, 200),
    window(200, before=9, after=0, sinks=2), documents([80, 120]) & padding(lengths, 200),
    causal(200) & padding(lengths, 200),
]
kernel = torch.compile(flex_attention, backend="eager", fullgraph=True)
query, key, value = torch.randn(2, 4, 200, 16), torch.randn(2, 2, 200, 16), torch.randn(2, 2, 200, 5)
for mask in masks:
    mask = None if mask is None else mask.over_heads()
    allowed = None if mask is None else blocks(mask.rule(), mask.shape, query, key)
    found = kernel(query, key, value, block_mask=allowed, score_mod=bound(2.0), enable_gqa=True)
    scores = query @ key.repeat_interleave(2, 1).mT / 4
    scores = torch.tanh(scores / 2) * 2
    scores = scores if mask is None else scores.masked_fill(~mask.dense(), -1e9)
    torch.testing.assert_close(found, scores.softmax(-1) @ value.repeat_interleave(2, 1))
print("traced", len(masks))
"""


def test_the_compiler_traces_every_rule_in_one_graph():
    """In a process without the type checks of tests."""
    environment = {**os.environ, "PYTHONPATH": str(Path(regard.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "traced 6\n", done.stderr[-2000:]


def test_fewer_queries_than_keys():
    mask = window(3, LENGTH, before=4, after=0, sinks=1)
    lookup = lookup_of(mask, SoftCapped(ScaledDot(), 2.0), queries=3)
    torch.testing.assert_close(Flex().read(lookup).context, lookup.read().context)


class MyDot(Dot):
    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return super().forward(query, key) * 2


def test_what_it_can_express():
    ragged, causally = EVERY["prefix"].over_heads(), causal(LENGTH)
    assert expressible(lookup_of(ragged, Dot()))
    assert expressible(lookup_of(None, SoftCapped(Dot(), 2.0)))
    assert not expressible(lookup_of(causally, Dot()))  # PyTorch's kernel knows it by name
    assert not expressible(lookup_of(OTHERS["padding"].over_heads(), Dot()))
    assert not expressible(lookup_of(ragged, MyDot()))
    assert not expressible(lookup_of(ragged, SoftCapped(MyDot(), 2.0)))
    assert not expressible(lookup_of(ragged, SoftCapped(Additive(16, 16, 3), 2.0)))
    plain = lookup_of(ragged, Dot())
    bias = lambda heads, rows: torch.zeros(LENGTH, LENGTH)
    for changed in ({"dropout": 0.1}, {"align": Sparsemax()}, {"bias": bias}):
        assert not expressible(plain._replace(**changed))


class OnGPU(torch.Tensor):
    """A tensor that says it lies on a GPU."""

    is_cuda = True  # pyright: ignore[reportAssignmentType]


def test_it_serves_where_a_gpu_compiles_it(monkeypatch: pytest.MonkeyPatch):
    states = torch.zeros(1, 2, 256, 16)
    memory = Memory(states, states, prefix(torch.tensor([3]), 256).over_heads(), clean=False)
    here = Lookup(Dot(), Attend(Dot()).align, states, memory)
    there = here._replace(query=states.as_subclass(OnGPU))
    monkeypatch.setattr(flex, "find_spec", lambda name: object())
    assert Flex().serves(there)
    assert not Flex().serves(here)
    short = states[:, :, :100].as_subclass(OnGPU)
    narrow = states[..., :8].as_subclass(OnGPU)
    assert not Flex().serves(there._replace(query=short))
    assert not Flex().serves(there._replace(query=narrow))
    assert not Flex().serves(there._replace(query=states.double().as_subclass(OnGPU)))
    monkeypatch.setattr(flex, "find_spec", lambda name: None)
    assert not Flex().serves(there)
    kinds = [type(path) for path in FAST]
    assert kinds.index(Flex) < kinds.index(Fused)
