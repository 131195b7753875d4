"""Commands that exchange models: `regard import` and `regard export`."""

from pathlib import Path
from typing import Literal

from regard.cli.console import say
from regard.cli.train import CONFIG, describe_result


def import_(
    source: str,
    /,
    *,
    out: Path | None = None,
    revision: str | None = None,
    pairs: bool = False,
) -> None:
    """Convert a published model into a run.

    Args:
        source: Folder of a published model, or its name on the hub, OWNER/NAME.
        out: Folder for the run. Default: runs/ and the model's name.
        revision: Branch, tag or commit on the hub; the commit is written down. Default:
            the newest.
        pairs: The model classifies pairs of texts, which its files do not state.
    """
    from regard.hub.importing import import_run
    from regard.runs import run_file

    folder = Path("runs") / Path(source).resolve().name if out is None else out
    import_run(source, folder, revision, paired=pairs)
    say(describe_result(folder, run_file.read(folder / CONFIG)))


def export(
    run: Path,
    /,
    *,
    to: Literal["huggingface", "onnx", "ctranslate2"] = "huggingface",
    out: Path,
) -> None:
    """Write a run's model for other libraries.

    The export computes the same as the run, which is checked, and has a model
    card, README.md.

    Args:
        run: Folder of a trained run.
        to: The form to write.
        out: Folder of the exported model.
    """
    if to == "onnx":
        from regard.hub.exports.onnx import export_onnx as write
    elif to == "ctranslate2":
        from regard.hub.exports.ctranslate2 import export_ctranslate2 as write
    else:
        from regard.hub.exporting import export_run as write
    peers = ", ".join(write(run, out))
    say(f"The model is in {out}, for {to}; it computes the same as the run: {peers}.")
