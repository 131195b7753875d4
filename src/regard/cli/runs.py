"""Commands that list: `regard runs`, `regard info`, `regard cache`."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.options import Json
from regard.cli.output import format_columns, one_line, say, say_json, table
from regard.errors import InputError
from regard.extras import EXTRAS, how_to_install
from regard.version import VERSION

Clear = Annotated[
    bool, Parameter(negative="", show_default=False, help="Remove the encoded sets.")
]


def cache(*, clear: Clear = False) -> None:
    """Show the cache of encoded sets, or remove it."""
    from regard.storage import cache_folder

    if clear:
        size = cache_folder.clear()
        return say(f"removed {size:,} bytes from {cache_folder.sets()}")
    say(table(describe_cache()))


def describe_cache() -> dict[str, str]:
    """Return the folder of the cache, and its sets with their sizes."""
    from regard.storage.cache_folder import contents, sets, size_of

    sets_found = contents()
    total = f"{size_of(sets()):,} bytes in {len(sets_found)} sets"
    return {"cache": str(sets()), "size": total} | {
        entry.name: f"{entry.size:,} bytes, {entry.sources}" for entry in sets_found
    }


if TYPE_CHECKING:
    from regard.kernels.libraries import Kernel

PACKAGES = ("torch", "accelerate", "tokenizers", "safetensors", "sacrebleu", "numpy")


def list_versions() -> dict[str, str]:
    """Of regard, Python and the packages.

    For an optional one that is missing, how to install it.
    """
    rows = {
        "regard": VERSION,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
    }
    rows |= {
        name: _version(name) or "not installed; install regard again"
        for name in PACKAGES
    }
    return rows | {
        name: _version(name) or f"not installed; {how_to_install(name)}"
        for name in EXTRAS
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def list_devices() -> dict[str, str]:
    """Devices, threads and kernels."""
    try:
        import torch
    except Exception as error:  # any error of a broken installation is reported
        return {
            "devices": f"unknown: torch cannot be imported ({type(error).__name__}: {one_line(str(error))})"
        }
    from regard.kernels.libraries import find
    from regard.training.devices import devices, supports_bf16_products

    return {
        "devices": ", ".join(_device(kind, torch) for kind in devices()),
        "bf16 products": ", ".join(
            kind for kind in devices() if supports_bf16_products(kind)
        )
        or "none in hardware",
        "threads": f"{torch.get_num_threads()}, in training 1 for a small model; --set training.threads=N changes it",
        "additive scores": _kernel("fused on a CPU", find("additive")),
        "product scores": "PyTorch's fused attention; on a CPU plain where that was measured to be faster",
        "rotary positions": _kernel("turned in one pass on a CPU", find("rotary")),
        "cross-entropy": "chunk by chunk",
    }


def _kernel(form: str, found: "Kernel") -> str:
    return (
        f"{form}, by {found.description}"
        if found.library
        else f"plain: {found.description}"
    )


def _device(kind: str, torch) -> str:
    if kind != "cuda":
        return kind
    names = [
        torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
    ]
    return f"cuda ({', '.join(names)})"


if TYPE_CHECKING:
    from regard.runs.listing import Record

Folders = Annotated[
    Path,
    Parameter(
        name="DIR",
        help="A folder of runs, or runs; of two runs the differences. Default: runs.",
    ),
]
Sort = Annotated[
    str,
    Parameter(
        help="run, steps, figure, date, size or a metric such as test/bleu; numbers downwards."
    ),
]
CurvesOut = Annotated[
    Path | None,
    Parameter(help="Draw the curves of the runs: a name ending in .png, .svg or .pdf."),
]
HEADER = ("run", "task", "model", "steps", "figure", "parameters", "date", "size")


def runs(
    *folders: Folders, sort: Sort = "run", out: CurvesOut = None, json_: Json = False
) -> None:
    """List runs with their figures, or the differences of two."""
    from regard.runs import listing

    folders = folders or (Path("runs"),)
    single = len(folders) == 1
    records = (
        listing.list_runs(folders[0], sort)
        if single
        else listing.sort_records([*map(listing.read_record, folders)], sort)
    )
    if out is not None:
        listing.draw_curves([Path(record.run) for record in records], out)
        return say(f"The curves are in {out}.")
    if len(folders) == 2:
        return compare(folders[0], folders[1], as_json=json_)
    if json_:
        return say_json([record.to_json() for record in records])
    say(format_columns(HEADER, [format_row(record) for record in records]))


def compare(first: Path, second: Path, *, as_json: bool) -> None:
    """Print the settings and figures of two runs that differ."""
    from regard.runs.listing import compare_runs

    differences = compare_runs(first, second)
    if as_json:
        return say_json(
            {
                key: [first_value, second_value]
                for key, first_value, second_value in differences
            }
        )
    if not differences:
        raise InputError(f"{first} and {second} have the same settings and figures")
    say(
        format_columns(
            ("", str(first), str(second)),
            [
                (key, shorten(first_value), shorten(second_value))
                for key, first_value, second_value in differences
            ],
        )
    )


def format_row(record: "Record") -> Sequence[str]:
    """Return the cells of a run."""
    figure = (
        ""
        if record.figure is None
        else f"{record.figure[0]} {shorten(record.figure[1])}"
    )
    steps = (
        f"{record.steps:,}"
        if record.finished
        else f"{record.steps:,} of {record.planned:,}"
    )
    parameters = "" if record.parameters is None else f"{record.parameters:,}"
    size = f"{record.size / 1e6:,.1f} MB"
    return (
        record.run,
        record.task,
        record.model,
        steps,
        figure,
        parameters,
        record.written,
        size,
    )


def shorten(value: object) -> str:
    """Return a value in a cell."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


