"""A reader follows a call through few files; `python -m tests.code.travel` prints how many."""

import pytest

from tests.code import travel

MOST = {"attend": 12, "a GPT-2 forward pass": 15, "a BERT forward pass": 14, "predict, one text": 67}
"""Files that each may enter. The aims are 12, 10, 10 and 40."""


@pytest.mark.parametrize("name", MOST)
def test_a_call_enters_few_files(name: str):
    found = travel.JOURNEYS[name]()
    assert 0 < len(found.files) <= MOST[name], sorted(found.files)
