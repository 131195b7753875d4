"""Files that a command computes in parts."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.options import BatchFlags
from regard.cli.output import say, table
from regard.errors import InputError
from regard.extras import how_to_install

if TYPE_CHECKING:
    from regard.runs.batch_prediction.workers import Worker

    Loaded = tuple[Worker, Mapping[str, str | int]]
    """A worker, and the columns that its rows have in a table by their keys."""

RAY_DATA = "ray", "pandas", "pyarrow"
"""The packages of Ray Data, which Ray alone does not bring."""


def run_batch(
    verb: str,
    run: Path,
    flags: BatchFlags,
    settings: Mapping[str, Any],
    load: "Callable[[], Loaded]",
) -> None:
    """Compute the files in parts and print the totals. Raises InputError and RunError as `run_job`."""
    from regard.data.bad_records import MissingColumns
    from regard.data.image_inputs import reader_of
    from regard.data.opening import files_of
    from regard.data.truncation import counted_together
    from regard.runs.batch_prediction.engine import run_job
    from regard.runs.batch_prediction.job import Request, begin
    from regard.runs.batch_prediction.parts import check_format
    from regard.tasks.row_examples import chosen_columns
    from regard.training.devices import choose_own_accelerator

    check_format(flags.format)
    lacking = (
        next((package for package in RAY_DATA if find_spec(package) is None), "")
        if flags.on == "ray"
        else ""
    )
    if lacking:
        raise InputError(
            f"--on ray needs {lacking}, which is not installed: {how_to_install('ray')}"
        )
    choose_own_accelerator()
    inputs = [file for path in flags.input for file in files_of(path)]
    worker, columns = load()
    reader = reader_of(chosen_columns(columns, flags.columns))
    chosen = {
        name: value
        for name, value in settings.items()
        if value not in (None, False, (), "")
    }
    request = Request(
        verb, run, chosen, inputs, reader, flags.format, flags.part_rows, flags.skip_bad
    )
    assert flags.output is not None
    try:
        job = begin(flags.output, request)
    except MissingColumns as error:
        raise error.advised(
            f"name yours with --columns {','.join(map(str.upper, columns))}"
        ) from error
    if flags.on == "ray":
        from regard.runs.batch_prediction.cluster import run_on_ray

        totals = run_on_ray(job, partial(_worker, load))
    else:
        with counted_together():
            totals = run_job(job, worker)
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        say(table(totals))


def _worker(load: "Callable[[], Loaded]") -> "Worker":
    """The worker of an actor, which loads the run again on its node."""
    return load()[0]
