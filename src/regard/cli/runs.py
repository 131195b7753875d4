"""Commands that list: `regard runs`, `regard info`, `regard cache`."""

import platform
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.main import (
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
    from regard.runs.listing import RunSummary

PACKAGES = ("torch", "accelerate", "tokenizers", "safetensors", "sacrebleu", "numpy")
HEADER = ("run", "task", "model", "steps", "figure", "parameters", "date", "size")


def runs(*folders: Path, json_: bool = False) -> None:
    """List runs with their figures.

    Args:
        folders: A folder of runs, or several runs. Default: runs.
        json_: Print JSON.
    """
    from regard.runs.listing import list_runs, read_record

    if len(folders) > 1:
        records = list(map(read_record, folders))
    else:
        records = list_runs(*folders or (Path("runs"),))
    if json_:
        return say_json([record.to_json() for record in records])
    say(format_columns(HEADER, list(map(format_record, records))))


def format_record(record: "RunSummary") -> tuple[str, ...]:
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


def info(run: Path | None = None, /) -> None:
    """Show the installation, or what a model is and can do.

    The installation has versions, devices, kernels and the cache.

    Args:
        run: Folder of a trained run or of a published model, or its name on the hub.
    """
    if run is not None:
        return say(format_table(describe_model(run)))
    from importlib.metadata import PackageNotFoundError, version

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


def describe_model(path: Path) -> dict[str, str]:
    """Return what the model of a run or of a published folder is and can do."""
    from regard.hub.open_run import is_published, open_run, open_states
    from regard.runs.run_file import load
    from regard.training.settings import count_parameters

    run = open_run(path)
    runs = [run]
    if is_published(path):
        with suppress(InputError):  # no task has its head
            runs = [load(path), open_states(path)]
    if getattr(runs[0].model, "predictions", run) is None:
        del runs[0]  # a masked language model without its head fills nothing
    can = dict.fromkeys(
        verb
        for opened in runs
        for verb in (*opened.supports, "align", "score", "fill", "embed")
        if getattr(opened, verb, None)
    )
    about = run.description()
    rows = {
        "task": f"{run.config.task}. {run.does}".removesuffix(". "),
        "model": about["model"] if run.does else type(run.network).__name__,
        "parameters": f"{count_parameters(run.model):,}",
        "classes": ", ".join(about.get("classes", [])),
        "can": ", ".join(can),
        "maps": ", ".join(run.kinds),
    }
    return {name: value for name, value in rows.items() if value}


def describe_devices() -> dict[str, str]:
    """Return devices, threads and kernels."""
    try:
        import torch
    except Exception as error:  # any error of a broken installation is reported
        reason = f"{type(error).__name__}: {one_line(str(error))}"
        return {"devices": f"unknown: torch cannot be imported ({reason})"}
    from regard.kernels.cpu import find
    from regard.training.settings import devices, supports_bf16_products

    names, bf16 = ", ".join(devices()), filter(supports_bf16_products, devices())
    cards = map(torch.cuda.get_device_name, range(torch.cuda.device_count()))
    rows = {
        "devices": names.replace("cuda", f"cuda ({', '.join(cards)})"),
        "bf16 products": ", ".join(bf16) or "none in hardware",
        "threads": f"{torch.get_num_threads()}, in training 1 for a small model; --set training.threads=N changes it",
    }
    kernel = find("additive")
    form = "fused on a CPU, by" if kernel.library else "plain:"
    return rows | {"additive scores": f"{form} {kernel.description}"}
