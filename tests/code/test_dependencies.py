"""Imported packages are declared in pyproject.toml, and declared packages are pinned in constraints.txt."""

import importlib.metadata
import re
import sys
import tomllib

from tests.code.tree import ROOT, imported, imports, modules

BROUGHT = {"triton", "pydantic_core"}  # by PyTorch's builds for GPUs, and by pydantic
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def plain(requirement: str) -> str:
    """`Py_YAML[x]>=6` -> `py-yaml`."""
    name = re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    extras = PROJECT["optional-dependencies"].values()
    return {plain(r) for group in [PROJECT["dependencies"], *extras] for r in group} - {PROJECT["name"]}


def test_every_import_is_declared():
    packages = importlib.metadata.packages_distributions()
    ours = {"regard", *BROUGHT, *sys.stdlib_module_names}
    missing = [
        f"{module.place(node)} {top}"
        for module in modules().values()
        for node in imports(module.tree)
        for top in {name.split(".")[0] for name in imported(node, set(modules()))} - ours
        if not {plain(name) for name in packages.get(top, [top])} & declared()
    ]
    assert missing == []


def test_every_dependency_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    # test_constraints.py compares the rest with what is installed
    assert {plain(pin) for pin in pins} >= declared()
