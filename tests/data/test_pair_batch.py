import pytest
import torch

from regard.data.batches import collate
from regard.text.special import END, IGNORED, PAD, START

EXAMPLES = [([5, 6, 7], [8]), ([9], [10, 11]), ([], [])]


def test_layout_for_teacher_forcing():
    batch = collate(EXAMPLES)
    assert batch.source.tolist() == [[5, 6, 7, END], [9, END, PAD, PAD], [END, PAD, PAD, PAD]]
    assert batch.source_lengths.tolist() == [4, 2, 1]
    assert batch.target_in.tolist() == [[START, 8, PAD], [START, 10, 11], [START, PAD, PAD]]
    assert batch.target_out.tolist() == [[8, END, IGNORED], [10, 11, END], [END, IGNORED, IGNORED]]
    assert batch.target_lengths.tolist() == [2, 3, 1]
    assert batch.target_tokens == 6 == int((batch.target_out != IGNORED).sum())
    for tensor in (batch.source, batch.source_lengths, batch.target_in, batch.target_out, batch.target_lengths):
        assert tensor.dtype == torch.int64


def test_padding_to_a_multiple():
    batch = collate(EXAMPLES, multiple=3)
    assert batch.source.tolist() == [[5, 6, 7, END, PAD, PAD], [9, END, *[PAD] * 4], [END, *[PAD] * 5]]
    assert batch.source_lengths.tolist() == [4, 2, 1]
    assert batch.target_in.shape == batch.target_out.shape == (3, 3)
    assert batch.target_tokens == 6


def test_collate_leaves_the_examples_alone_and_refuses_none():
    source, target = [5, 7], [11]
    collate([(source, target)])
    assert (source, target) == ([5, 7], [11])
    with pytest.raises(ValueError, match="no examples"):
        collate([])


def test_moving_moves_every_tensor():
    moved = collate(EXAMPLES).to("meta")
    tensors = (moved.source, moved.source_lengths, moved.target_in, moved.target_out, moved.target_lengths)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.target_tokens == 6
