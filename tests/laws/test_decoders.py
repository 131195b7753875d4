"""Any encoder with any decoder, however it starts: teacher forcing equals stepping, and nothing depends on a batch."""

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.align import Addressing, Hard
from regard.attention.memory import Memory
from regard.attribution.attention import record_source_attention, source_kinds
from regard.config.loader import Registry
from regard.decoding.sampling import greedy
from regard.models.attention import ALIGNS, AlignName
from regard.models.pair import DECODERS, ENCODERS, Pair, PairConfig
from regard.nn.decoders import Decoder, Encoder, State, SummaryInitialState, unroll
from regard.nn.layers import Output
from regard.nn.transformer import TransformerDecoder
from regard.testing import check_decoder
from regard.text.kinds import IGNORED
from tests.laws import cases


def encode(encoder: Encoder) -> Memory:
    batch = cases.sentences(cases.VOCABULARY)
    return encoder(batch.tokens, batch.lengths)


@pytest.mark.parametrize("decoder", cases.DECODERS)
@pytest.mark.parametrize("encoder", [name for name in cases.ENCODERS if name != "transformer-learned"])
def test_any_encoder_with_any_decoder(encoder: str, decoder: str):
    one = cases.ENCODERS[encoder]().double().eval()
    check_decoder(cases.DECODERS[decoder](one, "summary").double(), encode(one), length=5)


@pytest.mark.parametrize("decoder", cases.DECODERS)
def test_nan_in_the_padding_of_a_source_is_inert(decoder: str):
    """Logits and gradients are those of padding of zeros."""
    one = cases.ENCODERS["gru-both"]().double()
    clean, found = encode(one), []
    other = cases.DECODERS[decoder](one, "summary").double().eval()
    assert clean.mask is not None
    readable = clean.mask.readable()
    assert readable is not None
    hidden = ~readable[..., None]
    assert hidden.any()
    for fill in (0.0, torch.nan):
        value = clean.value.detach().masked_fill(hidden, fill).requires_grad_()
        memory = Memory(value, value, clean.mask, clean.summary, tokens=clean.tokens)
        logits = other.output(other.features(torch.full((4, 5), 3), other.start(memory)))
        gradient = torch.autograd.grad(logits.sin().sum(), value, allow_unused=True, materialize_grads=True)[0]
        found.append((logits, gradient))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


