"""Laws of the models of documents and pairs, for any weights."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.errors import InputError
from regard.models.esim import Esim, EsimConfig
from regard.models.gpt2 import GPT2Classifier, GPT2Config
from regard.models.han import AttentionPooling, FlatAttention, FlatConfig, Han, HanConfig
from regard.models.rocktaschel import ReadByWord, ReadOnce, Rocktaschel, RocktaschelConfig
from regard.nn.layers import AveragePooling, MaximumPooling, Pooling, WordDropout
from regard.nn.recurrent import SequenceReader, read_in_parts
from regard.tasks.classification.inputs import collate_documents, collate_texts, collate_two_texts
from regard.text.kinds import PAD, UNKNOWN

HAN: dict[str, Any] = {"embedding": 5, "width": 3, "attention": 7}
PAIR: dict[str, Any] = {"embedding": 5, "width": 3}
DOCUMENTS = [[[5, 7], [6, 8, 9, 4, 4], [10]], [[4, 4, 4]], [], [[], [7, 5]]]
TEXTS = [[5, 7, 6, 8, 9], [4], [], [7, 5, 4]]
PAIRS = [([5, 7, 6], [8, 9]), ([4], [10, 7, 5, 6]), ([], [6]), ([7, 5], []), ([], [])]

MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Any], list[Any]]] = {
    "han": (lambda: Han(11, 3, HanConfig(**HAN)), collate_documents, DOCUMENTS),
    "han-average": (lambda: Han(11, 3, HanConfig(**HAN, words="average")), collate_documents, DOCUMENTS),
    "han-maximum": (lambda: Han(11, 3, HanConfig(**HAN, sentences="maximum")), collate_documents, DOCUMENTS),
    "flat": (lambda: FlatAttention(11, 3, FlatConfig(**HAN)), collate_texts, TEXTS),
    "conditional": (lambda: Rocktaschel(11, 3, RocktaschelConfig(**PAIR, reading="none")), collate_two_texts, PAIRS),
    "last": (lambda: Rocktaschel(11, 3, RocktaschelConfig(**PAIR, reading="last")), collate_two_texts, PAIRS),
    "by-word": (lambda: Rocktaschel(11, 3, RocktaschelConfig(**PAIR)), collate_two_texts, PAIRS),
    "compared": (
        lambda: Rocktaschel(11, 3, RocktaschelConfig(**PAIR, score="dot", shared=True, compare=True)),
        collate_two_texts,
        PAIRS,
    ),
    "esim": (lambda: Esim(11, 3, EsimConfig(**PAIR)), collate_two_texts, PAIRS),
    "esim one way": (lambda: Esim(11, 3, EsimConfig(**PAIR, both_ways=False)), collate_two_texts, PAIRS),
    "both-ways": (lambda: Rocktaschel(11, 3, RocktaschelConfig(**PAIR, both_ways=True)), collate_two_texts, PAIRS),
}
MODELS["gpt2"] = lambda: GPT2Classifier(11, 3, GPT2Config(layers=2, width=6, heads=2, context=7)), collate_texts, TEXTS
everything = pytest.mark.parametrize("name", MODELS)


def drawn(name: str) -> tuple[nn.Module, Callable[[list[Any]], tuple[Tensor, ...]], list[Any]]:
    make, collate, examples = MODELS[name]
    model = make().double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model, lambda some: collate([(each, 0) for each in some]).inputs, examples


@everything
def test_the_rest_of_the_batch_and_its_padding_change_nothing(name: str):
    model, inputs, examples = drawn(name)
    whole = model(*inputs(examples))
    assert whole.shape == (len(examples), 3)
    for one, expected in zip(examples, whole, strict=True):
        torch.testing.assert_close(model(*inputs([one]))[0], expected, rtol=1e-12, atol=1e-12)
    backwards = model(*inputs(examples[::-1]))
    torch.testing.assert_close(backwards.flip(0), whole, rtol=1e-12, atol=1e-12)


@everything
def test_what_stands_in_padding_changes_nothing(name: str):
    """NaN in the row of PAD reaches every padded position and no result."""
    model, inputs, examples = drawn(name)
    given = inputs(examples)
    before = model(*given)
    table: Any = model.get_submodule("embedding.table")
    table.weight.data[PAD] = torch.nan
    torch.testing.assert_close(model(*given), before, rtol=1e-12, atol=1e-12)


@everything
def test_recorded_equals_unrecorded(name: str):
    model, inputs, examples = drawn(name)
    given = inputs(examples)
    with record(model, may_be_empty=name == "conditional") as maps:
        found = model(*given)
    torch.testing.assert_close(found, model(*given), rtol=1e-12, atol=1e-12)
    assert bool(maps) == (name != "conditional")
    for each in maps.values():
        sums = each.sum(-1)
        torch.testing.assert_close(sums, (sums > 0.5).double(), rtol=0, atol=1e-12)


@everything
def test_every_parameter_learns(name: str):
    model, inputs, examples = drawn(name)
    functional.cross_entropy(model(*inputs(examples)), torch.arange(len(examples)) % 3).backward()
    silent = [
        name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()
    ]
    assert silent == []


@everything
def test_examples_of_nothing_alone(name: str):
    model, inputs, examples = drawn(name)
    nothing = ([], []) if isinstance(examples[0], tuple) else []
    logits = model(*inputs([nothing, nothing]))
    assert torch.isfinite(logits).all()
    torch.testing.assert_close(logits[0], logits[1], rtol=0, atol=1e-12)


def test_both_levels_are_recorded():
    model, inputs, examples = drawn("han")
    with record(model, only="*.summary") as maps:
        model(*inputs(examples))
    assert {name: tuple(each.shape) for name, each in maps.items()} == {
        "words.summary": (6, 1, 5),
        "sentences.summary": (4, 1, 3),
    }
    assert maps["sentences.summary"][1, 0].tolist() == [1.0, 0.0, 0.0]


def test_each_word_reads_the_premise():
    model, inputs, examples = drawn("by-word")
    with record(model, only="reading") as maps:
        model(*inputs(examples))
    assert maps["reading"].shape == (5, 4, 3)
    assert maps["reading"][1, :, 1:].eq(0).all()


@pytest.mark.parametrize("summary", [AttentionPooling(5, 7), AveragePooling(), MaximumPooling()])
def test_derivatives_of_summaries(summary: Pooling):
    states = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([4, 2, 0])
    assert torch.autograd.gradcheck(lambda states: summary.double()(states, lengths), (states,))
    summary(states, lengths).sum().backward()
    assert states.grad is not None
    assert states.grad[1, 2:].eq(0).all()
    assert states.grad[2].eq(0).all()


def test_documents_share_rows_without_waste():
    batch = collate_documents([(each, 0) for each in DOCUMENTS])
    tokens, lengths, places, counts = batch.inputs
    assert lengths.tolist() == [0, 1, 2, 2, 3, 5]
    assert tokens.shape == (6, 5)
    assert counts.tolist() == [3, 1, 0, 2]
    assert [lengths[row].tolist() for row in places] == [[2, 5, 1], [3, 0, 0], [0, 0, 0], [0, 2, 0]]
    with pytest.raises(ValueError, match="got no examples"):
        collate_documents([])


def test_word_dropout():
    """Words become the unknown one in training alone, by torch's random state; padding stays."""
    tokens = torch.arange(40_000).view(200, 200) % 8 + UNKNOWN
    tokens[:, 150:] = PAD
    drop = WordDropout(0.25)
    torch.manual_seed(1)
    first, second = drop(tokens), drop(tokens)
    torch.manual_seed(1)
    assert torch.equal(drop(tokens), first)
    assert not torch.equal(first, second)
    assert first[:, 150:].eq(PAD).all()
    changed = first != tokens
    assert first[changed].eq(UNKNOWN).all()
    assert changed[tokens > UNKNOWN].float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert torch.equal(drop.eval()(tokens), tokens)


