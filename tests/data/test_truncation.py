"""Texts that are longer than a model reads: refused, or cut and counted."""

import pytest

from regard.data.tokens import Limit, count_together, limit_lengths, report_cut
from regard.errors import InputError

LIMIT = Limit(5, 2, "model.context")
ADVICE = "cut to the model's maximum of 5 tokens, as in training; shorten"


def test_row_18_a_sequence_longer_than_the_maximum():
    sequences, places = [[1, 2, 3], [4] * 5, [], [6] * 7], ["f:1", "f:2", "f:3", "f:4"]
    assert limit_lengths(Limit(7, 0, "model.context"), sequences, places) == (sequences, 0)
    with pytest.raises(InputError, match=r"f:2: 5 tokens and 2 special tokens, but the model takes 5; .*truncate=true"):
        limit_lengths(LIMIT, sequences, places)


def test_row_18_truncation_is_counted():
    sequences = [[1, 2, 3], [4, 5, 6, 7], [], [8, 9, 10, 11, 12]]
    limited, cut = limit_lengths(LIMIT, sequences, ["a", "b", "c", "d"], truncate=True)
    assert (limited, cut) == ([[1, 2, 3], [4, 5, 6], [], [8, 9, 10]], 2)
    assert len(sequences[1]) == 4


def test_row_18_one_line_of_several_calls(caplog: pytest.LogCaptureFixture):
    report_cut(LIMIT, 0, 3)
    assert not caplog.messages
    report_cut(LIMIT, 1, 1)
    with count_together():
        for cut in (1, 0, 2):
            report_cut(LIMIT, cut, 7)
    with count_together(logged=False):
        report_cut(LIMIT, 1, 1)
    assert caplog.messages == [
        f"the text was {ADVICE} it, or train with a larger model.context",
        f"3 of 21 texts were {ADVICE} them, or train with a larger model.context",
    ]
