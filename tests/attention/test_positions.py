"""Relative positions: their formulas, and that one pass, cached steps, packed tokens and every path agree."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.attention import Attend
from regard.attention.heads import MultiHead, NormalizedHeads, causal_attention, empty_cache, self_attention
from regard.attention.masks import Mask, causal, padding
from regard.attention.memory import Memory, Packing
from regard.attention.positions import (
    Alibi,
    BucketedBias,
    RelativeKeys,
    RelativePositions,
    Rotary,
    RotaryScaling,
    compute_frequencies,
)
from regard.attention.record import record
from regard.testing import check_attention

HEADS, WIDTH, LENGTH = 6, 4, 9


def positions(name: str) -> RelativePositions:
    torch.manual_seed(1)
    made: dict[str, RelativePositions] = {
        "rotary": Rotary(WIDTH),
        "rotary-llama3": Rotary(WIDTH, base=500.0, scaling=RotaryScaling("llama3", 4.0, 32)),
        "alibi": Alibi(HEADS),
        "bucketed": BucketedBias(HEADS, 8, 6),
        "bucketed-causal": BucketedBias(HEADS, 6, 5, both_sides=False),
        "relative-keys": RelativeKeys(WIDTH, 3),
    }
    found = made[name]
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter)
    return found.double()


NAMES = ("rotary", "rotary-llama3", "alibi", "bucketed", "bucketed-causal", "relative-keys")
every = pytest.mark.parametrize("name", NAMES)


def heads_with(name: str, groups: int = HEADS) -> MultiHead:
    return MultiHead(HEADS * WIDTH, HEADS, positions=positions(name), key_value_heads=groups).double()


def states(batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    return torch.randn(batch, LENGTH, HEADS * WIDTH, generator=generator, dtype=torch.float64)


def oracle(name: str, heads: MultiHead, inputs: Tensor, allowed: np.ndarray) -> np.ndarray:
    """The weights, pair by pair, in NumPy."""
    part = heads.positions
    assert part is not None

    def projected(module: torch.nn.Module, count: int) -> np.ndarray:
        split = module(inputs).detach().numpy().reshape(*inputs.shape[:2], count, WIDTH)
        return split.repeat(HEADS // count, 2)

    query, key = projected(heads.query, HEADS), projected(heads.key, heads.key_value_heads)
    scores = np.full((len(inputs), HEADS, LENGTH, LENGTH), -np.inf)
    for b, h, i, j in np.argwhere(np.broadcast_to(allowed, scores.shape)):
        scores[b, h, i, j] = pair(name, part, query[b, i, h], key[b, j, h], (h, i, j)) / math.sqrt(WIDTH)
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def frequencies_of(rotary: Rotary) -> Tensor:
    assert rotary.width is not None
    return compute_frequencies(rotary.width, rotary.base, rotary.scaling, torch.device("cpu"))


def pair(name: str, part: RelativePositions, query: np.ndarray, key: np.ndarray, at: tuple[int, int, int]) -> float:
    """One score times sqrt(width), from the papers' equations."""
    head, i, j = at
    match part:
        case Rotary():
            complex_query, complex_key = (each[: WIDTH // 2] + 1j * each[WIDTH // 2 :] for each in (query, key))
            turn = np.exp(1j * (i - j) * frequencies_of(part).numpy())
            return float((complex_query * turn * complex_key.conj()).real.sum())
        case Alibi():
            slope = {0: 2**-2, 1: 2**-4, 2: 2**-6, 3: 2**-8, 4: 2**-1, 5: 2**-3}[head]
            return float(query @ key) - slope * abs(i - j) * math.sqrt(WIDTH)
        case BucketedBias():
            table = part.table.detach().numpy()
            return float(query @ key) + table[head, bucket(j - i, name == "bucketed")] * math.sqrt(WIDTH)
        case _:
            assert isinstance(part, RelativeKeys)
            vector = part.table.detach().numpy()[min(max(j - i, -3), 3) + 3]
            return float(query @ (key + vector))


def bucket(distance: int, both_sides: bool) -> int:
    """Raffel 2020's buckets, by cases."""
    buckets, farthest, side = (4, 6, 4 * (distance > 0)) if both_sides else (6, 5, 0)
    away = abs(distance) if both_sides else max(-distance, 0)
    single = buckets // 2
    if away < single:
        return side + away
    grown = single + int(math.log(away / single) / math.log(farthest / single) * (buckets - single))
    return side + min(grown, buckets - 1)


@every
@pytest.mark.parametrize("groups", [HEADS, 2])
@pytest.mark.parametrize("path", ["plain", "fused"])
def test_weights_are_those_of_the_equations(name: str, groups: int, path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Attend, "fused", path == "fused")
    heads, inputs = heads_with(name, groups), states()
    masks: list[Mask | None] = [None, causal(LENGTH), padding(torch.tensor([LENGTH, 4]), LENGTH)]
    for mask in masks:
        allowed = np.ones((1, 1), bool) if mask is None else mask.with_head_axis().dense().numpy()
        expected = torch.from_numpy(oracle(name, heads, inputs, allowed))
        with record(heads) as maps:
            whole = self_attention(heads, inputs, mask)
        torch.testing.assert_close(next(iter(maps.values())), expected)
        with record(heads, heads=[4, 1], rows=[7, 0]) as some:
            self_attention(heads, inputs, mask)
        torch.testing.assert_close(next(iter(some.values())), expected[:, [4, 1]][:, :, [7, 0]])
        value = heads.value(inputs).unflatten(-1, (groups, WIDTH)).movedim(1, 2).repeat_interleave(HEADS // groups, 1)
        context = heads.output((expected @ value).movedim(1, 2).flatten(-2))
        torch.testing.assert_close(self_attention(heads, inputs, mask), context)
        torch.testing.assert_close(whole, context)


@every
def test_cached_steps_are_one_pass(name: str):
    heads, inputs = heads_with(name, 3), states()
    expected = self_attention(heads, inputs, causal(LENGTH))
    with torch.no_grad():
        past, found = empty_cache(heads, inputs), []
        for some in inputs.split([4, 1, 1, 3], 1):
            context, past = causal_attention(heads, some, past)
            found.append(context)
    torch.testing.assert_close(torch.cat(found, 1), expected)


@every
def test_packed_tokens_are_padded_ones(name: str):
    heads, inputs, lengths = heads_with(name), states(), torch.tensor([3, 5])
    packing = Packing.of(lengths, LENGTH)
    assert packing is not None
    mask = padding(lengths, LENGTH)
    expected = packing.pack(self_attention(heads, inputs, mask))
    torch.testing.assert_close(heads.attend_self(packing.pack(inputs), packing, mask), expected)


@every
def test_only_distances_matter(name: str):
    """All positions moved by the same number give the same contexts; rows may have positions of their own."""
    heads, inputs = heads_with(name), states()
    expected = self_attention(heads, inputs)
    moved = torch.arange(LENGTH) + torch.tensor([[11], [200]])
    torch.testing.assert_close(heads(inputs, Memory(inputs, inputs, position_ids=moved)), expected)
    two = Memory(inputs, inputs, position_ids=moved).select(torch.tensor([1, 0, 1]))
    torch.testing.assert_close(heads(inputs[[1, 0, 1]], two), expected[[1, 0, 1]])
    stretched = heads(inputs, Memory(inputs, inputs, position_ids=2 * torch.arange(LENGTH)))
    assert not torch.allclose(stretched, expected)


@every
def test_laws(name: str):
    check_attention(heads_with(name), keys=LENGTH, without=("the_order_of_keys_changes_nothing",))


@pytest.mark.parametrize("scaling", [None, RotaryScaling("linear", 4.0, 32), RotaryScaling("llama3", 8.0, 64)])
@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_frequencies_are_those_of_transformers(scaling: RotaryScaling | None, base: float):
    utilities = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig

    settings = {"rope_type": "default", "rope_theta": base}
    if scaling is not None:
        settings |= {"rope_type": scaling.kind, "factor": scaling.factor}
        settings |= {"original_max_position_embeddings": scaling.original}
        if scaling.kind == "llama3":
            settings |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        max_position_embeddings=256,
        rope_parameters=settings,
    )
    config.rope_parameters = settings
    ours = Rotary(16, base=base, scaling=scaling)
    if scaling is None:
        expected = 1.0 / base ** (torch.arange(0, 16, 2) / 16)
    else:
        expected, _ = utilities.ROPE_INIT_FUNCTIONS[scaling.kind](config, torch.device("cpu"))
    torch.testing.assert_close(frequencies_of(ours), expected.float())


def rotary_heads(kind: type[MultiHead], **more) -> MultiHead:
    torch.manual_seed(3)
    return kind(HEADS * WIDTH, HEADS, positions=Rotary(WIDTH), key_value_heads=2, **more).eval()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", [MultiHead, NormalizedHeads])
def test_inference_gives_the_results_of_training(kind: type[MultiHead], shared: bool):
    """In one pass and in steps; one projection of keys and values is not rotated where it is the value."""
    heads, inputs = rotary_heads(kind, shared_key_value=shared), states().float()
    expected, past = self_attention(heads, inputs, causal(LENGTH)), empty_cache(heads, inputs)
    with torch.no_grad():
        torch.testing.assert_close(self_attention(heads, inputs, causal(LENGTH)), expected)
        for place, one in enumerate(inputs.split(1, 1)):
            found, past = causal_attention(heads, one, past)
            torch.testing.assert_close(found[:, 0], expected[:, place])


def test_shared_projections_do_not_depend_on_the_identity_of_the_values():
    heads, inputs = rotary_heads(NormalizedHeads, shared_key_value=True), states().float()
    torch.nn.init.normal_(heads.get_parameter("key_norm.weight"))
    same, equal = Memory(inputs, inputs), Memory(inputs, inputs.clone())
    torch.testing.assert_close(heads(inputs, same), heads(inputs, equal))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("positions", [lambda: Rotary(WIDTH), lambda: Alibi(HEADS)], ids=["rotary", "alibi"])
def test_a_model_in_half_precision_knows_its_positions(positions: Callable[[], RelativePositions], dtype: torch.dtype):
    """Angles and slopes are computed in float32: half precision cannot tell positions apart beyond 256."""
    first, position_ids = 3000, torch.arange(3000, 3009)
    single, half = positions(), positions().to(dtype)
    inputs = torch.randn(2, HEADS, 9, WIDTH).to(dtype)
    expected = single.rotate(inputs.float(), position_ids)
    for given in (first, position_ids):
        torch.testing.assert_close(half.rotate(inputs, given).float(), expected, rtol=2e-2, atol=2e-2)
    bias = half.make_bias(inputs, first, position_ids - 2999)
    if bias is not None:
        exact = single.make_bias(inputs.float(), first, position_ids - 2999)
        assert exact is not None
        expected = exact(None, None)
        torch.testing.assert_close(bias(None, None).float(), expected, rtol=1e-2, atol=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Rotary(5), "a rotary head is 5 wide"),
        (lambda: RotaryScaling("linear", 0.5), "factor is 0.5; it must be at least 1"),
        (lambda: RotaryScaling("llama3", 2.0, slow=5.0), "slow is 5.0 and fast 4.0; expected 0 < slow < fast"),
    ],
)
def test_wrong_settings(wrong, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()


def test_more_queries_than_keys_need_positions():
    heads = heads_with("alibi")
    memory = Memory(states()[:, :2], states()[:, :2], position_ids=torch.arange(2))
    with pytest.raises(ValueError, match="positions for 2 keys"):
        heads(states(), memory)
