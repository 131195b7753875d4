"""The parts of a job on a Ray cluster: a pool of actors, each with a loaded model, on nodes that share the folder."""

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from regard.data.progress import Progress
from regard.errors import InputError, RunError
from regard.runs.batch_prediction.engine import complete, ensure_part, finished
from regard.runs.batch_prediction.job import Job, named_output
from regard.runs.batch_prediction.workers import Worker


class PartActor:
    """An actor with a worker of its own. Errors of a part are values, since Ray would try such a part again."""

    def __init__(self, job: Job, load: Callable[[], Worker], folder: str) -> None:
        os.chdir(folder)  # the paths of a job may be relative
        self.job, self.worker = job, load()

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Compute the parts with the numbers in a batch."""
        rows, errors, codes = [], [], []
        for number in map(int, batch["number"]):
            try:
                ensure_part(self.job, number, self.worker, lambda rows: None)
                error, code = "", 0
            except (InputError, RunError) as failed:
                error, code = str(failed), failed.exit_code
            rows.append(self.job.spans[number].rows)
            errors.append(error)
            codes.append(code)
        return {"rows": rows, "error": errors, "code": codes}


def run_on_ray(job: Job, load: Callable[[], Worker]) -> dict[str, Any]:
    """As `run_job`, on the cluster that this process is connected to, or that RAY_ADDRESS names, or else one of this
    machine. Ray starts as many actors as the cluster has room for, and runs the parts of lost ones again.

    Raises InputError and RunError of the first part that failed.
    """
    ray, data = importlib.import_module("ray"), importlib.import_module("ray.data")
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    done = finished(job)
    missing = [
        {"number": number} for number in range(len(job.spans)) if number not in done
    ]
    rows = sum(job.spans[number].rows for number in done)
    with (
        named_output(),
        Progress(f"{job.request.verb} {job.folder}", job.rows, rows) as progress,
    ):
        if missing:
            pool = data.ActorPoolStrategy(min_size=1, max_size=len(missing))
            parts = data.from_items(
                missing, override_num_blocks=len(missing)
            ).map_batches(
                PartActor,
                fn_constructor_args=(job, load, os.getcwd()),
                batch_size=1,
                compute=pool,
            )
            for part in parts.iter_rows():
                if part["code"]:
                    raise (
                        InputError if part["code"] == InputError.exit_code else RunError
                    )(part["error"])
                progress.add(part["rows"])
        return complete(job)
