"""Pages with code: their Python blocks, the pictures that these draw, and running them."""

import re
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^```python[ \t]*(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"!\[(?P<text>(?:[^][]|\[[^][]*\])*)\]\((?P<name>[\w-]+\.png)\)")


class Block(NamedTuple):
    """Line before the first statement, mark behind `python`, and code."""

    line: int
    mark: str
    code: str


def blocks(text: str) -> list[Block]:
    """Return the Python blocks of a page."""
    return [Block(text.count("\n", 0, m.start("code")), m["mark"].strip(), m["code"]) for m in BLOCK.finditer(text)]


def drawn(path: Path, text: str) -> list[str]:
    """Names of the pictures that a page shows and that lie nowhere: its code draws them."""
    names = dict.fromkeys(m["name"] for m in IMAGE.finditer(text))
    return [name for name in names if not (path.parent / name).exists()]


def run(path: Path, text: str, folder: Path) -> int:
    """Run the blocks of a page as one session from top to bottom, in a folder; those marked `no-run` are left out.

    Returns the number of those that ran.

    Raises:
        ValueError: a block has another mark, or a picture that the page shows was not drawn.
    """
    namespace: dict[str, object] = {"__name__": path.stem}
    count = 0
    with chdir(folder):
        for line, mark, code in blocks(text):
            if mark not in ("", "no-run"):
                raise ValueError(f"{path}:{line}: unknown mark {mark!r}; expected none, or no-run")
            compiled = compile("\n" * line + code, str(path), "exec")
            if not mark:
                exec(compiled, namespace)
                count += 1
    if missing := [name for name in drawn(path, text) if not (folder / name).exists()]:
        raise ValueError(f"{path}: shows {', '.join(missing)}, which neither lies beside it nor is drawn by its code")
    return count
