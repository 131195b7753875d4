"""The project's own files, parsed once: what the tests of its structure read."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "regard"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the package: its dotted name, path and syntax tree."""

    name: str
    path: Path
    tree: ast.Module
    lines: int

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """The dotted name of the directory that the file lies in."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    def place(self, node: ast.stmt | ast.expr | ast.excepthandler) -> str:
        """`path:line`, as an editor opens it."""
        return f"{self.path.relative_to(ROOT)}:{node.lineno}"

    def functions(self) -> Iterator[Function]:
        """Every function and method, nested ones too."""
        return (node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@functools.cache
def modules() -> dict[str, Module]:
    """Every module of src/regard by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, path, ast.parse(text, str(path)), len(text.splitlines()))
    return found


def imported(node: ast.Import | ast.ImportFrom, known: set[str]) -> list[str]:
    """Dotted names that a statement imports; `from a import b` is `a.b` where that is a module of `known`, else `a`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]


@functools.cache
def imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Every import statement below a node, those inside functions too."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def named(module: Module) -> Iterator[tuple[str, str]]:
    """The modules and classes of every table of names, `Registry("package", {"name": "module:class"})`."""
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Name(id="Registry"), args=[ast.Constant(value=package), ast.Dict(values=homes)]):
                for home in homes:
                    if not isinstance(home, ast.Constant):
                        continue
                    file, _, attribute = ast.literal_eval(home).partition(":")
                    yield f"{package}.{file}", attribute


def length(function: Function) -> int:
    """Lines from `def` to the end, the docstring included."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    """Number of parameters, `self`, `cls`, `*args` and `**kwargs` left out."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in named)
