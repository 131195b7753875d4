"""Blanks are at the paper's positions, and the same for the same seed and epoch."""

from collections import Counter
from itertools import pairwise, product

import pytest
import torch

from regard.data.batches import SpelledTexts, spell_vocabulary
from regard.errors import InputError
from regard.tasks.language_model.run import ConsecutiveWindows, ShuffledWindows, WindowBatch
from regard.tasks.masked_language_model.config import HIDDEN, REPLACED, MaskedTexts, Masking, pack
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END, IGNORED, MASK, PAD, START
from regard.text.words import TEXT_BEGINS, TEXT_ENDS, spell, spell_mark

SIZE = 307
GENERATOR = torch.Generator().manual_seed(5)
DOCUMENTS = [
    [torch.randint(MASK + 1, SIZE, (int(length),), generator=GENERATOR).tolist() for length in lengths]
    for lengths in torch.randint(1, 23, (41, 11), generator=GENERATOR)
]


def made(context: int = 37, *, paired: bool = True, seed: int = 3, **masking) -> MaskedTexts:
    return MaskedTexts(DOCUMENTS, SIZE, Masking(**masking), context, paired=paired, seed=seed)


def test_spans_hold_whole_sentences_where_they_fit():
    assert pack([[1, 2], [3], [4, 5, 6], [7], [8] * 9], 4) == [[1, 2, 3], [4, 5, 6, 7], [8] * 4, [8] * 4, [8]]


@pytest.mark.parametrize("paired", [True, False])
def test_texts_have_their_marks_and_fit(paired: bool):
    texts = made(paired=paired)
    batch = texts.batch(0, range(len(texts)))
    assert batch.lengths.max() <= 37
    assert (batch.tokens[:, 0] == START).all()
    rows = torch.arange(len(texts))
    assert (batch.tokens[rows, batch.lengths - 1] == END).all()
    assert ((batch.tokens == END).sum(1) == 1 + paired).all()
    assert ((batch.tokens == PAD) == (torch.arange(batch.tokens.shape[1]) >= batch.lengths[:, None])).all()
    assert batch.segments.max() == int(paired)
    assert (batch.follows is not None) == paired


@pytest.mark.parametrize("context", [37, 400])
def test_half_of_the_pairs_follow_and_the_others_are_of_another_document(context: int):
    """In documents that need many spans, and in such as would be one."""
    texts = made(context)
    follow = 0
    for epoch, example in product(range(1, 12), range(len(texts))):
        first, second, follows = texts.pair(epoch, example)
        document, place = texts.starts[example]
        assert first == texts.spans[document][place]
        if follows:
            assert second == texts.spans[document][place + 1]
        else:
            assert second not in texts.spans[document]
        follow += follows
    assert 0.44 < follow / (11 * len(texts)) < 0.56
    assert {place + 1 for document, place in texts.starts if document == 0} == set(range(1, len(texts.spans[0])))


def test_the_share_and_the_ways_of_blanks():
    texts = made(paired=False)
    batch = texts.batch(2, range(len(texts)))
    original = [[START, *texts.pair(2, example)[0], END] for example in range(len(texts))]
    flat = [index for row in original for index in row + [PAD] * (batch.tokens.shape[1] - len(row))]
    assert [flat[place] for place in batch.places.tolist()] == batch.expected.tolist()
    given = batch.tokens.flatten()
    untouched = torch.ones(len(flat), dtype=torch.bool)
    untouched[batch.places] = False
    assert (given == torch.tensor(flat))[untouched].all()
    ways = Counter(
        "hidden" if now == MASK else "kept" if now == before else "replaced"
        for now, before in zip(given[batch.places].tolist(), batch.expected.tolist(), strict=True)
    )
    count = len(batch.places)
    assert ways["hidden"] / count == pytest.approx(HIDDEN, abs=0.05)
    assert ways["replaced"] / count == pytest.approx(REPLACED, abs=0.04)
    assert count / sum(len(row) - 2 for row in original) == pytest.approx(0.15, abs=0.03)
    assert (given[batch.places] > END).all()


def test_the_same_epoch_has_the_same_blanks_and_the_next_has_others():
    first, again, later = (made().batch(epoch, range(9)) for epoch in (0, 0, 1))
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.places, again.places)
    assert first.tokens.shape != later.tokens.shape or not torch.equal(first.tokens, later.tokens)


def test_a_text_has_the_same_blanks_in_any_company():
    texts = made()
    alone, together = texts.batch(0, [5]), texts.batch(0, [2, 5])
    assert torch.equal(alone.tokens[0], together.tokens[1, : alone.tokens.shape[1]])


@pytest.mark.parametrize(
    ("documents", "context", "message"),
    [
        ([[[7, 8]], [[]]], 37, "has 1 documents with text in them; expected 2 or more"),
        ([[[7, 8]], [[9]]], 4, "context is 4, too short"),
    ],
)
def test_too_little_is_refused(documents: list, context: int, message: str):
    with pytest.raises(InputError, match=message):
        MaskedTexts(documents, SIZE, Masking(), context, paired=True, seed=0)


