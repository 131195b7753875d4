"""Commands that list: `regard runs`, `regard info`, `regard cache`."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.streams import (
    format_columns,
    format_table,
    format_value,
    one_line,
    say,
    say_json,
)
from regard.errors import InputError
from regard.extras import EXTRAS, how_to_install
from regard.version import VERSION

if TYPE_CHECKING:
    from regard.runs.listing import Record

PACKAGES = ("torch", "accelerate", "tokenizers", "safetensors", "sacrebleu", "numpy")
HEADER = ("run", "task", "model", "steps", "figure", "parameters", "date", "size")


def runs(
    *folders: Path,
    sort: str = "run",
    json_: bool = False,
) -> None:
    """List runs with their figures, or the differences of two.

    Args:
        folders: A folder of runs, or runs; of two runs the differences. Default: runs.
        sort: run, steps, figure, date, size or a metric such as test/bleu; numbers
            downwards.
        json_: Print JSON.
    """
    from regard.runs import listing

    if len(folders) == 2:
        differences = listing.compare_runs(*folders)
        if json_:
            return say_json({key: values for key, *values in differences})
        if not differences:
            names = " and ".join(map(str, folders))
            raise InputError(f"{names} have the same settings and figures")
        rows = [(key, *map(format_value, values)) for key, *values in differences]
        return say(format_columns(("", *map(str, folders)), rows))
    if len(folders) > 2:
        records = list(map(listing.read_record, folders))
    else:
        records = listing.list_runs(*folders or (Path("runs"),))
    records = listing.sort_records(records, sort)
    if json_:
        return say_json([record.to_json() for record in records])
    say(format_columns(HEADER, list(map(format_record, records))))


def format_record(record: "Record") -> tuple[str, ...]:
    """Return the cells of a run."""
    figure = parameters = ""
    if record.figure is not None:
        figure = f"{record.figure[0]} {format_value(record.figure[1])}"
    if record.parameters is not None:
        parameters = f"{record.parameters:,}"
    names = (record.run, record.task, record.model, record.progress)
    return (*names, figure, parameters, record.written, f"{record.size / 1e6:,.1f} MB")


def cache(*, clear: bool = False) -> None:
    """Show the cache of encoded sets, or remove it.

    Args:
        clear: Remove the encoded sets.
    """
    from regard.storage import cache_folder

    if clear:
        size = cache_folder.clear()
        return say(f"removed {size:,} bytes from {cache_folder.sets()}")
    say(format_table(cache_folder.describe()))


def info(
    run: Path | None = None,
    /,
) -> None:
    """Show the installation, or a run: its data, figures and files.

    Args:
        run: Folder of a run. None: the installation.
    """
    if run is not None:
        tables = describe_run(run).items()
        parts = [f"{title}\n{format_table(rows)}" for title, rows in tables if rows]
        return say("\n\n".join(parts))
    from regard.storage import cache_folder

    system = f"{platform.system()} {platform.machine()}"
    rows = {"regard": VERSION, "python": f"{platform.python_version()} on {system}"}
    for name in (*PACKAGES, *EXTRAS):
        try:
            rows[name] = version(name)
        except PackageNotFoundError:
            advice = how_to_install(name) if name in EXTRAS else "install regard again"
            rows[name] = f"not installed; {advice}"
    say(format_table(rows | describe_devices() | cache_folder.describe()))


def describe_devices() -> dict[str, str]:
    """Return devices, threads and kernels."""
    try:
        import torch
    except Exception as error:  # any error of a broken installation is reported
        reason = f"{type(error).__name__}: {one_line(str(error))}"
        return {"devices": f"unknown: torch cannot be imported ({reason})"}
    from regard.kernels.libraries import find
    from regard.training.devices import devices, supports_bf16_products

    names, bf16 = ", ".join(devices()), filter(supports_bf16_products, devices())
    cards = map(torch.cuda.get_device_name, range(torch.cuda.device_count()))
    rows = {
        "devices": names.replace("cuda", f"cuda ({', '.join(cards)})"),
        "bf16 products": ", ".join(bf16) or "none in hardware",
        "threads": f"{torch.get_num_threads()}, in training 1 for a small model; --set training.threads=N changes it",
    }
    for title in ("additive scores", "rotary positions"):
        kernel = find(title.split()[0])
        form = "fused on a CPU, by" if kernel.library else "plain:"
        rows[title] = f"{form} {kernel.description}"
    return rows


def describe_run(run: Path) -> dict[str, dict[str, Any]]:
    """Return the tables of a run by their headings.

    Raises:
        InputError: The folder is no run.
    """
    from regard.cli.train import describe_usage
    from regard.runs.listing import read_record
    from regard.runs.load import CONFIG
    from regard.runs.resume import ENVIRONMENT
    from regard.runs.run_file import read
    from regard.storage.cache_folder import size_of
    from regard.storage.run_folder import RESULT, RunDirectory
    from regard.tasks.summary import FILE as DATA
    from regard.tasks.summary import DataSummary

    record, folder = read_record(run), RunDirectory.open(run)
    tables: dict[str, dict[str, Any]] = {
        "Run": {
            "run": record.run,
            "task": record.task,
            "model": record.model,
            "steps": record.progress + ("" if record.finished else ", unfinished"),
            "written": record.written,
            "use": describe_usage(run, read(folder.file(CONFIG))),
        }
    }
    if folder.has(DATA):
        tables["Data"] = {**DataSummary.of_json(folder.read_object(DATA)).parts()}
    figures = folder.read_object(RESULT) if folder.has(RESULT) else record.figures
    tables["Figures"] = {**figures}
    tables["Files"] = {}
    for file in sorted(run.glob("[!.]*")):
        size = file.stat().st_size if file.is_file() else size_of(file)
        tables["Files"][file.name] = f"{size:,} bytes"
    if folder.has(ENVIRONMENT):
        tables["Environment"] = folder.read_object(ENVIRONMENT)
    return tables
