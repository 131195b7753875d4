"""The sizes of files and functions beside their budgets: `python -m tests.code.sizes` prints them."""

from dataclasses import dataclass
from statistics import median

from tests.code.tree import ROOT, length, modules, parameters

TINY_LINES, TINY_SHARE = 40, 0.15  # so many files at most may be shorter
FILE_LINES, FILE_MEDIAN, FUNCTION_LINES, PARAMETERS = 299, 150, 39, 7


@dataclass(frozen=True)
class Size:
    """One measured thing: how large, and where."""

    value: int
    place: str


def files() -> list[Size]:
    """Lines of each module; an `__init__.py` counts for the maximum, not the median, so it is listed elsewhere."""
    return [Size(m.lines, str(m.path.relative_to(ROOT))) for m in modules().values() if m.path.name != "__init__.py"]


def inits() -> list[Size]:
    """Lines of each `__init__.py`."""
    return [Size(m.lines, str(m.path.relative_to(ROOT))) for m in modules().values() if m.path.name == "__init__.py"]


def functions() -> list[Size]:
    """Lines of each function, docstring included."""
    return [Size(length(f), f"{m.place(f)} {f.name}") for m in modules().values() for f in m.functions()]


def signatures() -> list[Size]:
    """Parameters of each function."""
    return [Size(parameters(f), f"{m.place(f)} {f.name}") for m in modules().values() for f in m.functions()]


def over(sizes: list[Size], budget: int) -> list[str]:
    """What is larger than its budget, one line each."""
    return [f"{size.place}: {size.value} > {budget}" for size in sizes if size.value > budget]


def row(name: str, sizes: list[Size], budget: str) -> str:
    """One line of the table; a dash where there is nothing to measure yet."""
    if not sizes:
        return f"{name:24}{'-':>8}{'-':>8}   {budget}"
    largest = max(sizes, key=lambda size: size.value)
    middle = median(size.value for size in sizes)
    return f"{name:24}{middle:>8g}{largest.value:>8}   {budget:32}{largest.place}"


def table() -> str:
    """Median, maximum, budget and the largest, a line for each kind of size."""
    return "\n".join(
        [
            f"{len(modules())} files, {sum(m.lines for m in modules().values())} lines in src/regard",
            f"{'':24}{'median':>8}{'maximum':>8}   {'budget':32}largest",
            row("lines in a file", files(), f"median {FILE_MEDIAN}, maximum {FILE_LINES}"),
            row("lines in a function", functions(), f"maximum {FUNCTION_LINES}"),
            row("parameters", signatures(), f"maximum {PARAMETERS}"),
        ]
    )


if __name__ == "__main__":
    print(table())
