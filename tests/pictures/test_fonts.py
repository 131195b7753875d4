import pytest
from matplotlib import font_manager

from regard.errors import InputError
from regard.pictures import text as fonts


@pytest.fixture
def bundled_only(monkeypatch):
    """A machine that has no fonts but matplotlib's own."""
    own = [entry for entry in font_manager.fontManager.ttflist if "mpl-data" in entry.fname]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)


@pytest.mark.usefixtures("bundled_only")
def test_latin_arabic_and_space_need_nothing_installed():
    assert fonts.choose_fonts(["Über", "مرحبا", "␣", ""]) == [["DejaVu Sans"]] * 4


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
    assert fonts.choose_fonts(["مرحبا"]) == [["DejaVu Sans"]]


def test_one_font_draws_a_whole_label_where_one_can(monkeypatch):
    has = {"First": set("ab"), "Second": set("bc")}
    monkeypatch.setattr(fonts, "_cover", lambda needed: (has, set()))
    assert fonts.choose_fonts(["ab", "bc", "abc"]) == [["First"], ["Second"], ["First", "Second"]]
