"""How heavy the project is and how plainly it is named, beside limits that only go down.

`python -m tests.code.measure` prints the table; with `--lower` it also lowers the limits to today's values.
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.code.tree import ROOT, Module, modules

LIMITS = Path(__file__).with_name("limits.json")
VAGUE_NAMES = frozenset(
    {
        *("each", "every", "some", "most", "more", "many", "few", "both", "one", "whole", "rest", "left", "own"),
        *("other", "others", "another", "these", "those", "mine", "theirs", "thing", "things", "stuff", "near"),
        *("found", "known", "seen", "shown", "given", "kept", "made", "told"),
        *("here", "there", "where", "what", "which", "who", "why", "how"),
    }
)
"""Names of variables that could hold anything."""
PLACE_WORDS = frozenset(
    {
        *("within", "beside", "apart", "between", "behind", "before", "after", "without", "around", "along", "among"),
        *("against", "above", "below", "together", "again", "already", "elsewhere", "otherwise", "inside", "outside"),
    }
)
"""Prepositions and adverbs, which name neither an action nor a thing."""
NOT_PARTICIPLES = frozenset({"need", "feed", "speed", "embed", "bed", "red", "shed", "seed", "succeed", "hundred"})
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def measure() -> dict[str, float]:
    """Return each measured quantity by its name."""
    package = list(modules().values())
    nodes = sum(count_nodes(module) for module in package)
    lines = sum(count_code_lines(module) for module in package)
    opaque = sum(1 for module in package for _ in opaque_names(module.tree, module.path.stem))
    return {
        "files in src": len(package),
        "syntax nodes in src": nodes,
        "syntax nodes per line of code": round(nodes / lines, 2),
        "opaque names per 10,000 lines": round(1e4 * opaque / lines, 1),
        "lines of C++": count_lines("src", ".cpp", ".h"),
        "lines of tests": count_lines("tests", ".py"),
        "lines of benchmarks": count_lines("benchmarks", ".py"),
    }


def count_nodes(module: Module) -> int:
    """Return the number of nodes in the module's syntax tree."""
    return sum(1 for _ in ast.walk(module.tree))


def count_code_lines(module: Module) -> int:
    """Return the number of lines with code: not blank, not a comment, not a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.path.read_text(encoding="utf-8")).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(module.tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def count_lines(folder: str, *endings: str) -> int:
    """Return the number of lines of all files of a folder that have one of the endings."""
    paths = [path for path in (ROOT / folder).rglob("*") if path.suffix in endings]
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def opaque_names(tree: ast.Module, file: str) -> Iterator[tuple[str, int]]:
    """Yield each name that does not say what it holds or does, with its line.

    These are functions named by a participle (`encoded`) or a preposition, variables and parameters named by a word
    that fits anything (`each`), and public functions and classes of one or two letters.
    """
    if file in PLACE_WORDS:
        yield file, 1
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if (is_participle(node.name) and not returns_bool(node)) or node.name.strip("_") in PLACE_WORDS:
                yield node.name, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node.id.strip("_") in VAGUE_NAMES:
                yield node.id, node.lineno
        elif isinstance(node, ast.arg) and node.arg.strip("_") in VAGUE_NAMES:
            yield node.arg, node.lineno
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and len(node.name.strip("_")) < 3:
            yield node.name, node.lineno


def is_participle(name: str) -> bool:
    """Return whether the first word of a name ends like a past participle."""
    first = name.strip("_").split("_")[0]
    looks_like_one = re.fullmatch(r"[a-z]{2,}ed", first) is not None and not first.endswith("eed")
    return looks_like_one and first not in NOT_PARTICIPLES


def returns_bool(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is a predicate."""
    return isinstance(function.returns, ast.Name) and function.returns.id == "bool"


def read_limits() -> dict[str, float]:
    """Read the limits."""
    return json.loads(LIMITS.read_text(encoding="utf-8"))


def main(lower: bool) -> None:
    """Print the table; with `lower`, also write values below their limits as the new limits."""
    values, limits = measure(), read_limits() if LIMITS.exists() else {}
    for name, value in values.items():
        print(f"{name:32}{value:>12,}   at most {limits.get(name, value):,}")
    if lower:
        lowered = {name: min(value, limits.get(name, value)) for name, value in values.items()}
        LIMITS.write_text(json.dumps(lowered, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main("--lower" in sys.argv[1:])