@pytest.mark.parametrize("name", cases.ENCODERS)
def test_encoders_give_a_sequence_what_it_gets_alone(name: str):
    encoder = cases.ENCODERS[name]().double().eval()
    batch = cases.sentences(cases.VOCABULARY)
    together = encoder(batch.tokens, batch.lengths)
    assert together.summary is not None
    for row, length in enumerate(batch.lengths.tolist()):
        one = slice(row, row + 1)
        alone = encoder(batch.tokens[one, :length], batch.lengths[one])
        assert alone.summary is not None
        torch.testing.assert_close(together.value[one, :length], alone.value, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(together.summary[one], alone.summary, rtol=1e-12, atol=1e-12)
        assert not together.value[one, length:].any()


@pytest.mark.parametrize("start", cases.STARTS)
@pytest.mark.parametrize("decoder", cases.RECURRENT)
def test_any_start(decoder: str, start: str):
    one = cases.ENCODERS["gru-both"]().double()
    other = cases.RECURRENT[decoder](one, start).double()
    for parameter in other.parameters():
        nn.init.normal_(parameter)
    check_decoder(other, encode(one), length=5)


SMALL = {"width": 6, "layers": 1, "heads": 2, "hidden": 8, "attention": 5, "maxout": 4, "embedding": 6}
SMALL |= {"encoder_width": 3, "dropout": 0.0, "shared": False}


def part(registry: Registry, name: str) -> Any:
    """The sizes of a small model; encoders of two directions have half the width in each."""
    kind = registry[name].config_class
    halves = {"width": 3} if registry is ENCODERS and name in ("bahdanau", "pointer-generator", "span-reader") else {}
    return kind(**{field.name: (SMALL | halves)[field.name] for field in fields(kind) if field.name in SMALL})


@pytest.mark.parametrize("encoder", ENCODERS.locations)
@pytest.mark.parametrize("decoder", DECODERS.locations)
def test_the_encoder_of_any_model_with_the_decoder_of_any_other(encoder: str, decoder: str):
    pair = Pair(13, 13, PairConfig(encoder=part(ENCODERS, encoder), decoder=part(DECODERS, decoder)))
    cases.hold(pair)
    source = [4, 5, 6]
    batch = pair.collate([(source, [7, 8])])
    loss, _ = pair.decoder.output.loss(
        pair.features(batch.source, batch.source_lengths, batch.target_in), batch.target_out
    )
    loss.backward()
    assert all(parameter.grad is not None for parameter in pair.decoder.parameters())
    assert pair.encoder.embedding.table.weight.grad[4].any()
    memory = pair.encoder(batch.source, batch.source_lengths)
    ((found,),) = greedy(pair.decoder, memory, max_length=5)
    output = list(found.tokens)
    if decoder != "bottleneck":
        (weights,) = record_source_attention(pair, [(source, output)])
        assert weights.shape[1:] == (len(output) + 1, 4)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    others = source_kinds(pair)
    assert ("rollout" in others) == (encoder == "transformer" and decoder != "bottleneck")


REMEMBERED = [(align, "none") for align in ALIGNS] + [("local-m", "coverage"), ("monotonic", "location-aware")]


@pytest.mark.parametrize(("align", "history"), REMEMBERED)
def test_what_self_attention_remembers_is_kept_from_step_to_step(align: AlignName, history: str):
    """With nothing of the text but what it reads, so that a window or a past that starts anew shows."""
    memory = encode(cases.ENCODERS["gru-both"]().double())
    decoder = cases.reading_itself(cases.align(align, 3), cases.HISTORIES[history](), memory.key.shape[-1]).double()
    for parameter in decoder.parameters():
        nn.init.normal_(parameter)
    check_decoder(decoder, memory)


@torch.no_grad()
def test_who_reads_softly_is_drawn_once_a_text():
    """In self-attention too, and it goes with its row."""
    memory = Memory.of(torch.randn(13, 3, 5))
    decoder = cases.reading_itself(Hard(0.5), None, 5).train()
    state, tokens = decoder.start(memory), torch.full((13,), 4)
    drawn = []
    for _ in range(3):
        _, state = decoder.step(tokens, state)
        drawn.append(state.caches[0].alignment)
    assert drawn[0].any()
    assert not drawn[0].all()
    assert all(torch.equal(each, drawn[0]) for each in drawn)
    rows = torch.tensor([12, 0, 0])
    assert torch.equal(state.select(rows).caches[0].alignment, drawn[0][rows])


def test_a_ring_of_keys_does_not_grow():
    with pytest.raises(ValueError, match="Addressing depends on masked keys, so it"):
        cases.reading_itself(Addressing(), None, 5)


@pytest.mark.parametrize("name", cases.MODELS)
def test_models(name: str):
    cases.hold(cases.MODELS[name]())


@pytest.mark.parametrize("name", cases.MODELS)
def test_gradients_ignore_padding(name: str):
    """What stands in the padding changes no gradient."""
    model = cases.MODELS[name]().double().eval()
    batch = cases.sentences()
    inside = torch.arange(7) < batch.lengths[:, None]
    found = []
    for tokens in (batch.tokens, batch.tokens.where(inside, 0)):
        loss = model(tokens, batch.lengths, batch.target).logsumexp(-1).sum()
        found.append(torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", cases.MODELS)
def test_every_parameter_learns(name: str):
    model = cases.MODELS[name]().double().train()
    batch = cases.sentences()
    model(batch.tokens, batch.lengths, batch.target).logsumexp(-1).sum().backward()
    untouched = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # A bias of the keys shifts all scores of a row alike; what never reads the source through attention may not learn.
    assert [name for name in untouched if not name.endswith("key.bias")] == []


@pytest.mark.parametrize("name", ["bahdanau", "luong-general", "bottleneck", "transformer"])
def test_free_running_feeds_back_its_own_guesses(name: str):
    model = cases.MODELS[name]().double().eval()
    batch = cases.sentences()
    memory = model.encoder(batch.tokens, batch.lengths)
    free = model.decoder.output(unroll(model.decoder, batch.target, model.decoder.start(memory), 0.0))
    given = torch.cat([batch.target[:, :1], free[:, :-1].argmax(-1)], 1)
    forced = model.decoder.output(model.decoder.features(given, model.decoder.start(memory)))
    torch.testing.assert_close(free, forced, rtol=1e-12, atol=1e-12)
    always = model(batch.tokens, batch.lengths, batch.target, forcing=0.0)
    torch.testing.assert_close(always, free, rtol=0, atol=0)


def test_forcing_in_part_is_between_the_two():
    model = cases.MODELS["bahdanau"]().double().eval()
    batch = cases.sentences()
    state = model.decoder.start(model.encoder(batch.tokens, batch.lengths))
    one = unroll(model.decoder, batch.target, state, 1.0)
    torch.testing.assert_close(one, model.features(batch.tokens, batch.lengths, batch.target), rtol=1e-12, atol=1e-12)


def test_start_from_zero_leaves_the_last_state_unconnected():
    encoder = cases.ENCODERS["gru-both"]().double()
    memory = encode(encoder)
    assert memory.summary is not None
    for start, connected in (("zero", False), ("learned", False), ("summary", True)):
        decoder = cases.RECURRENT["luong"](encoder, start).double()
        blind = Memory(memory.key, memory.value, memory.mask, memory.summary + 1, zero_masked=False)
        tokens = torch.ones(4, 2, dtype=torch.long)
        here, there = (decoder.features(tokens, decoder.start(m)) for m in (memory, blind))
        assert torch.equal(here, there) is not connected


def test_a_start_without_what_it_needs_says_so():
    memory = Memory(torch.randn(2, 3, 5), torch.randn(2, 3, 5))
    with pytest.raises(ValueError, match="the memory has none; make it with summary="):
        SummaryInitialState(5, 7)(memory)
    decoder = cases.bottleneck(cases.ENCODERS["gru-both"](), "zero")
    with pytest.raises(ValueError, match="the memory has none; make it with summary="):
        decoder.start(memory)


def test_a_transformer_continues_from_any_point():
    """Several tokens after a cached past: the causal mask starts where the past ends."""
    model = cases.MODELS["transformer"]().double().eval()
    decoder = model.decoder
    assert isinstance(decoder, TransformerDecoder)
    batch = cases.sentences()
    memory = model.encoder(batch.tokens, batch.lengths)
    early, state = decoder.run(batch.target[:, :2], decoder.start(memory))
    late, _ = decoder.run(batch.target[:, 2:], state)
    whole = decoder.features(batch.target, decoder.start(memory))
    torch.testing.assert_close(torch.cat([early, late], 1), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "blind"), [("none", True), ("sinusoidal", False), ("learned", False)])
def test_order_blindness_of_encoders(name: str, blind: bool):
    positions = {"none": cases.NoPositions(), "sinusoidal": cases.Sinusoidal(), "learned": cases.Learned(17, 6)}[name]
    encoder = cases.transformer_encoder(positions).double().eval()
    tokens, lengths = torch.tensor([[4, 5, 6, 7, 8]]), torch.tensor([5])
    order = torch.tensor([3, 1, 4, 0, 2])
    mixed, straight = encoder(tokens[:, order], lengths).value, encoder(tokens, lengths).value[:, order]
    assert torch.allclose(mixed, straight, rtol=1e-12, atol=1e-12) is blind


class Leaking(Decoder):
    """Wrong on purpose: `features` sees the whole target."""

    def __init__(self):
        super().__init__()
        self.embedding, self.output = cases.embedding(), Output(6, cases.VOCABULARY)

    def start(self, memory: Memory) -> State:
        return State()

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        return self.embedding(tokens), state

    def features(self, tokens: Tensor, state: State) -> Tensor:
        return self.embedding(tokens) + self.embedding(tokens).mean(1, keepdim=True)


class Mixing(Leaking):
    """Wrong on purpose: rows of the batch see each other."""

    def advance(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        return self.embedding(tokens) + self.embedding(tokens).mean(0), state

    def features(self, tokens: Tensor, state: State) -> Tensor:
        return Decoder.features(self, tokens, state)


@pytest.mark.parametrize(
    ("decoder", "law"), [(Leaking, "teacher forcing equals stepping"), (Mixing, "selecting rows commutes")]
)
def test_a_broken_decoder_is_found(decoder: type[Decoder], law: str):
    memory = Memory.of(torch.randn(3, 5, 6, dtype=torch.float64))
    with pytest.raises(AssertionError, match=law):
        check_decoder(decoder().double(), memory)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_label_smoothing_spreads_a_share_over_all_words(smoothing: float):
    """The loss of a position is -sum_w q(w) log p(w), with q = (1 - s) onehot + s / V; ignored positions have none."""
    output, features = Output(5, 7).double(), torch.randn(2, 3, 5, dtype=torch.float64)
    targets = torch.tensor([[0, 6, 2], [3, IGNORED, IGNORED]])
    logs = output(features).log_softmax(-1)
    expected = torch.zeros(2, 3, dtype=torch.float64)
    for row, position in [(0, 0), (0, 1), (0, 2), (1, 0)]:
        of_target = logs[row, position, targets[row, position]]
        expected[row, position] = -(1 - smoothing) * of_target - smoothing * logs[row, position].mean()
    total, losses = output.loss(features, targets, smoothing)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(total, expected.sum())
