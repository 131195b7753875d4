"""Every model through the pair task: an update under bf16's autocast, and teacher forcing by its schedule."""

from typing import Any

import pytest
import torch

from regard.data.generated.pairs import Dates
from regard.data.pairs import Pair
from regard.data.splits import Splits
from regard.data.tokens import Tokenizers
from regard.models.bahdanau import BahdanauConfig
from regard.nn.decoders import EncoderDecoder
from regard.tasks.seq2seq.run import Seq2Seq, TokenizerPair
from regard.tasks.seq2seq.training import Seq2SeqObjective
from regard.text import Tokenizer, TokenizerSettings
from regard.training.objectives import LossModule
from regard.training.settings import Training
from regard.training.update import BatchStream, Processes, Stop, Updater, build_optimizer
from tests.laws import cases
from tests.training.toy import settings

PAIRS = [
    Pair(source, target, f"train:{n}")
    for n, (source, target) in enumerate(
        [("abcdefg", "rstuvwxyz"), ("gab", "zy"), ("c", "rst"), ("fedcb", "wwxuv"), ("dad", "s")], start=1
    )
]
SETTINGS = settings(batch_tokens=23, learning_rate=1e-3, steps=11)


def task(model: EncoderDecoder, chosen: Training) -> Seq2SeqObjective:
    """Seven letters and nine, which with the special tokens are the models' vocabularies or fewer."""
    source, target = (
        Tokenizer.train(TokenizerSettings("character"), texts)
        for texts in ([pair.source for pair in PAIRS], [pair.target for pair in PAIRS])
    )
    assert (source.size, target.size) == (11, 13)
    splits = Splits(PAIRS, PAIRS[:1], [])
    sides = TokenizerPair(source.settings, target.settings)
    config = Seq2Seq(data=Dates(), tokenizers=sides, model=BahdanauConfig(), metrics=("exact-match",), training=chosen)
    return Seq2SeqObjective(config, splits, Tokenizers(source, target), model)


@pytest.mark.parametrize("forcing", [1.0, 0.5])
@pytest.mark.parametrize("name", cases.MODELS)
def test_an_update_in_bf16(name: str, forcing: float):
    model = cases.MODELS[name]().train()
    chosen = settings(batch_tokens=23, precision="bf16", teacher_forcing=forcing, label_smoothing=0.1)
    here, pairs = Processes(chosen), task(model, chosen)
    updater = Updater(LossModule(model, pairs), build_optimizer(model, chosen), chosen, here, Stop())
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with BatchStream(pairs, chosen, here) as stream:
        outcome = updater([next(stream)], 1, 0.01)
    assert outcome.good
    assert outcome.norm > 0
    after = list(model.parameters())
    assert all(parameter.dtype == torch.float32 and parameter.isfinite().all() for parameter in after)
    moved = [not torch.equal(old, new) for old, new in zip(before, after, strict=True)]
    assert sum(moved) > len(moved) / 2


@pytest.mark.parametrize("name", cases.MODELS)
def test_one_and_four_threads_agree_up_to_rounding(name: str):
    """Bit for bit is promised for the same number of threads alone (`Training`)."""
    model = cases.MODELS[name]().train()
    pairs = task(model, SETTINGS)
    batch = pairs.batch(0, list(range(len(PAIRS))))
    before, found = torch.get_num_threads(), []
    for threads in (1, 4):
        torch.set_num_threads(threads)
        torch.manual_seed(3)
        model.zero_grad()
        total = pairs.loss(model, batch, 1).total
        total.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        found.append([total.detach(), *(gradient for gradient in gradients if gradient is not None)])
    torch.set_num_threads(before)
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_the_model_is_called_with_the_forcing_of_the_update():
    class Listening(EncoderDecoder):
        def features(self, *inputs: Any, forcing: float = 1.0) -> Any:
            heard.append(forcing)
            return super().features(*inputs, forcing=forcing)

    heard: list[float] = []
    model = cases.MODELS["bahdanau"]()
    chosen = settings(batch_tokens=23, steps=5, teacher_forcing=1.0, teacher_forcing_end=0.2)
    pairs = task(model, chosen)
    for update in range(1, 6):
        pairs.loss(Listening(model.encoder, model.decoder), pairs.batch(0, [0, 1]), update)
    assert heard == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
