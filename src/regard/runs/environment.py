"""The environment of a run, which decides its weights bit for bit: what it began with, and what continued it."""

import platform
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import torch

from regard.config.registry import plugins_named
from regard.errors import InputError
from regard.runs.run_file import ENVIRONMENT, dump
from regard.storage.manifest import CHANGED
from regard.storage.run_folder import RunDirectory
from regard.tasks.task import RunConfig
from regard.version import VERSION

PACKAGES = ("torch", "accelerate", "tokenizers", "safetensors", "sacrebleu")
DECISIVE = ("torch", "device", "instructions", "threads")
"""What a resumed run must share with its beginning to end with the weights of an uninterrupted one."""
CONTINUED = "continued"


def now(config: RunConfig, device: str, threads: int) -> dict[str, Any]:
    """Versions, machine, device, the processor's instructions that PyTorch uses, and the threads of each process."""
    found: dict[str, Any] = {"regard": VERSION} | {
        name: version(name) for name in PACKAGES
    }
    found |= {"plugins": plugins_named(re.findall(r"[\w-]+", dump(config)))}
    found |= {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
    }
    found |= {"device": device, "instructions": torch.backends.cpu.get_cpu_capability()}
    return found | {"threads": threads}


def threads(run: RunDirectory) -> int | None:
    """The number of threads that a run began with; None where an older run does not say."""
    found = (
        run.read_object(ENVIRONMENT).get("threads") if run.has(ENVIRONMENT) else None
    )
    if found is not None and (type(found) is not int or found < 1):
        raise InputError(f"{run.path / ENVIRONMENT}: threads is {found!r}, {CHANGED}")
    return found


def began(run: RunDirectory, current: Mapping[str, Any]) -> dict[str, Any]:
    """The environment that a run began with. Where an older run does not say, it is taken to be the current one."""
    saved = run.read_object(ENVIRONMENT) if run.has(ENVIRONMENT) else {}
    return {**current, **saved}


def decisive(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment that decides which weights are learned."""
    return {name: environment[name] for name in DECISIVE}


def write(run: RunDirectory, current: Mapping[str, Any]) -> None:
    """Write `environment.json`: what the run began with, and under `continued` each other environment it went on in,
    with the update of the checkpoint it went on from."""
    saved = run.read_object(ENVIRONMENT) if run.has(ENVIRONMENT) else dict(current)
    later = saved.pop(CONTINUED, [])
    last = (
        {name: value for name, value in later[-1].items() if name != "update"}
        if later
        else saved
    )
    if last != current:
        later.append({"update": max(run.checkpoint_steps(), default=0), **current})
    run.write_json(ENVIRONMENT, saved | ({CONTINUED: later} if later else {}))
