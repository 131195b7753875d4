"""Export of runs to the forms of other libraries."""

from pathlib import Path

from regard.hub.exporting import export_run


def export_folder(path: Path, out: Path, to: str) -> list[str]:
    """Write the model of a run's folder in a form of other libraries.

    Returns:
        The runtimes that checked the export.

    Raises:
        InputError: The model has no such form, or `out` exists.
        RunError: The export computes other values; it is removed.
    """
    if to == "onnx":
        from regard.hub.exports.onnx import export_onnx as write
    elif to == "ctranslate2":
        from regard.hub.exports.ctranslate2 import export_ctranslate2 as write
    else:
        write = export_run
    return write(path, out)
