"""The Python in README and guide runs; each page is one session from top to bottom. Relative links lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.code.tree import ROOT

GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
WRITTEN = [*ROOT.glob("*.md"), *(p for p in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in p.parts)]
BLOCK = re.compile(r"^```python[ \t]*(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(text: str) -> list[tuple[int, str, str]]:
    """Line of the first statement, mark and code of each Python block."""
    return [(text.count("\n", 0, m.start("code")), m["mark"].strip(), m["code"]) for m in BLOCK.finditer(text)]


@pytest.mark.parametrize("path", [ROOT / "README.md", *GUIDE], ids=name)
def test_python_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": path.stem}
    for line, mark, code in blocks(path.read_text(encoding="utf-8")):
        assert mark in ("", "no-run"), f"{name(path)}:{line}: unknown mark {mark!r}"
        compiled = compile("\n" * line + code, str(path), "exec")
        if mark == "":
            exec(compiled, namespace)


def test_blocks_are_found():
    text = "a\n\n```python\nx = 1\n```\n\n```python no-run\ny\n```\n\n```sh\nls\n```\n"
    assert blocks(text) == [(3, "", "x = 1\n"), (7, "no-run", "y\n")]
    assert sum(len(blocks(path.read_text(encoding="utf-8"))) for path in GUIDE) > 0


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_relative_links_exist(path: Path):
    targets = [m["target"] for m in LINK.finditer(path.read_text(encoding="utf-8")) if ":" not in m["target"]]
    assert [target for target in targets if not (path.parent / target).exists()] == []
