"""Documentation: MyST pages by hand, the reference from docstrings. Build with `make docs`."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "regard"
sys.path[:0] = [str(SOURCE.parent), str(ROOT)]

project = "regard"
copyright = "the regard authors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.apidoc",
    "docs.making.aims",
    "docs.making.experiments",
    "docs.making.formulas",
    "docs.making.live",
    "docs.making.names",
    "docs.making.pictures",
    "docs.making.settings",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"regard {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_build/live"]
html_math_renderer = "mathml"
html_scaled_image_link = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

apidoc_modules = [
    {
        "path": str(SOURCE),
        "destination": "reference",
        "exclude_patterns": [str(SOURCE / "**" / "__main__.py"), str(SOURCE / "__main__.py")],
        "separate_modules": True,
        "module_first": True,
        "implicit_namespaces": True,
        "automodule_options": {"members", "undoc-members", "show-inheritance"},
    }
]
autodoc_default_options = {"ignore-module-all": True}  # a name is documented where it is written, not where it is shown
autodoc_inherit_docstrings = False  # a forward() without words of its own would show PyTorch's
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["triton"]  # a gigabyte that comes with PyTorch for GPUs
autodoc_member_order = "bysource"
suppress_warnings = ["ref.python"]  # `step` and `State` are names of many classes; each links to one of them


def paragraph(lines: list[str]) -> list[str]:
    """Docstrings are plain text: a block with indented lines keeps its form, the rest flows; no markup but `code`."""
    if any(line.startswith((" ", "-")) for line in lines):
        return ["::", "", *("   " + line for line in lines), ""]
    pieces = " ".join(lines).replace("``", "`").split("`")
    if len(pieces) % 2 == 0:
        return ["::", "", *("   " + line for line in lines), ""]
    marked = [f"``{piece.strip()}``" if index % 2 else escaped(piece) for index, piece in enumerate(pieces)]
    return ["\\ ".join(piece for piece in marked if piece), ""]


def escaped(text: str) -> str:
    """Text as reStructuredText that means nothing but itself."""
    return "".join("\\" + character if character in r"\*`|_<>[]:" else character for character in text)


def plain(app, what, name, obj, options, lines: list[str]) -> None:
    blocks, block = [], []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            blocks.append(block)
            block = []
    lines[:] = [out for block in blocks for out in paragraph(block)]


def apart(app, page: str, content: list[str]) -> None:
    """Keep the reference out of the sidebar: with its 600 pages on each of them the site would take half an hour."""
    if page == "reference/modules":
        content[0] = ":orphan:\n\n" + content[0]


def setup(app) -> None:
    app.connect("source-read", apart)
    app.connect("autodoc-process-docstring", plain)
