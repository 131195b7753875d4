"""Every alignment and every history in every decoder that it is offered for: stepping, padding, batches, recording."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.attention import Attend
from regard.attention.align import Monotonic, Softmax
from regard.attention.record import record
from regard.models.attention import ALIGNS, SCORES, AlignName, HistoryName, ScoreName
from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.luong import Luong, LuongConfig
from regard.models.one_pass import OnePass, OnePassConfig
from regard.models.pointer_generator import PointerConfig, PointerGenerator
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.decoders import EncoderDecoder
from tests.laws import cases
from tests.laws.cases import InTraining

MODELS: dict[str, Callable[[AlignName], EncoderDecoder]] = {
    "bahdanau": lambda align: Bahdanau(
        11, 13, BahdanauConfig(embedding=3, width=5, attention=7, maxout=2, align=align, window=2)
    ),
    "luong": lambda align: Luong(11, 13, LuongConfig(embedding=3, width=5, align=align, window=2)),
    "luong-unfed": lambda align: Luong(
        11, 13, LuongConfig(embedding=3, width=5, align=align, window=2, input_feeding=False)
    ),
    "one-pass": lambda align: OnePass(13, 13, OnePassConfig(width=5, encoder_width=3, align=align, window=2)),
    "one-pass-heads": lambda align: OnePass(
        13, 13, OnePassConfig(width=6, encoder_width=3, heads=2, align=align, window=1)
    ),
    "pointer-generator": lambda align: PointerGenerator(
        13, 13, PointerConfig(embedding=3, width=5, attention=7, align=align, window=2)
    ),
    "transformer": lambda align: Transformer(
        13, 13, TransformerConfig(layers=2, width=6, hidden=7, heads=3, align=align, window=2)
    ),
}
NOT_OFFERED = {("pointer-generator", align) for align in ("local-p", "monotonic", "hard")}
OFFERED = [(model, align) for model in MODELS for align in ALIGNS if (model, align) not in NOT_OFFERED]
DRAWN = [pair for pair in OFFERED if pair[1] in ("hard", "straight-through", "monotonic")]


@pytest.mark.parametrize(("model", "align"), OFFERED)
def test_alignments(model: str, align: AlignName):
    cases.hold(MODELS[model](align))


@pytest.mark.parametrize(("name", "align"), [pair for pair in OFFERED if pair[1] in ("local-m", "monotonic")])
def test_what_a_step_reads_follows_from_the_steps_before(name: str, align: AlignName):
    """The window moves on with each step, and nothing behind the last key is read again: the state is handed on."""
    model = MODELS[name](align).double().eval()
    for place, parameter in model.named_parameters():
        nn.init.normal_(parameter, std=0.0 if place.endswith("offset") else 1.0)
    tokens, lengths = torch.randint(4, 11, (67, 7)), torch.full((67,), 7)
    state, readers = model.decoder.start(model.encoder(tokens, lengths)), model.decoder.source_attention
    assert readers is not None
    with record(model.decoder, readers) as maps:
        model.decoder.features(torch.randint(4, 11, (67, 6)), state)
    for weights in maps.values():
        read, places = weights.flatten(0, -3) > 0, torch.arange(7)
        if align == "monotonic":
            assert read.any()
            rows = [[row.index(True) for row in rows if any(row)] for rows in read.tolist()]
            assert all(found == sorted(found) for found in rows)
            assert len({tuple(found) for found in rows}) > 1
        else:
            window = 1 if name == "one-pass-heads" else 2
            assert torch.equal(read, ((places - torch.arange(6)[:, None]).abs() <= window).expand_as(read))


@pytest.mark.parametrize("score", [name for name in SCORES if name != "general"])
@pytest.mark.parametrize("align", [name for name in ALIGNS if name != "softmax"])
def test_scores_and_alignments(score: ScoreName, align: AlignName):
    """Those that a run file can name. The general score is that of the model above, softmax that of `test_decoders`."""
    cases.hold(Luong(11, 13, LuongConfig(embedding=3, width=5, score=score, align=align, window=2, max_source=17)))


@pytest.mark.parametrize(("model", "align"), DRAWN)
def test_in_training(model: str, align: AlignName):
    """Its weights are drawn, or expected, as in training; all else is as at inference."""
    cases.hold(drawing(MODELS[model](align)))


def drawing(model: EncoderDecoder) -> EncoderDecoder:
    """The same with alignments that stay in training."""
    for module in model.modules():
        if isinstance(module, Monotonic):
            module.noise = 0.0
        if isinstance(module, Attend) and not isinstance(module.align, Softmax):
            module.align = InTraining(module.align)
    return model


@pytest.mark.parametrize("name", [model for model, align in DRAWN if align == "hard"])
def test_what_is_drawn_step_by_step_is_what_one_pass_draws(name: str):
    model, batch = drawing(MODELS[name]("hard")).double().eval(), cases.sentences()
    memory = model.encoder(batch.tokens, batch.lengths)
    with record(model.decoder) as whole:
        model.decoder.features(batch.target, model.decoder.start(memory))
    with record(model.decoder) as stepwise:
        state = model.decoder.start(memory)
        for tokens in batch.target.unbind(1):
            _, state = model.decoder.step(tokens, state)
    assert whole.draws.keys() == stepwise.draws.keys() != set()
    for place, draws in whole.draws.items():
        for part in ("log_probability", "entropy"):
            found, wanted = (
                torch.cat([getattr(draw, part) for draw in each], -1) for each in (stepwise.draws[place], draws)
            )
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
            assert wanted.any()


@pytest.mark.parametrize("history", cases.PASTS)
@pytest.mark.parametrize("align", ["softmax", "entmax", "local-m", "monotonic"])
def test_histories(history: HistoryName, align: AlignName):
    """With alignments that have no state of their own, and such as have."""
    config = BahdanauConfig(embedding=3, width=5, attention=3, maxout=2, align=align, window=2, history=history)
    model = Bahdanau(11, 13, config)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    cases.hold(model)
