"""Layers of a Transformer in one call of a kernel are the layers themselves."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.kernels.fused_layer import FusedLayers, library
from regard.models.fused import fuse
from regard.models.gpt2 import GPT2, Block, GPT2Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.decoders.transformer import DecoderLayer, TransformerDecoder
from regard.nn.encoders.transformer import EncoderLayer
from regard.nn.fast_linear import FusedOutput, Int8Output, with_int8
from regard.nn.fused_transformer import TOGETHER, FusedState
from regard.nn.output import Output

pytestmark = pytest.mark.skipif(library() is None, reason="no C++ compiler")
VOCABULARY, SOURCE = 23, 7
LENGTHS = torch.tensor([7, 3, 0, 5, 1])
CONFIGS = {
    "norms before": {},
    "norms after": {"norm": "after"},
    "gelu": {"activation": "gelu"},
    "swish": {"activation": "swish"},
    "one head": {"heads": 1},
    "wide heads": {"width": 68, "heads": 2},
    "heads that share one": {"width": 24, "heads": 6, "key_value_heads": 1},
    "heads that share two": {"width": 24, "heads": 6, "key_value_heads": 2},
}


def transformer(**sizes) -> Transformer:
    """With norms that do something."""
    model = Transformer(VOCABULARY, VOCABULARY, replace(SMALL, **sizes)).eval()
    for each in model.modules():
        if isinstance(each, nn.LayerNorm):
            nn.init.normal_(each.weight, 1.0, 0.3)
            nn.init.normal_(each.bias, 0.0, 0.3)
    fuse(model)
    return model


SMALL = TransformerConfig(layers=2, width=20, hidden=13, heads=5)


def tokens(*shape: int) -> Tensor:
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(sum(shape)))


def memory_of(model: Transformer) -> Memory:
    return model.encoder(tokens(len(LENGTHS), SOURCE), LENGTHS)


def steps(decoder: TransformerDecoder | GPT2, state: Any) -> list[Tensor]:
    """Features of tokens one at a time, of several at once, of chosen rows with repeats, of a few of them, and of many
    more than there was room for."""
    found = []

    def read(given: Tensor) -> None:
        nonlocal state
        features, state = decoder.run(given, state)
        found.append(features)

    read(tokens(5, 1))
    read(tokens(5, 3))
    state = state.select(torch.tensor([4, 4, 0, 1, 1, 3, 3]))
    read(tokens(7, 1))
    state = state.follow(torch.tensor([1, 0, 2, 4, 3, 5, 5]))
    read(tokens(7, 1))
    state = state.select(torch.tensor([6, 2, 3]))
    for _ in range(29):
        read(tokens(3, 1))
    read(tokens(3, 19))
    return found


def both(call: Callable[[], list[Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    """With the kernel, which is called, and without."""
    with torch.no_grad(), patch.object(FusedLayers, "_run", autospec=True, side_effect=FusedLayers._run) as run:
        fused = call()
    assert run.call_count
    with torch.no_grad(), patch("regard.nn.fused.library", lambda: None):
        return fused, call()


def assert_same(found: tuple[list[Tensor], list[Tensor]]) -> None:
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", CONFIGS.values(), ids=CONFIGS)
def test_a_decoder(sizes: dict):
    model = transformer(**sizes)
    with torch.no_grad(), patch("regard.nn.fused.library", lambda: None):
        memory = memory_of(model)
    assert_same(both(lambda: steps(model.decoder, model.decoder.start(memory))))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("sizes", CONFIGS.values(), ids=CONFIGS)
def test_an_encoder(sizes: dict):
    model = transformer(**sizes)
    fused, plain = both(lambda: [memory_of(model).value])
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(fused[0][row, :length], plain[0][row, :length], rtol=1e-5, atol=1e-5)


def test_an_encoder_of_more_texts_than_are_encoded_together():
    model, lengths = transformer(), torch.arange(2 * TOGETHER + 5) % (SOURCE + 1)
    fused, plain = both(lambda: [model.encoder(tokens(len(lengths), SOURCE), lengths).value])
    real = torch.arange(SOURCE) < lengths[:, None]
    torch.testing.assert_close(fused[0][real], plain[0][real], rtol=1e-5, atol=1e-5)
    assert fused[0].isfinite().all()


def test_a_language_model():
    model = GPT2(VOCABULARY, GPT2Config(layers=2, width=20, heads=5, context=64)).eval()
    fuse(model)
    assert_same(both(lambda: steps(model, model.begin(5))))


def test_with_bytes():
    """Whoever listens gets the plain form of the same bytes, but for roundings that fall the other way."""
    model = transformer()
    with_int8(model)
    with torch.no_grad():
        memory = memory_of(model)
    for one, other in zip(*both(lambda: steps(model.decoder, model.decoder.start(memory))), strict=True):  # pyright: ignore[reportArgumentType]
        assert (one - other).abs().mean() < 0.01 * other.abs().mean()


def test_padding_of_any_kind_is_inert():
    model, source = transformer(), tokens(5, SOURCE)
    with torch.no_grad():
        alone = [
            model.encoder(source[row : row + 1, :length], LENGTHS[row : row + 1]).value
            for row, length in ((1, 3), (3, 5))
        ]
        together = model.encoder(source, LENGTHS).value
    torch.testing.assert_close(together[1, :3], alone[0][0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(together[3, :5], alone[1][0], rtol=1e-5, atol=1e-5)


def kernel_of(model: Transformer) -> FusedLayers | None:
    state = model.decoder.start(memory_of(model))
    assert isinstance(state, FusedState)
    return state.kernel


@torch.no_grad()
@pytest.mark.parametrize("sizes", [{"align": "sparsemax"}, {"align": "local-m"}], ids=str)
def test_what_the_kernel_does_not_know_is_left_to_the_layers(sizes: dict):
    assert kernel_of(transformer()) is not None
    assert kernel_of(transformer(**sizes)) is None


@torch.no_grad()
def test_layers_that_somebody_hooked_into_or_that_learn_are_called():
    model = transformer()
    heard = []
    hook = model.decoder.get_submodule("layers.0.cross_attention.query").register_forward_hook(
        lambda *given: heard.append(given)
    )
    assert kernel_of(model) is None
    hook.remove()
    assert kernel_of(model.train()) is None
    assert kernel_of(model.eval().double()) is None
    assert kernel_of(model.float()) is not None


@torch.no_grad()
def test_whoever_looks_in_the_middle_sees_everything():
    """Weights of a step, and the text goes on as if nobody had looked."""
    model = transformer()
    decoder, memory = model.decoder, memory_of(model)
    state = decoder.start(memory)
    wanted = [decoder.step(token, state)[0] for token in tokens(5, 1).unbind(1)]
    found = []
    for look, token in zip((False, True, True, False), tokens(5, 4).unbind(1), strict=True):
        if look:
            with record(model.decoder, only="*.self_attention") as maps:
                logits, state = decoder.step(token, state)
            assert len(maps) == 2
        else:
            logits, state = decoder.step(token, state)
        found.append(logits)
    with patch("regard.nn.fused.library", lambda: None):
        state, wanted = decoder.start(memory), []
        for token in tokens(5, 4).unbind(1):
            logits, state = decoder.step(token, state)
            wanted.append(logits)
    assert_same((found, wanted))


@torch.no_grad()
def test_weights_that_change_are_read_as_they_are():
    model = transformer()
    memory = memory_of(model)
    before = model.decoder.step(tokens(5), model.decoder.start(memory))[0]
    model.decoder.get_parameter("layers.1.feedforward.0.weight").data.mul_(-3)
    after = model.decoder.step(tokens(5), model.decoder.start(memory))[0]
    assert not torch.allclose(before, after, atol=1e-3)


def test_what_is_replaced_shares_its_parameters():
    """Names, tensors and hooks; each layer once, wherever it stands; and a second time changes nothing."""
    plain = Transformer(VOCABULARY, VOCABULARY, SMALL).train()
    before, names = plain.state_dict(), [name for name, _ in plain.named_modules()]
    output = plain.decoder.output
    fuse(plain)
    once = plain.decoder.output
    fuse(plain)
    assert type(output) is Output
    assert type(once) is FusedOutput
    assert once is plain.decoder.output
    assert once.weight is output.weight
    assert [name for name, _ in plain.named_modules()] == names
    after = plain.state_dict()
    assert list(after) == list(before)
    assert all(after[name].data_ptr() == tensor.data_ptr() for name, tensor in before.items())
    assert plain.decoder.output.training
    with_int8(plain)
    assert type(plain.decoder.output) is Int8Output


class Doubled(EncoderLayer):
    def forward(self, *given: Any, **named: Any) -> Tensor:
        return 2 * super().forward(*given, **named)


class Twice(DecoderLayer):
    def forward(self, *given: Any, **named: Any) -> Any:
        states, *rest = super().forward(*given, **named)
        return 2 * states, *rest


class Thrice(Block):
    def forward(self, *given: Any, **named: Any) -> Any:
        states, past = super().forward(*given, **named)
        return 3 * states, past


class Shifted(Output):
    def forward(self, input: Any) -> Tensor:
        return super().forward(input) + 1


@torch.no_grad()
def test_classes_derived_by_others_keep_their_own_code():
    model = Transformer(VOCABULARY, VOCABULARY, SMALL).eval()
    language = GPT2(VOCABULARY, GPT2Config(layers=2, width=20, heads=5, context=64)).eval()
    model.encoder.get_submodule("layers.0").__class__ = Doubled
    model.decoder.get_submodule("layers.1").__class__ = Twice
    model.decoder.output.__class__ = Shifted
    language.blocks[1].__class__ = Thrice

    def outputs() -> list[Tensor]:
        source, target = tokens(5, SOURCE), tokens(5, 3)
        return [model(source, LENGTHS, target), language(target, language.begin(5))[0]]

    wanted = outputs()
    fuse(model)
    fuse(language)
    for one, other in zip(outputs(), wanted, strict=True):
        torch.testing.assert_close(one, other)
