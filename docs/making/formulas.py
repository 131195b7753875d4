"""A Sphinx extension: formulas as MathML, which browsers draw by themselves, without a script and without a network."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.writers.html5 import HTML5Translator


def drawn(node: nodes.Element, *, block: bool) -> str:
    """Return a formula. Raises ExtensionError for a command that is not known."""
    try:
        return tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        raise ExtensionError(f"{node.source}:{node.line}: {error} in {node.astext()!r}") from error


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Return a formula in a line."""
    writer.body.append(drawn(node, block=False))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """One on a separate line, which scrolls in a narrow window."""
    writer.body.append(f'<div class="formula">{drawn(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension to Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