Run = Annotated[
    Path | None,
    Parameter(
        name="RUN", help="Folder of a run. None: the installation.", show_default=False
    ),
]


def info(run: Run = None, /) -> None:
    """Show the installation, or a run: its data, figures and files."""
    if run is not None:
        return say(
            "\n\n".join(
                f"{name}\n{table(describe_cache)}"
                for name, describe_cache in describe_run(run).items()
            )
        )
    from regard.cli.runs import describe_cache, list_devices, list_versions

    cached = describe_cache()
    say(
        table(
            list_versions()
            | list_devices()
            | {"cache": f"{cached['size']}, {cached['cache']}"}
        )
    )


def describe_run(run: Path) -> dict[str, dict[str, object]]:
    """Return the tables of a run by their headings.

    Raises InputError for a folder that is no run.
    """
    from regard.cli.train import describe_usage
    from regard.runs.listing import read_record
    from regard.runs.load import CONFIG
    from regard.runs.resume import ENVIRONMENT
    from regard.runs.run_file import read
    from regard.storage.run_folder import RESULT, RunDirectory
    from regard.tasks.summary import FILE as DATA
    from regard.tasks.summary import DataSummary

    record_, folder = read_record(run), RunDirectory.open(run)
    steps = (
        f"{record_.steps:,}"
        if record_.finished
        else f"{record_.steps:,} of {record_.planned:,}, unfinished"
    )
    describe_cache: dict[str, object] = {
        "run": record_.run,
        "task": record_.task,
        "model": record_.model,
        "steps": steps,
    }
    describe_cache |= {
        "written": record_.written,
        "use": describe_usage(run, read(folder.file(CONFIG))),
    }
    tables = {"Run": describe_cache}
    if folder.has(DATA):
        tables["Data"] = {**DataSummary.of_json(folder.read_object(DATA)).parts()}
    tables["Figures"] = dict(
        folder.read_object(RESULT) if folder.has(RESULT) else record_.figures
    )
    tables["Files"] = {
        file.name: f"{measure(file):,} bytes"
        for file in sorted(run.iterdir())
        if file.name[0] != "."
    }
    if folder.has(ENVIRONMENT):
        environment = folder.read_object(ENVIRONMENT)
        tables["Environment"] = {
            name: value for name, value in environment.items() if value not in ([], {})
        }
    return {name: file for name, file in tables.items() if file}


def measure(path: Path) -> int:
    """Return the bytes of a file, or of the files in a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())
