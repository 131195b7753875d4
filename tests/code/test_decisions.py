"""Notes in docs/decisions: one number each, a status, and links to notes that exist."""

import re

import pytest

from tests.code.tree import ROOT

NOTES = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
STATUS = re.compile(r"\A# (\d+)\. [^\n]+\n\n\*\*Status\.\*\* (Accepted|Superseded by|Rejected|Withdrawn)")
LINK = re.compile(r"\]\((\d{4}-[\w-]+\.md)\)")


def test_numbers_are_unique():
    numbers = [note.name[:4] for note in NOTES]
    assert len(set(numbers)) == len(numbers) > 40


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.name[:4])
def test_a_note_has_its_number_a_status_and_links_that_exist(note):
    text = note.read_text(encoding="utf-8")
    status = STATUS.match(text)
    assert status, "begin with `# 12. Title`, an empty line and `**Status.** Accepted.` or what supersedes it"
    assert int(status[1]) == int(note.name[:4])
    assert [link for link in LINK.findall(text) if not (note.parent / link).is_file()] == []
