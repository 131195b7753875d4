"""FlexAttention as a fused form: its masks are the masks, and its plain form gives what the definition gives."""

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
from regard.attention.attend import Lookup, can_run_flex, choose_fused_form, read_flexibly, uses_flex
from regard.attention.masks import Mask, causal, padding, prefix, window
from regard.attention.memory import Memory
from regard.attention.scores import Additive, Dot, ScaledDot, Score, SoftCapped
from regard.kernels import windows
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
}
EVERY = {name: mask for name, (mask, _) in MASKS.items()} | OTHERS


def lookup_of(mask: Mask | None, score: Score, groups: int = HEADS, queries: int = LENGTH) -> Lookup:
    torch.manual_seed(4)
    memory = Memory(torch.randn(2, groups, LENGTH, 16), torch.randn(2, groups, LENGTH, 5), mask, zero_masked=False)
    return Lookup(score, Attend(score).align, torch.randn(2, HEADS, queries, 16), memory)


@pytest.mark.parametrize("name", EVERY)
def test_the_function_of_a_mask_is_the_mask(name: str):
    mask = EVERY[name].with_head_axis()
    indices = (torch.from_numpy(index) for index in np.indices((2, HEADS, LENGTH, LENGTH)))
    assert torch.equal(mask.mask_mod()(*indices), mask.dense().expand(2, HEADS, LENGTH, LENGTH))


@pytest.mark.parametrize("groups", [HEADS, 2])
@pytest.mark.parametrize("score", [ScaledDot(0.3), SoftCapped(Dot(), 0.7)], ids=["products", "capped"])
@pytest.mark.parametrize("name", [None, *EVERY])
@torch.no_grad()
def test_its_plain_form_gives_what_the_definition_gives(name: str | None, score: Score, groups: int):
    mask = None if name is None else EVERY[name].with_head_axis()
    lookup = lookup_of(mask, score, groups)
    torch.testing.assert_close(read_flexibly(lookup), lookup.read().context)


TRACED = """
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from regard.attention.masks import causal, documents, padding, per_head, prefix, window
from regard.kernels.windows import cap_scores

torch.manual_seed(1)
lengths = torch.tensor([200, 130])
masks = [
    per_head(torch.rand(2, 4, 200, 200) < 0.5), prefix(lengths - 99, 200),
    window(200, before=9, after=0, sinks=2), documents([80, 120]) & padding(lengths, 200),
    causal(200) & padding(lengths, 200),
]
kernel = torch.compile(flex_attention, backend="eager", fullgraph=True)
query, key, value = torch.randn(2, 4, 200, 16), torch.randn(2, 2, 200, 16), torch.randn(2, 2, 200, 5)
for mask in masks:
    mask = mask.with_head_axis()
    mask_mod = mask.mask_mod()
    blocks = create_block_mask(lambda b, h, q, k: mask_mod(b, h, q, k), 2, 4, 200, 200, device="cpu")
    context = kernel(query, key, value, block_mask=blocks, score_mod=cap_scores(2.0), enable_gqa=True)
    scores = query @ key.repeat_interleave(2, 1).mT / 4
    scores = (torch.tanh(scores / 2) * 2).masked_fill(~mask.dense(), -1e9)
    torch.testing.assert_close(context, scores.softmax(-1) @ value.repeat_interleave(2, 1))
print("traced", len(masks))
"""


def test_the_compiler_traces_every_mask_in_one_graph():
    """In a process without the type checks of tests."""
    environment = {**os.environ, "PYTHONPATH": str(Path(regard.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "traced 5\n", done.stderr[-2000:]


def test_fewer_queries_than_keys():
    mask = window(3, LENGTH, before=4, after=0, sinks=1)
    lookup = lookup_of(mask, SoftCapped(ScaledDot(), 2.0), queries=3)
    torch.testing.assert_close(read_flexibly(lookup), lookup.read().context)


class MyDot(Dot):
    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return super().forward(query, key) * 2


def test_which_lookups_use_it():
    ragged = EVERY["prefix"].with_head_axis()
    assert uses_flex(lookup_of(ragged, Dot()))
    assert uses_flex(lookup_of(None, SoftCapped(Dot(), 2.0)))
    assert not uses_flex(lookup_of(causal(LENGTH), Dot()))  # PyTorch's kernel knows it by name
    assert not uses_flex(lookup_of(OTHERS["padding"].with_head_axis(), Dot()))
    assert not uses_flex(lookup_of(ragged, MyDot()))
    assert not uses_flex(lookup_of(ragged, SoftCapped(MyDot(), 2.0)))
    assert not uses_flex(lookup_of(ragged, SoftCapped(Additive(16, 16, 3), 2.0)))
    plain = lookup_of(ragged, Dot())
    assert not uses_flex(plain._replace(align=Sparsemax()))
    assert not uses_flex(plain._replace(bias=lambda heads, rows: torch.zeros(LENGTH, LENGTH)))


class OnGPU(torch.Tensor):
    """A tensor that says it is on a GPU."""

    is_cuda = True  # pyright: ignore[reportAssignmentType]


def test_it_serves_where_a_gpu_compiles_it(monkeypatch: pytest.MonkeyPatch):
    states = torch.zeros(1, 2, 256, 16)
    memory = Memory(states, states, prefix(torch.tensor([3]), 256).with_head_axis(), zero_masked=False)
    here = Lookup(Dot(), Attend(Dot()).align, states, memory)
    there = here._replace(query=states.as_subclass(OnGPU))
    monkeypatch.setattr(windows, "find_spec", lambda name: object())
    assert choose_fused_form(there) is read_flexibly
    assert choose_fused_form(here) is not read_flexibly
    for query in (states[:, :, :100], states[..., :8], states.double()):
        assert not can_run_flex(there._replace(query=query.as_subclass(OnGPU)))
    monkeypatch.setattr(windows, "find_spec", lambda name: None)
    assert not can_run_flex(there)
