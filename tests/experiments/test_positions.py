"""Encodings of positions against the properties of a good one."""

import pytest

from regard.experiments.lengths import PROPERTIES, check_properties, list_encodings

MISSING = {
    "none": {"unique"},
    "fraction of the length": {"same offsets"},
    "integers": {"bounded"},
    "sinusoidal": set(),
    "learned": {"any length"},
}


@pytest.mark.parametrize("name", MISSING)
def test_each_encoding_lacks_what_it_lacks(name: str):
    has = check_properties(list_encodings()[name])
    assert tuple(has) == PROPERTIES
    assert {each for each in PROPERTIES if not has[each]} == MISSING[name]


def test_all_encodings_are_compared():
    assert set(list_encodings()) == set(MISSING)
