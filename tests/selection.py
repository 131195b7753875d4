"""Which tests `make test` runs: every value of every parameter once, nothing that takes long, no training to the end.

`make test-all` runs all of them. A test that is left out of `make test` carries the marker `thorough`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest
import torch

THOROUGH_FOLDERS = frozenset({"benchmarks", "browser", "fuzz", "learning", "plugin", "witness"})
"""Folders of tests that start browsers and processes, train to convergence or try thousands of inputs."""

Value = tuple[str, object]
"""A parameter and one of its values; objects without a plain value are told apart by identity."""


def mark_thorough(items: Sequence[pytest.Item]) -> None:
    """Mark the tests of thorough folders, and parameter combinations that add no new value of any parameter."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    for function_items in functions.values():
        chosen = each_choice([parameter_values(item) for item in function_items])
        for index, item in enumerate(function_items):
            folder = item.nodeid.split("/")[1]
            if (
                folder in THOROUGH_FOLDERS
                or index not in chosen
                or item.get_closest_marker("slow")
                or shares_training(item)
            ):
                item.add_marker(pytest.mark.thorough)


def shares_training(item: pytest.Item) -> bool:
    """Whether a test of a task uses a run that the tests of its file share, which is trained until it has learned."""
    fixtures = getattr(item, "_fixtureinfo", None)
    if item.nodeid.split("/")[1] != "tasks" or fixtures is None:
        return False
    return any(definition.scope == "module" for chain in fixtures.name2fixturedefs.values() for definition in chain)


def parameter_values(item: pytest.Item) -> frozenset[Value]:
    """Return the values of a test's parameters; an empty set for a test without any."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return frozenset()
    plain = (str, int, float, bool, type(None), torch.dtype)
    return frozenset(
        (name, (type(value), value) if isinstance(value, plain) else id(value))
        for name, value in callspec.params.items()
    )


def each_choice(cases: Sequence[Iterable[Value]]) -> set[int]:
    """Choose few cases in which every value occurs at least once.

    Args:
        cases: The values of each case.

    Returns:
        The indices of the chosen cases; all of them if none has values.
    """
    missing = {value for case in cases for value in case}
    if not missing:
        return set(range(len(cases)))
    chosen = set()
    while missing:
        index = max(range(len(cases)), key=lambda index: len(missing.intersection(cases[index])))
        chosen.add(index)
        missing.difference_update(cases[index])
    return chosen
