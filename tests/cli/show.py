"""What `regard show` does with a run that is made in memory."""

from pathlib import Path
from typing import Any

from regard.tasks.options import FigureOptions
from regard.tasks.verbs import Run


def drawn(
    run: Any, text: str, out: Path, figure: FigureOptions | None = None, **settings: Any
) -> tuple[str, list[Path]]:
    """The prediction as it is printed, and the files with its pictures."""
    figure = figure or FigureOptions()
    settings = {"kinds": (), **settings}
    if not isinstance(run, Run) or "attribute" not in run.supports:
        return before(run, text, out, figure, settings)
    found = run.attribute(run.parse(text), **settings)
    return "\n".join(found.prediction.lines()), found.write(out, figure)


def before(run: Any, text: str, out: Path, figure: FigureOptions, settings: dict) -> tuple[str, list[Path]]:
    """Of tasks that do not have the shared verb yet."""
    from regard.cli.figure import Asking
    from regard.cli.figure_options import Viewing
    from regard.cli.head_figures import draw
    from regard.cli.options import Looking

    own = dict(vars(figure))
    sizes = {"largest": own.pop("largest"), "worked": own.pop("breakdown")}
    settings = {**settings, "kinds": list(settings["kinds"]) or None}
    return draw(run, Asking(Path("run"), text, out, Looking(**settings, **sizes)), Viewing(**own))