def test_sentences_are_read_with_little_padding():
    dice = Random(5)
    documents = [
        [[4] * min(60, max(1, round(dice.lognormvariate(3.0, 0.6)))) for _ in range(dice.randint(5, 60))]
        for _ in range(20)
    ]
    batch = collate_documents([(each, 0) for each in documents])
    words = batch.size
    assert words < 0.5 * batch.inputs[0].numel()
    read: list[int] = []
    model = Han(11, 2, HanConfig(**HAN)).eval()
    model.words.reader.register_forward_pre_hook(lambda _, given: read.append(given[0].shape[:2].numel()))
    model(*batch.inputs)
    assert words > 0.75 * sum(read)


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("lengths", [[], [0], [3, 0, 2], [0, 0, 1, 2, 2, 5, 5, 7, 7, 7, 7]])
def test_rows_read_in_parts_are_read_as_ever(parts: int, lengths: list[int]):
    reader = SequenceReader("gru", 5, 3).double()
    inputs = torch.randn(len(lengths), max(lengths, default=0), 5, dtype=torch.float64)
    counts = torch.tensor(lengths, dtype=torch.int64)
    expected, _ = reader(inputs, counts)
    found = read_in_parts(reader, inputs, counts, parts)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


COMPARED = RocktaschelConfig(width=3, score="dot", compare=True)


@pytest.mark.parametrize("reading", [ReadOnce(3), ReadByWord(RocktaschelConfig(width=3), 3), ReadByWord(COMPARED, 3)])
def test_derivatives_of_readings(reading: ReadOnce | ReadByWord):
    premise, words, last = (torch.randn(2, *size, 3, dtype=torch.float64) for size in ((4,), (5,), ()))
    lengths, of_words = torch.tensor([4, 2]), torch.tensor([5, 3])

    def read(premise: Tensor, words: Tensor, last: Tensor) -> Tensor:
        return reading.double()(Memory.of(premise, lengths), words, last, of_words)

    assert torch.autograd.gradcheck(read, tuple(each.requires_grad_() for each in (premise, words, last)))


def test_words_read_by_products_and_comparisons():
    """The equations of the docstring, a word at a time, for one pair."""
    reading = ReadByWord(COMPARED, 4).double()
    queries, carried, compared = reading.queries, reading.carried, reading.compared
    assert queries is not None
    assert compared is not None
    premise, words = (torch.randn(length, 4, dtype=torch.float64) for length in (5, 3))
    read = torch.zeros(3, dtype=torch.float64)
    reads = [read]
    for word in words:
        context = (premise @ (word + queries.weight @ read)).softmax(0) @ premise
        parts = torch.cat([word, context, word - context, word * context])
        read = (compared.weight @ parts + compared.bias).relu() + (carried.weight @ read).tanh()
        reads.append(read)
    expected = torch.cat([read, torch.stack(reads).amax(0)])
    result = reading(Memory.of(premise[None], torch.tensor([5])), words[None], words[:1], torch.tensor([3]))
    torch.testing.assert_close(result[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("option", [{"score": "dot"}, {"compare": True}])
def test_comparisons_are_word_by_word(option: dict[str, Any]):
    with pytest.raises(InputError, match="need reading: word-by-word"):
        RocktaschelConfig(reading="last", **option)
