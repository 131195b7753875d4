"""Formulas become MathML, or the build stops with the place of the error."""

import pytest
from docutils import nodes
from sphinx.errors import ExtensionError

from docs.making.formulas import drawn


def test_a_formula_is_mathml():
    line = drawn(nodes.math("", r"\frac{q \cdot k}{\sqrt d}"), block=False)
    assert line.startswith("<math")
    assert "<mfrac>" in line
    assert 'display="block"' not in line
    assert 'display="block"' in drawn(nodes.math_block("", "a_i"), block=True)


def test_an_unknown_command_names_its_place():
    node = nodes.math("", r"\unheardof x")
    node.source, node.line = "page.md", 7
    with pytest.raises(ExtensionError, match=r"page\.md:7: .*unheardof"):
        drawn(node, block=False)
