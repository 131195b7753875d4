"""Beam search against all texts that a small model can write, each scored by a pass of its own."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn

from regard.data.batches import collate
from regard.decoding import Beam, Hypothesis, LengthPenalty
from regard.models.ensemble import Ensemble
from regard.models.luong import Luong, LuongConfig
from regard.models.pointer_generator import PointerConfig, PointerGenerator
from regard.nn.encoder_decoder import EncoderDecoder
from regard.text.special import END, PAD, START
from tests.laws import cases

VOCABULARY, LIMIT = 41, 3
TEXTS = 40
"""Of at most 3 tokens over 3 words, END included: 13 that end and 27 that do not; the beam is wider."""
SOURCES = [[41, 4, 42], [7, 41], [4, 41, 4, 42, 42]]
"""Of which 41 and 42 are the source's own words."""
WRITTEN = {"luong": [4, 5, 6], "pointer": [4], "coverage": [4]}
"""The words that a model's vocabulary leaves possible; the others of a pointer-generator are copied."""
MODELS: dict[str, Callable[[], EncoderDecoder]] = {
    "luong": lambda: Luong(VOCABULARY, VOCABULARY, LuongConfig(embedding=3, width=5)),
    "pointer": lambda: PointerGenerator(VOCABULARY, VOCABULARY, PointerConfig(embedding=3, width=5, attention=7)),
    "coverage": lambda: PointerGenerator(
        VOCABULARY, VOCABULARY, PointerConfig(embedding=3, width=5, attention=7, history="coverage")
    ),
}


def made(name: str) -> EncoderDecoder:
    """With weights that make it sure of what it says; all but a few words are impossible."""
    model = MODELS[name]().double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    impossible = torch.ones(VOCABULARY, dtype=torch.bool).index_fill(0, torch.tensor([END, *WRITTEN[name]]), False)
    with torch.no_grad():
        cases.written(model.decoder.output).bias[impossible] = -torch.inf
    return model


@torch.no_grad()
def every_text(models: Sequence[EncoderDecoder], source: list[int], alpha: float) -> list[Hypothesis]:
    """Best first, by the mean of the models' distributions, each given the whole text before."""
    found, going = [], [((), 0.0)]
    for length in range(1, LIMIT + 1):
        inputs = torch.tensor([[*source, END]] * len(going)), torch.full((len(going),), len(source) + 1)
        before = torch.tensor([[START, *text] for text, _ in going])
        chances = torch.stack([model(*inputs, before)[:, -1].softmax(-1) for model in models]).mean(0)
        grown = []
        for (text, score), row in zip(going, chances.log().tolist(), strict=True):
            possible = {
                token: more for token, more in enumerate(row) if more > -torch.inf and token not in (PAD, START)
            }
            for token, more in possible.items():
                if token == END:
                    found.append(Hypothesis(text, (score + more) / ((5 + length) / 6) ** alpha, finished=True))
                else:
                    grown.append(((*text, token), score + more))
        going = grown
    found += [Hypothesis(text, score / ((5 + LIMIT) / 6) ** alpha, finished=False) for text, score in going]
    return sorted(found, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("names", ["luong", "pointer", "coverage", "luong luong", "pointer coverage"])
def test_a_beam_finds_every_text_of_a_model_in_order(names: str, alpha: float):
    models = [made(name) for name in names.split()]
    model = models[0] if len(models) == 1 else Ensemble(models).eval()
    sources = [[token % 7 + 4 for token in source] for source in SOURCES] if "luong" in names else SOURCES
    batch = collate([(source, []) for source in sources])
    with torch.no_grad():
        memory = model.encoder(batch.source, batch.source_lengths)
    found = Beam(VOCABULARY, LengthPenalty(alpha))(model.decoder, memory, max_length=LIMIT, n_best=TEXTS)
    for source, hypotheses in zip(sources, found, strict=True):
        wanted = every_text(models, source, alpha)
        assert [each.tokens for each in hypotheses] == [each.tokens for each in wanted]
        assert [each.finished for each in hypotheses] == [each.finished for each in wanted]
        assert [each.score for each in hypotheses] == pytest.approx([each.score for each in wanted], rel=1e-5, abs=1e-5)
        own = {token for each in hypotheses for token in each.tokens} - set(range(VOCABULARY))
        assert own == set(source) - set(range(VOCABULARY))
