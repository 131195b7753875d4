"""A module imports only from lower levels, or from its own directory at its own level (CONTRIBUTING.md, Layout)."""

import graphlib
import re

from tests.code.tree import ROOT, Module, imported, imports, modules, named

ROW = re.compile(r"^\| (\d) \| ((?:`\w+` ?)+)\|", re.M)
LEVELS = {
    name: int(number)
    for number, names in ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    for name in re.findall(r"\w+", names)
}
"""The level of each package, from the table in CONTRIBUTING.md."""
TOP = 10  # regard/__init__.py and __main__.py: the door, which nothing behind it opens
VOCABULARY = {"regard.errors", "regard.shapes"}  # words that every level shares, the lowest too; they import nothing


def level(name: str) -> int:
    part = name.split(".")[1:2]
    return TOP if part in ([], ["__main__"]) else LEVELS[part[0]]


def own(module: Module) -> list[str]:
    """The names of regard's modules that a module imports, at once or by a table of names."""
    names = [name for node in imports(module.tree) for name in imported(node, set(modules()))]
    names += [name for name, _ in named(module)]
    return [name for name in names if name.split(".")[0] == "regard"]


def top_part(name: str) -> str:
    """`regard.text.kinds` -> `text`; nothing for `regard` itself."""
    return name.split(".")[1] if "." in name else ""


def directory(name: str) -> str:
    """The package that a module lies in; of a package, itself."""
    return modules()[name].package if name in modules() else name


def allowed(module: Module, target: str) -> bool:
    """Whether the target is lower, or a sibling: of the same part, or of the same level and directory."""
    if target in VOCABULARY or level(target) < level(module.name) or top_part(target) == top_part(module.name):
        return True
    return level(target) == level(module.name) and directory(target) == module.package


def test_every_module_has_a_level():
    unknown = [name for name in modules() if top_part(name) not in {"", "__main__", *LEVELS}]
    assert modules()
    assert not unknown, f"give these a level in {__name__}: {unknown}"


def test_imports_point_downward():
    upward = [
        f"{name} (level {level(name)}) imports {target} (level {level(target)})"
        for name, module in modules().items()
        for target in own(module)
        if not allowed(module, target)
    ]
    assert not upward


def test_tables_of_names_are_read():
    assert "regard.models.luong" in own(modules()["regard.models.catalog"])
    assert "regard.tasks.meta_rl" in own(modules()["regard.tasks.catalog"])


def test_vocabulary_imports_nothing_of_ours():
    assert [name for name in VOCABULARY & set(modules()) if own(modules()[name])] == []


def test_imports_are_absolute():
    relative = [m.place(n) for m in modules().values() for n in imports(m.tree) if getattr(n, "level", 0)]
    assert relative == []


def test_imports_have_no_circle():
    graph = {name: set(own(module)) - {name} for name, module in modules().items()}
    assert list(graphlib.TopologicalSorter(graph).static_order())
