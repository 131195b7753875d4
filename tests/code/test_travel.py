"""A reader follows a call through few files; `python -m tests.code.travel` prints how many."""

import pytest

from tests.code import travel

MOST = {"attend": 7, "a GPT-2 forward pass": 16, "a BERT forward pass": 15, "predict, one text": 68}
"""Files that each may enter. The aims are 4, 7, 7 and 30."""


@pytest.mark.parametrize("name", MOST)
def test_a_call_enters_few_files(name: str):
    found = travel.JOURNEYS[name]()
    assert 0 < len(found.files) <= MOST[name], sorted(found.files)
