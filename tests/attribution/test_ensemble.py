"""Several models as one: mean probabilities, by teacher forcing, stepping and searching, and their common attention."""

from dataclasses import replace

import pytest
import torch

from regard.attribution.cross_attention import record_source_attention
from regard.data.batches import collate
from regard.data.tokens import Tokenizers
from regard.decoding import greedy
from regard.decoding.texts import log_probabilities
from regard.errors import InputError
from regard.models.ensemble import Ensemble
from regard.models.luong import Luong, LuongConfig
from regard.models.pointer_generator import PointerConfig, PointerGenerator
from regard.nn.decoders import EncoderDecoder
from regard.nn.output import Output
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.testing import check_decoder
from tests.attribution.untrained import writing
from tests.laws import cases

PAIRS = [([5, 7, 4], [6, 4, 9, 11, 5]), ([], [7]), ([10, 9, 8, 7, 6, 5, 4], []), ([4], [12, 5, 12])]
NAMES = ("one-pass", "transformer", "transformer-grouped")


def members(*names: str) -> list[EncoderDecoder]:
    return [cases.MODELS[name]().double().eval() for name in names]


def test_the_mean_of_the_probabilities():
    models, batch = members(*NAMES), collate(PAIRS)
    with torch.no_grad():
        each = [model(batch.source, batch.source_lengths, batch.target_in).softmax(-1) for model in models]
        mean = Ensemble(models)(batch.source, batch.source_lengths, batch.target_in).softmax(-1)
    torch.testing.assert_close(mean, torch.stack(each).mean(0), rtol=1e-6, atol=1e-7, check_dtype=False)


def test_the_laws_of_decoders():
    ensemble = Ensemble(members("bahdanau", "luong-general")).eval()
    batch = cases.sentences()
    check_decoder(ensemble.decoder, ensemble.encoder(batch.tokens, batch.lengths), tolerance=1e-5)


def test_a_score_is_what_forced_decoding_gives():
    ensemble, batch = Ensemble(members(*NAMES)), collate(PAIRS)
    found = greedy(ensemble.decoder, ensemble.encoder(batch.source, batch.source_lengths), max_length=7)
    pairs = [(source, list(each.tokens)) for (source, _), (each,) in zip(PAIRS, found, strict=True)]
    for (each,), tokens in zip(found, log_probabilities(ensemble, pairs), strict=True):
        spoken = sum(tokens if each.finished else tokens[:-1])
        assert each.score == pytest.approx(spoken, rel=1e-5, abs=1e-5)


def test_its_attention_is_all_its_members():
    models = members("bahdanau", "transformer")
    joined = record_source_attention(Ensemble(models), PAIRS)
    for both, *apart in zip(joined, *(record_source_attention(model, PAIRS) for model in models), strict=True):
        torch.testing.assert_close(both, torch.cat(apart), rtol=1e-12, atol=1e-12)


def test_a_member_that_does_not_attend():
    assert Ensemble(members("bahdanau", "bottleneck")).decoder.source_attention is None


def test_the_tightest_limits():
    ensemble = Ensemble(members("luong-location", "transformer", "transformer-learned"))
    assert (ensemble.max_source, ensemble.max_target) == (17, 17)


def test_other_vocabularies():
    models = members("transformer", "transformer")
    models[1].decoder.output = Output(6, 7)
    with pytest.raises(ValueError, match=r"have \[7, 13\] entries; they need one vocabulary"):
        Ensemble(models)


def test_pointer_generators_have_the_mean_of_their_distributions():
    """Over the source's own words too, which they need not copy all."""
    models, batch = members("pointer", "pointer-closed"), collate([([4, 13, 14, 13], [5, 14]), ([6, 13], [13, 7])])
    with torch.no_grad():
        each = [model(batch.source, batch.source_lengths, batch.target_in).exp() for model in models]
        mean = Ensemble(models)(batch.source, batch.source_lengths, batch.target_in).exp()
    assert mean.shape == (2, 3, 15)
    torch.testing.assert_close(mean, torch.stack(each).mean(0), rtol=1e-6, atol=1e-7, check_dtype=False)
    torch.testing.assert_close(mean.sum(-1), torch.ones(2, 3))


def test_own_words_that_some_cannot_read():
    with pytest.raises(ValueError, match="some members copy words that only their source has"):
        Ensemble(members("pointer", "transformer"))
    run = writing()
    tokenizers, size = Tokenizers(run.tokenizers.source, run.tokenizers.source), run.tokenizers.source.size
    copying = PointerGenerator(size, size, PointerConfig(embedding=3, width=5, attention=7))
    others = [Seq2SeqRun(run.config, Luong(size, size, LuongConfig(embedding=3, width=5)), tokenizers)]
    with pytest.raises(InputError, match="the runs make no ensemble: some members copy words"):
        Seq2SeqRun(run.config, copying, replace(tokenizers, copying=True)).ensemble(others)


def test_log_probabilities_sum_to_one_over_all_continuations():
    """Of every next token after a fixed beginning: the chain rule, token by token."""
    (model,) = members("luong-dot")
    pairs = [([5, 4], [6, token]) for token in range(13)]
    second = [tokens[1] for tokens in log_probabilities(model, pairs)]
    assert torch.tensor(second).exp().sum().item() == pytest.approx(1.0, rel=1e-5)
