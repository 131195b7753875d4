"""Commands that exchange models: `regard import` and `regard export`."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import Overwrite, RunFolder
from regard.cli.output import say
from regard.cli.train import CONFIG, describe_result

Source = Annotated[
    str,
    Parameter(
        name="SOURCE",
        help="Folder of a published model, or its name on the hub, OWNER/NAME.",
    ),
]
ImportOut = Annotated[
    Path | None,
    Parameter(help="Folder for the run. Default: runs/ and the model's name."),
]
Revision = Annotated[
    str | None,
    Parameter(
        help="Branch, tag or commit on the hub; the commit is written down. Default: the newest."
    ),
]
Pairs = Annotated[
    bool,
    Parameter(
        negative="",
        help="The model classifies pairs of texts, which its files do not state.",
    ),
]


def import_(
    source: Source,
    /,
    *,
    out: ImportOut = None,
    revision: Revision = None,
    pairs: Pairs = False,
    overwrite: Overwrite = False,
) -> None:
    """Convert a published model into a run."""
    from regard.hub import import_run
    from regard.runs import run_file
    from regard.storage.replacement import is_run, replaced

    folder = Path("runs") / Path(source).resolve().name if out is None else out
    with replaced(folder, is_run, "a run") if overwrite else nullcontext():
        import_run(source, folder, revision, paired=pairs)
    say(describe_result(folder, run_file.read(folder / CONFIG)))


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
