"""Documentation: MyST pages by hand, the API from docstrings. Build with `make docs`."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

project = "regard"
copyright = "the regard authors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "docs.making.aims",
    "docs.making.formulas",
    "docs.making.live",
    "docs.making.pictures",
    "docs.making.results",
    "docs.making.settings",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"regard {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(ROOT / "docs" / "_static" / "scorer.js")
html_extra_path = ["_build/live"]
html_math_renderer = "mathml"
html_scaled_image_link = False
html_copy_source = False
highlight_language = "none"  # of blocks without a language
pygments_style = "friendly"
pygments_dark_style = "github-dark"

autodoc_inherit_docstrings = False  # a forward() without words of its own would show PyTorch's
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["triton"]  # a gigabyte that comes with PyTorch for GPUs
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 72
napoleon_google_docstring = True
napoleon_numpy_docstring = False
suppress_warnings = ["ref.python"]  # `step` and `State` are names of many classes

UNSEARCHED = ("community", "log", "decisions/", "results/all", "reference/", "guide/flows")
"""Pages that the search leaves out, by how their names begin."""


def mark(text: str) -> str:
    """Docstrings are plain text, with `code` in single backticks: make that reStructuredText."""
    pieces = text.replace("``", "`").split("`")
    if len(pieces) % 2 == 0:
        return text
    return "".join(f"``{piece}``" if at % 2 else escape(piece) for at, piece in enumerate(pieces))


def escape(text: str) -> str:
    """Text as reStructuredText that means nothing but itself; the stars of `**settings:` are napoleon's."""
    return re.sub(r"(?<![\n*])([*|\\]|_(?=\W|$))(?![*\w]*:)", r"\\\1", text)


def plain(app, what, name, obj, options, lines: list[str]) -> None:
    """Keep indented blocks that are no sections of Google's style as they are, and mark code in the rest."""
    section, parts = False, [[]]  # text and literal blocks in turn
    for line in lines:
        if re.fullmatch(r"(Args|Returns|Raises|Yields|Attributes):", line):
            section = True
        elif line and not line.startswith(" "):
            section = False
        literal = not section and (line.startswith("    ") or (not line and len(parts) % 2 == 0))
        if literal == (len(parts) % 2 == 1):
            parts.append([])
        parts[-1].append(line)
    for at, part in enumerate(parts):
        parts[at] = ["::", "", *part, ""] if at % 2 else mark("\n".join(part)).split("\n")
    lines[:] = [line for part in parts for line in part]


def leave_out_of_search(app, doctree) -> None:
    """Set the metadata that Sphinx's search respects."""
    page = app.env.docname
    if page.startswith(UNSEARCHED):
        app.env.metadata[page]["nosearch"] = True


def setup(app) -> None:
    app.connect("autodoc-process-docstring", plain, priority=400)
    app.connect("doctree-read", leave_out_of_search)
