"""Records in docs/decisions: one number each, a status, the numbers of records that were merged, links that exist."""

import re

from tests.code.tree import ROOT

STATUS = re.compile(r"\A# (\d+)\. [^\n]+\n\n\*\*Status\.\*\* Accepted\.(?: Replaces (?P<replaced>[\d, and]+))?")
LINK = re.compile(r"\]\((\d{4}-[\w-]+\.md)\)")


def test_records_are_few_and_no_number_is_lost():
    notes, numbers = sorted((ROOT / "docs" / "decisions").glob("0*.md")), []
    for note in notes:
        text = note.read_text(encoding="utf-8")
        status = STATUS.match(text)
        assert status, f"{note}: begin with `# 12. Title`, an empty line and `**Status.** Accepted.`"
        assert int(status[1]) == int(note.name[:4])
        assert [link for link in LINK.findall(text) if not (note.parent / link).is_file()] == []
        numbers += map(int, [status[1], *re.findall(r"\d+", status["replaced"] or "")])
    assert len(notes) <= 25
    assert len(numbers) == len(set(numbers)) >= 64
