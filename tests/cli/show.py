"""What `regard show` does with a run that is made in memory."""

from pathlib import Path
from typing import Any

from regard.tasks.options import FigureOptions

PLAIN = FigureOptions()


def drawn(run: Any, text: str, out: Path, figure: FigureOptions = PLAIN, **settings: Any) -> tuple[str, Path]:
    """The prediction as it is printed, and the file with its picture."""
    found = run.attribute(run.parse(text), **settings)
    return "\n".join(found.prediction.lines()), found.write(out, figure)
