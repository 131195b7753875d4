"""Recording models of the transformers library: outputs never change, and maps are those of the returned sequences."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard import intervene, record
from regard.attention.intervene import Cut, Uniform
from regard.maps.reductions import Entropy, Greatest, Totals
from tests.attention.tiny_models import DECODERS, ENCODERS, IMAGE, PAIRS, SEQ2SEQ, T5, TEXT, tiny

transformers = pytest.importorskip("transformers")
TOKENS = torch.randint(5, 31, (2, 11), generator=torch.Generator().manual_seed(2))
FAMILIES = [*ENCODERS, *DECODERS, *PAIRS]


def inputs(name: str) -> dict[str, Tensor]:
    real = (torch.arange(11) < torch.tensor([[11], [9]])).long()
    found = {"input_ids": TOKENS, "attention_mask": real}
    return found | ({"decoder_input_ids": TOKENS[:, :5]} if name in PAIRS else {})


def output(found: Any) -> Tensor:
    return found.logits if "logits" in found else found.last_hidden_state


def eager(name: str) -> dict[str, tuple[Tensor, ...]]:
    """The weights that a model returns itself, by side."""
    model = tiny(name)
    model.set_attn_implementation("eager")
    found = model(**inputs(name), output_attentions=True)
    sides = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    return {side: found[side] for side in sides if found.get(side) is not None}


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_recorder_never_changes_an_output_and_its_maps_are_those_of_the_model(name: str):
    model = tiny(name)
    before = output(model(**inputs(name)))
    with record(model) as maps:
        inside = output(model(**inputs(name)))
    assert torch.equal(inside, before)
    expected = [each for side in eager(name).values() for each in side]
    found = [*maps.values()]
    assert len(found) == len(expected)
    real = inputs(name)["attention_mask"].bool()
    for weights in found:
        rows = real[:, None, :, None] if weights.shape[2] == 11 else torch.ones(1, 1, 1, 1)
        same = [
            each
            for each in expected
            if each.shape == weights.shape and torch.allclose(each * rows, weights * rows, rtol=1e-4, atol=1e-6)
        ]
        assert same, "no weights of the model are these"


@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma2", "gemma3"])
@torch.no_grad()
def test_generate_past_a_sliding_window_has_absolute_columns(name: str):
    model = tiny(name)
    with record(model) as maps:
        written = model.generate(TOKENS[:1], max_new_tokens=6, do_sample=False, pad_token_id=0)
    with record(model) as whole:
        model(written[:, :-1])
    assert written.shape == (1, 17)
    for module in whole:
        torch.testing.assert_close(maps[module], whole[module], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reduce", [Greatest(2), Entropy(), Totals()])
@torch.no_grad()
def test_reductions_past_a_sliding_window(reduce: Any):
    model = tiny("mistral")
    with record(model, reduce=reduce) as maps:
        written = model.generate(TOKENS[:1], max_new_tokens=6, do_sample=False, pad_token_id=0)
    with record(model, reduce=reduce) as whole:
        model(written[:, :-1])
    for module in whole:
        torch.testing.assert_close(maps[module], whole[module], rtol=1e-4, atol=1e-5)
        if isinstance(reduce, Greatest):
            assert torch.equal(maps.key_indices(module)[:, :, 2:], whole.key_indices(module)[:, :, 2:])


@torch.no_grad()
def test_shared_layers_are_layers():
    model = tiny("albert")
    with record(model) as maps:
        model(TOKENS)
    expected = eager("albert")["attentions"]
    assert len(maps) == 2
    assert [*maps][1].endswith(":1")
    assert maps.lookups([str(each) for each in range(11)]).layers == ("layer 0", "layer 1")
    for weights, each in zip(maps.values(), expected, strict=True):
        torch.testing.assert_close(weights[:1], each[:1], rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_a_recording_within_another_silences_only_the_same_model():
    outer, inner = tiny("bert"), tiny("gpt2")
    with record(outer) as maps:
        with record(inner) as others:
            outer(TOKENS)
            inner(TOKENS)
        outer(TOKENS)
    assert len(maps) == len(others) == 2
    assert {each.shape[2] for each in maps.values()} == {22}  # two passes


@pytest.mark.parametrize("name", ["longt5", "bigbird-pegasus", "pegasus-x"])
def test_encoders_with_code_of_their_own_are_refused(name: str):
    builds = {
        "longt5": lambda: transformers.LongT5Model(transformers.LongT5Config(**T5, local_radius=3)),
        "bigbird-pegasus": lambda: transformers.BigBirdPegasusModel(
            transformers.BigBirdPegasusConfig(**SEQ2SEQ, attention_type="original_full")
        ),
        "pegasus-x": lambda: transformers.PegasusXModel(transformers.PegasusXConfig(**SEQ2SEQ, block_size=4)),
    }
    model = builds[name]().eval()
    with pytest.raises(ValueError, match="attend by code of their own, not through ALL_ATTENTION"), record(model):
        pass
    source, target = TOKENS[:, :8], TOKENS[:, :5]
    with torch.no_grad():
        before = model(source, decoder_input_ids=target).last_hidden_state
        with record(model, "decoder.*") as maps:
            inside = model(source, decoder_input_ids=target).last_hidden_state
    assert torch.equal(before, inside)
    assert len(maps) == 4
    assert all(each[:, :, 0, 1:].abs().max() < 1e-9 for each in maps.values() if each.shape[2] == each.shape[3])


def test_a_model_without_attention_is_refused():
    sizes = {"vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 1, "state_size": 3}
    model = transformers.MambaModel(transformers.MambaConfig(**sizes))
    with pytest.raises(ValueError, match=r"MambaModel has no attention"), record(model):
        pass


def test_an_implementation_without_weights_is_refused():
    model = tiny("bert")
    interface = transformers.AttentionInterface
    interface.register("blind", lambda module, query, key, value, mask, **options: (query.transpose(1, 2), None))
    model.set_attn_implementation("blind")
    with pytest.raises(ValueError, match=r"'blind' .* returns no weights"), record(model):
        model(TOKENS)


@torch.no_grad()
def test_images_and_sounds():
    vit = transformers.ViTConfig(**{name: each for name, each in TEXT.items() if name != "vocab_size"}, **IMAGE)
    whisper = transformers.WhisperConfig(**SEQ2SEQ, num_mel_bins=4, max_source_positions=6, max_target_positions=9)
    pixels, sound = torch.randn(1, 3, 8, 8), torch.randn(1, 4, 12)
    cases = [
        (transformers.ViTModel(vit), {"pixel_values": pixels}, 2),
        (transformers.WhisperModel(whisper), {"input_features": sound, "decoder_input_ids": TOKENS[:1, :5]}, 6),
    ]
    for model, call, count in cases:
        before = model.eval()(**call).last_hidden_state
        with record(model) as maps:
            assert torch.equal(model(**call).last_hidden_state, before)
        assert len(maps) == count


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"prompt_lookup_num_tokens": 3}])
def test_a_search_that_drops_rows_or_tokens_is_refused(options: dict[str, int]):
    model, prompt = tiny("gpt2"), torch.tensor([[7, 9, 8, 7, 9, 8, 7, 9]])
    with pytest.raises(ValueError, match="record a pass over the finished text"), record(model):
        model.generate(prompt, max_new_tokens=9, do_sample=False, pad_token_id=0, **options)
    model.generate(prompt, max_new_tokens=2, do_sample=False, pad_token_id=0, **options)


EDGES = torch.zeros(11, 11, dtype=torch.bool)
EDGES[3:5, [0, 2]] = True
EDGES[4] = True  # a query without any key


def cut_softmax(scores: Tensor, *args: Any, softmax: Any = nn.functional.softmax, **options: Any) -> Tensor:
    """The softmax of a model's own attention, where queries do not see some keys."""
    if scores.ndim != 4 or scores.shape[-2] not in (5, 11):
        return softmax(scores, *args, **options)
    edges = EDGES[: scores.shape[-2], : scores.shape[-1]]
    return softmax(scores.masked_fill(edges, -torch.inf), *args, **options).nan_to_num(0.0)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_cut_edges_are_those_of_a_masked_model(name: str, monkeypatch: pytest.MonkeyPatch):
    changes = Cut(queries=[3], keys=[0, 2]), Cut(queries=[4])
    model = tiny(name)
    given = inputs(name) | {"attention_mask": torch.ones_like(TOKENS)}
    before = output(model(**given))
    with intervene(model, *changes), record(model) as maps:
        cut = output(model(**given))
    assert all(not weights[:, :, 4].any() for weights in maps.values())
    model.set_attn_implementation("eager")
    with intervene(model, *changes):
        torch.testing.assert_close(output(model(**given)), cut, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(nn.functional, "softmax", cut_softmax)
    expected = output(model(**given))
    torch.testing.assert_close(cut, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(before, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gemma3"])
@torch.no_grad()
def test_a_cached_text_obeys_as_an_uncached_one(name: str):
    """Positions of queries are those of the text, in every step of a search."""
    model = tiny(name)
    texts = {}
    for cache in (True, False):
        options = {"max_new_tokens": 5, "do_sample": False, "use_cache": cache, "pad_token_id": 0}
        with intervene(model, Cut(queries=[3, 12], keys=[2, 11]), Cut(queries=[4, 13])):
            found = model.generate(TOKENS[:1], output_logits=True, return_dict_in_generate=True, **options)
        texts[cache] = torch.stack(found.logits)
    torch.testing.assert_close(texts[True], texts[False], rtol=1e-4, atol=1e-5)


def test_pytorchs_own_attention_is_recorded_and_changed():
    """Of layers with a fast path, of a bare module, and of a function in somebody's module."""

    class Reader(nn.Module):
        def forward(self, states: Tensor) -> Tensor:
            return nn.functional.scaled_dot_product_attention(states, states, states, is_causal=True)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.reader = Reader()
            self.heads = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, states: Tensor, hidden: Tensor) -> Tensor:
            states = self.reader(self.encoder(states, src_key_padding_mask=hidden))
            return self.heads(states, states, states, key_padding_mask=hidden)[0]

    model, states, hidden = Network().eval(), torch.randn(2, 5, 8), torch.arange(5).expand(2, 5) > 3
    with torch.no_grad():
        before = model(states, hidden)
        with record(model) as maps:
            torch.testing.assert_close(model(states, hidden)[:, :4], before[:, :4])
        assert [*maps] == ["encoder.layers.0.self_attn", "encoder.layers.1.self_attn", "reader", "heads"]
        assert all(not weights[..., 4].any() for name, weights in maps.items() if name != "reader")
        torch.testing.assert_close(maps["heads"].sum(-1), torch.ones(2, 2, 5))
        with intervene(model, Cut(keys=[2])), record(model) as maps:
            cut = model(states, hidden)
        assert all(not weights[..., 2].any() for weights in maps.values())
        cut_too = hidden | (torch.arange(5) == 2)
        with intervene(model, Cut(keys=[2]), only="reader"):
            torch.testing.assert_close(model(states, cut_too)[:, [0, 1, 3]], cut[:, [0, 1, 3]])
        with intervene(model, Uniform(heads=[1]), only="heads"), record(model, "heads") as maps:
            model(states, hidden)
        torch.testing.assert_close(maps["heads"][:, 1], torch.tensor([0.25] * 4 + [0.0]).expand(2, 5, 5))
    assert torch.backends.mha.get_fastpath_enabled()
