"""`regard export`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import RunFolder
from regard.cli.output import say

Form = Literal["huggingface", "onnx", "ctranslate2"]


def export(
    run: RunFolder,
    /,
    *,
    to: Annotated[Form, Parameter(help="The form to write.")] = "huggingface",
    out: Annotated[Path, Parameter(help="Folder of the exported model; it must not exist.")],
) -> None:
    """Write a run's model for other libraries.

    The export computes the same as the run, which is checked.
    """
    if to == "onnx":
        from regard.hub.exports.onnx import export_onnx as write
    elif to == "ctranslate2":
        from regard.hub.exports.ctranslate2 import export_ctranslate2 as write
    else:
        from regard.hub import export_run as write
    against = write(run, out)
    say(f"The model is in {out}, for {to}; it computes the same as the run: {', '.join(against)}.")
