import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.pictures.labels import columns, distinct, drawable, meanings, stacked, standing, visible


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        (" ", "␣"),
        ("  ", "␣␣"),
        (" the", "␣the"),
        ("a b ", "a b␣"),
        ("", ""),
        ("\n\t", "⏎⇥"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800", "\\ud800"),
        ("\x00", "\\x00"),
        ("\U000f0000", "\\U000f0000"),
        ("क्\u200dष", "क्\u200dष"),
        ("<s>", "▷"),
        ("</s>", "∎"),
        ("<s>.", "<s>."),
    ],
)
def test_visible(label, shown):
    assert visible(label) == shown


@given(st.text(st.characters()))
def test_visible_can_be_written_and_stays_one_line(label):
    shown = visible(label)
    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert visible(shown) == shown


def test_drawable_drops_selectors_and_cuts():
    assert drawable("❤\ufe0f") == "❤"
    assert drawable("x" * 40) == "x" * 40
    assert drawable("x" * 41) == "x" * 39 + "…"


def test_distinct_cuts_in_the_middle():
    assert [distinct(label, 7) for label in ("1234567", "alphabet_01", "alphabet_02")] == [
        "1234567",
        "alp…_01",
        "alp…_02",
    ]
    assert distinct("\n" * 9, 4) == "⏎⏎…⏎"


def test_columns():
    assert (columns("ab"), columns("注意"), columns("e\u0301")) == (2, 4, 1)


def test_what_stands_upright_over_a_narrow_column():
    assert [stacked(label) for label in ("a", "注意", "ab", "注a", "")] == ["a", "注\n意", None, None, None]


def test_the_meaning_of_the_signs_that_are_among_the_labels():
    assert meanings(("a", "</s>"), ("b",)) == "∎ the end of a text"
    assert meanings(("<s>", "a"), ("a", "</s>")) == "∎ the end of a text, ▷ the start of a text"
    assert meanings(("<s>", "a")) == "▷ the start of a text"
    assert meanings(("·", "\n", "de: ∎")) == "∎ the end of a text, · a blank, ⏎ a line break"
    assert meanings(("a",), ()) == ""


def test_a_line_above_a_column_stands_on_the_base_line():
    assert [standing(label) for label in (".", "'", "g", "注\n意")] == ["baseline"] * 3 + ["bottom"]
