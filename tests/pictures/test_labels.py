import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.pictures.text import (
    explain_signs,
    shorten,
    shorten_middle,
    show_invisible,
    stack_letters,
)


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
    assert show_invisible(label) == shown


@given(st.text(st.characters()))
def test_visible_can_be_written_and_stays_one_line(label):
    shown = show_invisible(label)
    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert show_invisible(shown) == shown


def test_drawable_drops_selectors_and_cuts():
    assert shorten("❤\ufe0f") == "❤"
    assert shorten("x" * 40) == "x" * 40
    assert shorten("x" * 41) == "x" * 39 + "…"


def test_distinct_cuts_in_the_middle():
    assert [shorten_middle(label, 7) for label in ("1234567", "alphabet_01", "alphabet_02")] == [
        "1234567",
        "alp…_01",
        "alp…_02",
    ]
    assert shorten_middle("\n" * 9, 4) == "⏎⏎…⏎"


def test_what_stands_upright_over_a_narrow_column():
    assert [stack_letters(label) for label in ("a", "注意", "ab", "注a", "")] == ["a", "注\n意", None, None, None]


def test_the_meaning_of_the_signs_that_are_among_the_labels():
    assert explain_signs(("a", "</s>"), ("b",)) == "∎ end of text"
    assert explain_signs(("<s>", "a"), ("a", "</s>")) == "∎ end of text, ▷ start of text"
    assert explain_signs(("<s>", "a")) == "▷ start of text"
    assert explain_signs(("·", "\n", "de: ∎")) == "∎ end of text, · space, ⏎ line break"
    assert explain_signs(("a",), ()) == ""
