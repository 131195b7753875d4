"""Files of links, and the errors of wrong ones."""

import gzip
import json
from pathlib import Path

import pytest

from regard.data.pairs import read_gold, read_links
from regard.errors import InputError
from regard.maps.links import Gold


def test_pharaoh_lines(tmp_path: Path):
    path = tmp_path / "found"
    path.write_text("0-0 2-1\n\n1-1 1-1\n", encoding="utf-8")
    assert read_links(path) == [frozenset({(0, 0), (2, 1)}), frozenset(), frozenset({(1, 1)})]


def test_gold_lines(tmp_path: Path):
    path = tmp_path / "gold.gz"
    path.write_bytes(gzip.compress(b"0-0 2?1 3p4\n"))
    assert read_gold(path) == [Gold(frozenset({(0, 0)}), frozenset({(0, 0), (2, 1), (3, 4)}))]


def test_gold_json(tmp_path: Path):
    path = tmp_path / "gold.jsonl"
    records = [{"sure": [[0, 0]], "possible": [[1, 0]]}, {"sure": []}]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    assert read_gold(path) == [
        Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 0)})),
        Gold(frozenset(), frozenset()),
    ]


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("found", "0-0 1:2", "found:1: got '1:2'; expected links such as 3-5"),
        ("found", "0?0", "found:1: got '0?0'; expected links such as 3-5"),
        ("gold", "-1-0", "gold:1: got '-1-0'; expected links such as 3-5 or 3?5 or 3p5"),
        ("gold.jsonl", "{", "gold.jsonl:1: has no links ("),
        ("gold.jsonl", "[]", "gold.jsonl:1: has no links ("),
        ("gold.jsonl", '{"sure": [[0]]}', "gold.jsonl:1: has no links ("),
        ("gold.jsonl", '{"sure": [[0, -1]]}', "gold.jsonl:1: has no links (a negative"),
    ],
)
def test_what_is_no_link(name: str, line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(line, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        (read_links if name == "found" else read_gold)(name)
    assert str(caught.value).startswith(said)
