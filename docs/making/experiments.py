"""A Sphinx extension: an experiment's picture and command on its page, whose table `regard experiment` writes."""

from pathlib import PurePosixPath

from sphinx.application import Sphinx

FOLDER = "gallery/experiments"


def illustrated(text: str, name: str) -> str:
    """Return the page with its title as a title, and with the picture and the command below its claim."""
    title, claim, *rest = text.split("\n\n", 2)
    heading = title.removeprefix("# ").replace("-", " ").capitalize()
    command = f"```sh\nregard experiment {name.replace('-full', ' --full')}\n```"
    picture = f"![{heading}: the table below as a chart]({name}.png)"
    return "\n\n".join([f"# {heading}", claim, command, picture, *rest])


def read(app: Sphinx, page: str, content: list[str]) -> None:
    """Sphinx's event for the source of a page."""
    path = PurePosixPath(page)
    if str(path.parent) == FOLDER:
        content[0] = illustrated(content[0], path.name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
