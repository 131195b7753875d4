"""A Sphinx extension: the table of public names, from the packages' `__all__`, in the page `names`."""

import importlib
import inspect
import re
from typing import Any

from sphinx.application import Sphinx

PAGE = "names"
PACKAGES = {
    "regard": "The names that most programs need.",
    "regard.attention": "The lookup and its parts.",
    "regard.attention.scores": "How well a key matches a query.",
    "regard.attention.align": "How scores become weights.",
    "regard.attention.history": "What an alignment remembers from one step to the next.",
    "regard.attention.heads": "Several lookups side by side.",
    "regard.attention.masks": "Which keys may be read.",
    "regard.attention.memory": "Keys, values and which of them may be read.",
    "regard.attention.record": "Recording the weights of a model.",
    "regard.decoding": "Searches over a decoder.",
    "regard.maps": "Weights as arrays.",
    "regard.pictures": "Pictures and pages of weights.",
    "regard.testing": "The laws, for modules of your own.",
}
"""Each public package with its purpose."""


def public(package: str) -> list[str]:
    """Return the public names of a package: its `__all__`, or what it defines without an underscore."""
    module = importlib.import_module(package)
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(name for name in listed if not name.startswith("__"))
    own = ((name, each) for name, each in vars(module).items() if not name.startswith("_") and callable(each))
    return sorted(name for name, each in own if getattr(each, "__module__", "") == package)


def tables() -> str:
    """Return a section for each package, with a row for each name."""
    return "\n".join(section(package, about) for package, about in PACKAGES.items())


def section(package: str, about: str) -> str:
    """Return the names of a package, each with the first sentence of its docstring."""
    module = importlib.import_module(package)
    rows = [f"| {link(package, name)} | {sentence(getattr(module, name))} |" for name in public(package)]
    return f"## `{package}`\n\n{about}\n\n| name | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def link(package: str, name: str) -> str:
    """Return a name, linked to its page in the reference, where it is written."""
    each = getattr(importlib.import_module(package), name)
    home = getattr(each, "__module__", package)
    return f"[`{name}`](/reference/{home}.rst)" if home.startswith("regard.") else f"`{name}`"


def sentence(each: object) -> str:
    """Return the first sentence of a docstring, of a value its type."""
    if not (inspect.isclass(each) or inspect.isroutine(each)):
        return f"a value of the type `{type(each).__name__}`"
    text = " ".join((inspect.getdoc(each) or "").split("\n\n")[0].split())
    first = re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)[0].rstrip(":")
    pieces = first.replace("|", "\\|").split("`")  # code at each second place
    return "`".join(piece if at % 2 else re.sub(r"([<*\[])", r"\\\1", piece) for at, piece in enumerate(pieces))


def append(app: Sphinx, page: str, content: list[str]) -> None:
    """Append the tables to the text of the page."""
    if page == PAGE:
        content[0] += "\n" + tables()


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect this extension to Sphinx."""
    app.connect("source-read", append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
