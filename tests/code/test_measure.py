"""The project gets no heavier, and its names no vaguer."""

import ast

import pytest

from tests.code import measure


def test_no_value_exceeds_its_limit():
    limits = measure.read_limits()
    exceeded = {name: value for name, value in measure.measure().items() if value > limits[name]}
    assert not exceeded, f"above tests/code/limits.json: {exceeded}; delete or rename something"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def encoded(x): ...", ["encoded"]),
        ("def encode(x): ...", []),
        ("def ended(x) -> bool: ...", []),
        ("def between(x): ...", ["between"]),
        ("def embed(x): ...", []),
        ("lengths = [len(each) for each in rows]", ["each"]),
        ("def count(found): ...", ["found"]),
        ("class Ab: ...", ["Ab"]),
    ],
)
def test_opaque_names(code: str, names: list[str]):
    assert [name for name, _ in measure.opaque_names(ast.parse(code), "module")] == names


def test_code_lines_leave_out_documentation(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('"""Two\nlines."""\n\n# A comment.\nx = [\n    1,\n]\n\n\ndef f():\n    """Do."""\n    return x\n')
    module = measure.Module("module", path, ast.parse(path.read_text()), 12)
    assert measure.count_code_lines(module) == 5
