"""Blanks are at the paper's positions, and the same for the same seed and epoch."""

from collections import Counter
from itertools import product

import pytest
import torch

from regard.errors import InputError
from regard.tasks.masked_language_model.config import HIDDEN, REPLACED, MaskedTexts, Masking, pack
from regard.text.special import END, MASK, PAD, START

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
    assert [texts.length(0, example) for example in range(len(texts))] == batch.lengths.tolist()
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
        ([[[7, 8]], [[]]], 37, "has 1 documents with text in them; expected two documents"),
        ([[[7, 8]], [[9]]], 4, "context is 4, too short"),
    ],
)
def test_too_little_is_refused(documents: list, context: int, message: str):
    with pytest.raises(InputError, match=message):
        MaskedTexts(documents, SIZE, Masking(), context, paired=True, seed=0)
