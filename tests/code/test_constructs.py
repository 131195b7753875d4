"""The tree avoids forbidden constructs."""

import ast
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.code.tree import ROOT, Module, imported, imports, modules

OPTIONAL = {
    *("PIL", "babel", "ctranslate2", "matplotlib", "onnxruntime", "tensorboard", "transformers", "triton"),
    *("starlette", "uvicorn", "prometheus_client"),
}
HEAVY = {*OPTIONAL, "accelerate", "importlib", "numpy", "pydantic_core", "sacrebleu", "tokenizers", "torch"}
"""Packages that take long to import; of importlib its metadata, which nearly every command can do without."""
DEFERRING = (
    "regard",
    "regard.cli",
    "regard.hub",
    "regard.hub.open_run",
    "regard.models.catalog",
    "regard.models.published",
    "regard.tasks.options",
)  # may import our own modules late, so that --help needs no torch, and a run no reader of published models
HOSTS = {
    "aclanthology.org",
    "arxiv.org",
    "doi.org",
    "download.pytorch.org",  # builds of torch without CUDA, for the instructions to install
    "example.com",
    "example.org",
    "git-lfs",  # how the first line of a pointer file begins
    "git-lfs.github.com",
    "github.com",
    "json-schema.org",
    "keepachangelog.com",
    "localhost",
    "semver.org",
    "www.apache.org",
    "www.w3.org",
}
MACHINE_PATH = re.compile(r"(?<![\w.\-/])/(?:work|root|home|opt|mnt|Users)(?:/|\b(?![\w]))")
URL = re.compile(r"https?://[^\s\"'<>)\]`]+")
TEXT = {".py", ".md", ".yaml", ".html", ".css", ".js", ".toml", ".txt", ".json"}


def everywhere() -> Iterator[tuple[Module, ast.AST]]:
    return ((module, node) for module in modules().values() for node in module.nodes)


def test_no_attic():
    attics = {"utils", "util", "helpers", "misc", "common"}
    assert [name for name in modules() if attics & set(name.split("."))] == []


@pytest.mark.parametrize("name", ["hasattr", "NotImplementedError"])
def test_no_such_name(name: str):
    assert [m.place(n) for m, n in everywhere() if isinstance(n, ast.Name) and n.id == name] == []


def test_no_broad_exception_is_swallowed():
    assert [m.place(n) for m, n in everywhere() if isinstance(n, ast.ExceptHandler) and swallows(n)] == []
    assert [m.place(n) for m, n in everywhere() if isinstance(n, ast.Call) and suppresses(n)] == []


def swallows(handler: ast.ExceptHandler) -> bool:
    """Whether a handler of everything neither raises nor does anything with the exception."""
    inside = [node for statement in handler.body for node in ast.walk(statement)]
    kept = any(isinstance(node, ast.Raise) for node in inside)
    used = any(isinstance(node, ast.Name) and node.id == handler.name for node in inside)
    return broad(handler.type) and not kept and not used


def suppresses(call: ast.Call) -> bool:
    return ast.unparse(call.func).endswith("suppress") and any(broad(argument) for argument in call.args)


def broad(kind: ast.expr | None) -> bool:
    names = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(name is None or ast.unparse(name) in ("Exception", "BaseException") for name in names)


@pytest.mark.parametrize(
    ("handler", "swallowed"),
    [
        ("except Exception: pass", True),
        ("except: return None", True),
        ("except (OSError, BaseException): pass", True),
        ("except Exception as error: return None", True),
        ("except Exception as error: return error", False),
        ("except Exception: close(); raise", False),
        ("except OSError: pass", False),
    ],
)
def test_the_check_for_swallowed_exceptions(handler: str, swallowed: bool):
    tree = ast.parse(f"def f():\n try:\n  g()\n {handler}")
    assert [swallows(node) for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)] == [swallowed]


def test_imports_inside_functions_defer_something_heavy():
    late = [
        f"{module.place(node)} {name}"
        for module in modules().values()
        for function in module.functions()
        for node in imports(function)
        for name in imported(node, set(modules()))
        if not may_be_late(module, name)
    ]
    assert late == []


def may_be_late(module: Module, name: str) -> bool:
    """Something heavy, a module of ours that needs something optional, or anything of ours behind a command."""
    if name.split(".")[0] != "regard":
        return name.split(".")[0] in HEAVY
    needed = {other.split(".")[0] for node in imports(modules()[name].tree) for other in imported(node, set())}
    return bool(needed & OPTIONAL) or module.name in DEFERRING or module.name.startswith("regard.cli.")


def files() -> list[str]:
    folders = [ROOT / folder for folder in ("src", "tests", "docs", ".ci")]
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix in TEXT or path.name == "run"]
    generated = {"_build", "reference", "__pycache__"}
    kept = [*paths, *ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.txt"), ROOT / "Makefile"]
    return sorted(
        str(p.relative_to(ROOT)) for p in kept if not generated & set(p.relative_to(ROOT).parts) and p.is_file()
    )


def lines() -> Iterator[tuple[str, str]]:
    for name in files():
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").split("\n"), 1):
            yield f"{name}:{number}", line


def test_nothing_is_left_to_do():
    marks = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
    assert [place for place, line in lines() if marks.search(line)] == []


def test_no_path_of_one_machine():
    assert [place for place, line in lines() if MACHINE_PATH.search(line)] == []


def test_the_check_for_machine_paths_can_fail():
    folder = "work"
    assert MACHINE_PATH.search(f"see /{folder}/x") is not None
    assert MACHINE_PATH.search(f"'/{folder}'") is not None
    assert MACHINE_PATH.search(f"frame/{folder}") is None


def test_addresses_are_of_papers_and_specifications():
    found = {(place, urlsplit(url).hostname) for place, line in lines() for url in URL.findall(line)}
    assert sorted((place, host) for place, host in found if host not in HOSTS) == []
