"""Labels as they are drawn, and the fonts that have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import font_manager

from regard.errors import InputError
from regard.pictures import text as fonts
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
    shown = [shorten_middle(label, 7) for label in ("1234567", "alphabet_01", "alphabet_02")]
    assert shown == ["1234567", "alp…_01", "alp…_02"]
    assert shorten_middle("\n" * 9, 4) == "⏎⏎…⏎"


def test_what_stands_upright_over_a_narrow_column():
    assert [stack_letters(label) for label in ("a", "注意", "ab", "注a", "")] == ["a", "注\n意", None, None, None]


def test_the_meaning_of_the_signs_that_are_among_the_labels():
    assert explain_signs(("a", "</s>"), ("b",)) == "∎ end of text"
    assert explain_signs(("<s>", "a"), ("a", "</s>")) == "∎ end of text, ▷ start of text"
    assert explain_signs(("<s>", "a")) == "▷ start of text"
    assert explain_signs(("·", "\n", "de: ∎")) == "∎ end of text, · space, ⏎ line break"
    assert explain_signs(("a",), ()) == ""


@pytest.fixture
def bundled_only(monkeypatch):
    """A machine that has no fonts but matplotlib's own."""
    own = [entry for entry in font_manager.fontManager.ttflist if "mpl-data" in entry.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)


@pytest.mark.usefixtures("bundled_only")
def test_latin_arabic_and_space_need_nothing_installed():
    assert fonts.choose_fonts(["Über", "مرحبا", "␣", ""]) == ["DejaVu Sans"]


@pytest.mark.usefixtures("bundled_only")
@pytest.mark.parametrize(
    ("label", "names"),
    [
        ("注", ("CJK UNIFIED IDEOGRAPH-6CE8 (U+6CE8)", "fonts-noto-cjk")),
        ("かな", ("HIRAGANA LETTER KA", "fonts-noto-cjk")),
        ("हिन्दी", ("DEVANAGARI", "fonts-noto-core")),
        ("\U0001fae0", ("U+1FAE0", "fonts-symbola")),
        ("🙂", ("SLIGHTLY SMILING FACE (U+1F642)", "fonts-symbola")),
    ],
)
def test_a_missing_script_is_named_with_what_to_install(label, names):
    with pytest.raises(InputError) as caught:
        fonts.choose_fonts(["plain", label])
    message = str(caught.value)
    assert all(name in message for name in names)
    assert ".html" in message
    assert "\n" not in message


@pytest.mark.usefixtures("bundled_only")
def test_a_font_installed_since_is_found(monkeypatch):
    kept = [entry for entry in font_manager.fontManager.ttflist if not entry.name.startswith("DejaVu")]
    path = font_manager.findfont("DejaVu Sans")  # upright and not bold: the others have no Arabic
    monkeypatch.setattr(font_manager.fontManager, "ttflist", kept)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [path])
    assert fonts.choose_fonts(["مرحبا"]) == ["DejaVu Sans"]