TOKENIZER = Tokenizer.train(TokenizerSettings("word"), ['"b, a" b a c'])


def test_characters_are_those_of_the_published_models():
    """Bytes, marks 258 and 259 around them, filler 260, marks 256 and 257 for whole texts; all shifted by one."""
    assert spell("Aé") == [259, 66, 196, 170, 260] + [261] * 45
    assert spell("") == [259, 260] + [261] * 48
    assert spell("x" * 60) == [259] + [121] * 48 + [260]
    assert spell_mark(TEXT_BEGINS) == [259, 257, 260] + [261] * 47
    assert spell_mark(TEXT_ENDS) == [259, 258, 260] + [261] * 47


def test_a_long_word_is_cut_between_bytes():
    assert spell("ééé", 5) == [259, 196, 170, 196, 260]


def test_each_word_is_told_once_from_each_side():
    texts = SpelledTexts(TOKENIZER, ["a b c", "", "a a a a"], 7, 2)
    batch = texts.batch(0, range(len(texts.parts)))
    a, b, c = (TOKENIZER.encode(word)[0] for word in "abc")
    wanted = [[2, a, b], [b, c, 3], [2, 3, IGNORED], [2, a, a], [a, a, a], [a, 3, IGNORED]]
    assert batch.tokens.tolist() == wanted
    assert batch.lengths.tolist() == [3, 3, 2, 3, 3, 2]
    assert batch.characters.shape == (6, 3, 7)
    assert batch.characters[1].tolist() == [spell("b", 7), spell("c", 7), spell_mark(TEXT_ENDS, 7)]
    assert not batch.characters[2, 2].any()


def test_an_unknown_word_keeps_its_characters():
    batch = SpelledTexts(TOKENIZER, ["zzz"], 7, 5).batch(0, [0])
    assert batch.tokens.tolist() == [[2, 1, 3]]
    assert batch.characters[0, 1].tolist() == spell("zzz", 7)


def test_no_text():
    with pytest.raises(InputError, match="there is no text"):
        SpelledTexts(TOKENIZER, [], 7, 2)


def test_a_vocabulary():
    found = spell_vocabulary(TOKENIZER, 7)
    assert found.shape == (TOKENIZER.size, 7)
    assert not found[0].any()
    assert found[2].tolist() == spell_mark(TEXT_BEGINS, 7)
    assert found[TOKENIZER.encode("b")[0]].tolist() == spell("b", 7)
    assert found[TOKENIZER.encode("b, a")[1]].tolist() == spell(",", 7)


TOKENS = torch.arange(211)


def batches(windows: ShuffledWindows | ConsecutiveWindows, epoch: int) -> list[WindowBatch]:
    return [windows.batch(epoch, examples) for examples in windows.batches(epoch)]


@pytest.mark.parametrize(
    "windows", [ShuffledWindows(TOKENS, 7, 3, 1), ConsecutiveWindows(TOKENS, 7, 3, 1)], ids=["any", "row"]
)
def test_every_token_is_expected_at_most_once_and_follows_what_is_given(windows: ShuffledWindows | ConsecutiveWindows):
    for epoch in range(5):
        found = batches(windows, epoch)
        expected = torch.cat([batch.expected.flatten() for batch in found])
        assert len(expected.unique()) == len(expected) > 190
        for batch in found:
            assert torch.equal(batch.expected, batch.inputs + 1)
        assert list(windows.batches(epoch)) == list(windows.batches(epoch))


def test_epochs_are_cut_at_different_places():
    starts = {batches(ConsecutiveWindows(TOKENS, 7, 3, 1), epoch)[0].inputs[0, 0].item() for epoch in range(20)}
    assert len(starts) > 3
    assert {batches(ShuffledWindows(TOKENS, 7, 3, seed), 0)[0].inputs[0, 0].item() for seed in range(9)} != {0}


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_each_process_reads_its_own_parts_in_order(processes: int):
    windows = ConsecutiveWindows(TOKENS, 5, 2, 1, processes)
    found = batches(windows, 0)
    assert len(found) % processes == 0
    for rank in range(processes):
        own = found[rank::processes]
        assert [batch.fresh for batch in own] == [True] + [False] * (len(own) - 1)
        for before, after in pairwise(own):
            assert torch.equal(after.inputs[:, 0], before.expected[:, -1])
        assert all(batch.inputs.shape == (2, 5) for batch in own[:-1])


def test_shuffled_windows_stand_alone():
    windows = ShuffledWindows(TOKENS, 7, 3, 1)
    found = batches(windows, 0)
    assert all(batch.fresh for batch in found)
    assert found[0].inputs[0, 0] != windows.divide(0)[0]
    order = [int(batch.inputs[0, 0]) for batch in found]
    assert order != sorted(order)


def test_text_of_exactly_one_batch_is_enough():
    for kind in (ShuffledWindows, ConsecutiveWindows):
        (batch,) = batches(kind(torch.arange(22), 7, 3, 1), 4)
        assert batch.inputs.shape == (3, 7)
