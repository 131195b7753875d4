"""`regard export`."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import Overwrite, RunFolder
from regard.cli.output import say

Form = Literal["huggingface", "onnx", "ctranslate2"]


def export(
    run: RunFolder,
    /,
    *,
    to: Annotated[Form, Parameter(help="The form to write.")] = "huggingface",
    out: Annotated[Path, Parameter(help="Folder of the exported model.")],
    overwrite: Overwrite = False,
    push: Annotated[
        str | None,
        Parameter(
            name="--push",
            help="Upload the export to the Hugging Face hub as OWNER/NAME, private if it is new.",
        ),
    ] = None,
) -> None:
    """Write a run's model for other libraries.

    The export computes the same as the run, which is checked, and has a model
    card, README.md.
    """
    from regard.hub import upload
    from regard.hub.card import is_export
    from regard.storage.replacement import replaced

    if push is not None:
        upload.check_name(push)
    if to == "onnx":
        from regard.hub.exports.onnx import export_onnx as write
    elif to == "ctranslate2":
        from regard.hub.exports.ctranslate2 import export_ctranslate2 as write
    else:
        from regard.hub import export_run as write
    with (
        replaced(out, is_export, "an export of regard") if overwrite else nullcontext()
    ):
        against = write(run, out)
    say(
        f"The model is in {out}, for {to}; it computes the same as the run: {', '.join(against)}."
    )
    if push is not None:
        say(f"It is at {upload.push(out, push)}.")
