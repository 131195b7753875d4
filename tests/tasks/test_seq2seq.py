"""The sequence-to-sequence task: its loss, its batches, and the figures it validates with."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch.nn import functional

from regard.data.generated.pairs import Dates
from regard.data.pairs import Pair
from regard.data.splits import Splits
from regard.data.tokens import Tokenizers
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.decoding.texts import encode_pairs
from regard.errors import InputError
from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.luong import Luong, LuongConfig
from regard.models.pointer_generator import PointerConfig, PointerGenerator
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.decoders import EncoderDecoder
from regard.storage.run_folder import RunDirectory
from regard.tasks.options import EvaluationOptions
from regard.tasks.seq2seq import run as seq2seq
from regard.tasks.seq2seq.run import MetricName, Seq2Seq, Seq2SeqRun, TokenizerPair
from regard.tasks.seq2seq.training import Seq2SeqObjective, setup
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END, IGNORED, UNKNOWN
from regard.training.settings import Training

TEXTS = [
    ("the cat sat", "die Katze saß"),
    ("the mat", "die Matte"),
    ("a", "ein"),
    ("the lower wall of the lowest", "die niedrigere Mauer"),
    ("the cat sat on the mat", "die Katze saß auf der Matte"),
]
PAIRS = [Pair(source, target, f"pairs.tsv:{line}") for line, (source, target) in enumerate(TEXTS, 1)]
SPLITS = Splits(PAIRS, PAIRS[:2])


def tokenizers(dropout: float = 0.0) -> Tokenizers:
    kind = TokenizerSettings("bpe", size=271, dropout=dropout) if dropout else TokenizerSettings("character")
    source, target = (Tokenizer.train(kind, side) for side in zip(*TEXTS, strict=True))
    return Tokenizers(source, target)


def model_for(both: Tokenizers) -> EncoderDecoder:
    return Bahdanau(both.source.size, both.target.size, BahdanauConfig(embedding=3, width=5, attention=7, maxout=2))


def config(metrics: tuple[MetricName, ...] = ("exact-match", "bleu"), truncate: bool = False, **settings) -> Seq2Seq:
    return Seq2Seq(
        data=Dates(),
        tokenizers=TokenizerPair(TokenizerSettings("character"), TokenizerSettings("character")),
        model=BahdanauConfig(),
        metrics=metrics,
        truncate=truncate,
        training=Training(**{"batch_tokens": 31, "seed": 3, **settings}),
        search=Search(beam=1),
    )


def task(both: Tokenizers, model: EncoderDecoder | None = None, **settings) -> Seq2SeqObjective:
    return Seq2SeqObjective(config(**settings), SPLITS, both, model or model_for(both))


def measure(both: Tokenizers, model: EncoderDecoder, pairs: list[Pair], **settings) -> dict[str, float]:
    chosen = config(**settings)
    return Seq2SeqRun(chosen, model, both).compute_metrics(pairs, EvaluationOptions())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_smoothed_cross_entropy_of_real_tokens(smoothing: float):
    both = tokenizers()
    model = model_for(both).double()
    one = task(both, model, label_smoothing=smoothing)
    batch = one.batch(0, [0, 2, 4])
    found = one.loss(model, batch, 1)
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    wanted = functional.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=IGNORED,
        label_smoothing=smoothing,
        reduction="sum",
    )
    torch.testing.assert_close(found.total, wanted, rtol=1e-12, atol=0)
    assert found.tokens == sum(len(TEXTS[row][1]) + 1 for row in (0, 2, 4))
    gradients = [torch.autograd.grad(total, list(model.parameters())) for total in (found.total, wanted)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_forcing_that_never_fails_equals_teacher_forcing(name: str):
    """Just below 1 the decoder is stepped through, but every token it is given is the true one."""
    both = tokenizers()
    small = TransformerConfig(layers=1, width=6, hidden=5, heads=2, shared=False, dropout=0.0)
    model = model_for(both) if name == "bahdanau" else Transformer(both.source.size, both.target.size, small)
    model = model.double()
    batch = task(both).batch(0, [0, 1, 4])
    given, stepped = (task(both, model, teacher_forcing=each).loss(model, batch, 1) for each in (1.0, 1 - 1e-12))
    torch.testing.assert_close(stepped.total, given.total, rtol=1e-12, atol=0)


def test_forcing_may_end_elsewhere_than_it_began():
    """From teacher forcing at the first update to free running at the last."""
    both = tokenizers()
    model = model_for(both).double()
    batch = task(both).batch(0, [0, 1, 4])
    changing = task(both, model, steps=11, teacher_forcing=1.0, teacher_forcing_end=0.0)
    for update, forcing in ((1, 1.0), (11, 0.0)):
        constant = task(both, model, teacher_forcing=forcing)
        wanted = constant.loss(model, batch, 7).total
        torch.testing.assert_close(changing.loss(model, batch, update).total, wanted, rtol=1e-12, atol=0)
    assert changing.loss(model, batch, 1).total != changing.loss(model, batch, 11).total


def test_dropped_merges_are_a_function_of_seed_epoch_and_pair():
    both = tokenizers(dropout=0.4)
    one = task(both)
    first = one.batch(2, [0, 3, 4])
    random.seed(5)
    torch.manual_seed(5)
    again = task(both).batch(2, [4, 3, 0])
    for row, other in ((0, 2), (1, 1), (2, 0)):
        assert torch.equal(first.source[row], again.source[other])
        assert torch.equal(first.target_out[row], again.target_out[other])
    changed = [one.batch(3, [0, 3, 4]), task(both, seed=5).batch(2, [0, 3, 4])]
    assert all(not same(each.source, first.source) and not same(each.target_out, first.target_out) for each in changed)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


def test_dropped_merges_spell_the_same_texts():
    both = tokenizers(dropout=0.4)
    batch = task(both).batch(1, list(range(len(PAIRS))))
    assert [both.source.decode(ids) for ids in batch.source.tolist()] == [source for source, _ in TEXTS]
    assert [both.target.decode(ids) for ids in batch.target_in.tolist()] == [target for _, target in TEXTS]


def test_frequencies_are_those_of_the_training_targets():
    both = tokenizers()
    found = task(both).frequencies()
    assert found.shape == (both.target.size,)
    assert found[END] == len(TEXTS)
    (letter,) = both.target.encode("ß")
    assert found[letter] == sum(target.count("ß") for _, target in TEXTS)
    assert found.sum() == sum(len(target) + 1 for _, target in TEXTS)


def test_a_pair_longer_than_the_model_can_take(caplog: pytest.LogCaptureFixture):
    """Location scores bound the source, learned positions both sides; END takes one of the places."""
    both = tokenizers()
    model = Luong(
        both.source.size, both.target.size, LuongConfig(embedding=3, width=5, score="location", max_source=24)
    )
    with pytest.raises(InputError, match=r"pairs\.tsv:4: 28 tokens and 1 special token, but the model takes 24"):
        task(both, model)
    one = task(both, model, truncate=True, batch_tokens=67)
    assert [max(side) for side in zip(*one.lengths, strict=True)] == [24, 28]
    assert "1 of 5 training sources were cut" in caplog.text
    assert "targets" not in caplog.text
    small = TransformerConfig(layers=1, width=6, hidden=5, heads=2, shared=False, positions="learned", max_length=24)
    both_sides = Transformer(both.source.size, both.target.size, small)
    one = task(both, both_sides, truncate=True, batch_tokens=67)
    assert [max(side) for side in zip(*one.lengths, strict=True)] == [24, 24]
    assert "1 of 5 training targets were cut" in caplog.text


def test_groups_are_scored_apart(monkeypatch: pytest.MonkeyPatch):
    """Of four outputs the second and the fourth are wrong."""
    both = tokenizers()
    encode = both.target.encode
    outputs = ["ein", "ein", "die Matte", "ein"]
    monkeypatch.setattr(
        seq2seq,
        "search_texts",
        lambda *_, **__: [[Hypothesis(tuple(ids), 0.0, True)] for ids in map(encode, outputs)],
    )
    targets = ["ein", "die Matte", "die Matte", "die"]
    groups = ["", "hard", "", ""]
    given = [Pair("x", target, "", group) for target, group in zip(targets, groups, strict=True)]
    found = measure(both, model_for(both), given, metrics=("exact-match",))
    assert found == pytest.approx({"exact-match": 50.0, "exact-match/plain": 100 * 2 / 3, "exact-match/hard": 0.0})
    one_group = [Pair("x", target, "", "hard") for target in targets]
    assert list(measure(both, model_for(both), one_group, metrics=("exact-match",))) == ["exact-match"]


@pytest.mark.parametrize("start", ["zeros", "frequencies"])
def test_a_model_starts_from_the_frequencies_of_tokens_on_request(
    start: Literal["zeros", "frequencies"], tmp_path: Path
):
    data = Dates(kind="dates", train=50, valid=3, test=3)
    chosen = replace(config(batch_tokens=300), data=data, model=LuongConfig(embedding=4, width=6), output_bias=start)
    with RunDirectory.create(tmp_path / "run") as run:
        prepared = setup(chosen, run, 1)
    assert isinstance(prepared.model, EncoderDecoder)
    assert isinstance(prepared.objective, Seq2SeqObjective)
    silent = prepared.model.decoder.output(torch.zeros(6)).softmax(-1)
    counts = prepared.objective.frequencies() + 1 if start == "frequencies" else torch.ones_like(silent)
    torch.testing.assert_close(silent, counts / counts.sum())


def test_perplexity_is_of_the_targets_tokens_and_lower_is_better():
    both = tokenizers()
    model = model_for(both).double().eval()
    found = measure(both, model, PAIRS, metrics=("perplexity", "exact-match"))
    assert list(found) == ["perplexity", "exact-match"]
    one = task(both, model)
    batch = one.batch(0, list(range(len(PAIRS))))
    loss = one.loss(model, batch, 1)
    assert found["perplexity"] == pytest.approx(float(loss.total.detach().exp().pow(1 / loss.tokens)), rel=1e-6)
    alone = task(both, model, metrics=("perplexity",))
    assert not alone.higher_is_better
    assert one.higher_is_better


def test_a_cut_source_takes_its_words_from_the_target():
    """The copied word stands behind what the model can take, so nothing could have written it."""
    one = Tokenizer.train(TokenizerSettings("word", minimum_count=1), ["a b c d"])
    both = Tokenizers(one, one, copying=True)
    model = PointerGenerator(one.size, one.size, PointerConfig(embedding=3, width=5, attention=7, max_source=4)).eval()
    pairs = [Pair("a b c d zork", "zork a", "f:1")]
    cut, whole = (
        encode_pairs(model, both, pairs, truncate=True)[0],
        encode_pairs(model, both, [Pair("zork b", "zork a", "")])[0],
    )
    assert cut[1] == [UNKNOWN, one.encode("a")[0]]
    assert whole[1][0] == one.size
    assert measure(both, model, pairs, metrics=("perplexity",), truncate=True)["perplexity"] > 1
