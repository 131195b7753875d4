"""The page that follows one text names files that the command really enters, most of them."""

import re

from tests.code import travel
from tests.code.tree import ROOT, SOURCE

PAGE = ROOT / "docs" / "guide" / "one-text.md"
ROW = re.compile(r"^\| `([\w/]+\.py)` \|", re.M)


def test_the_page_names_what_is_entered():
    named = ROW.findall(PAGE.read_text(encoding="utf-8"))
    entered = travel.predict().files
    assert len(named) > 20
    assert [name for name in named if name not in entered] == []
    assert len(named) == len(set(named))


def test_other_paths_exist():
    paths = re.findall(r"`([\w/]+\.py)`", PAGE.read_text(encoding="utf-8"))
    assert [path for path in paths if not (SOURCE / path).is_file()] == []
