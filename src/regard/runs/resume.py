"""Whether a run can be resumed: its identity and its environment, then and now."""

import json
import logging
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import torch

from regard.config.registry import find_packages
from regard.errors import InputError
from regard.runs import run_file
from regard.runs.load import CONFIG
from regard.runs.run_file import ENVIRONMENT
from regard.storage.manifest import CHANGED
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import Setup
from regard.tasks.run import RunConfig
from regard.version import VERSION

FORMAT = 2
IDENTITY = "identity.json"
FIXED = ("format_version", "architecture", "tokenizer")
"""Without these equal a checkpoint means nothing."""
PROCESSES = "world_size"
"""May differ; the training says what that changes."""
FREE_SETTINGS = (
    "workers",
    "threads",
    "log_every",
    "tensorboard",
    "tracker",
    "checkpoint_minutes",
    "process_timeout",
)
"""Settings of the training that may differ when a run is resumed.

They do not change the weights, or are compared in the environment.
"""
ABSENT = "(none)"
PACKAGES = ("torch", "accelerate", "tokenizers", "safetensors", "sacrebleu")
DECISIVE = ("torch", "device", "instructions", "threads")
"""What a resumed run must share with its beginning to end with the same weights."""
Values = Mapping[str, Any]
log = logging.getLogger("regard")


def identify(config: RunConfig, setup: Setup, processes: int) -> Values:
    """Return the identity of a run.

    Resuming requires the same, or an allowed change.
    """
    digests = [tokenizer.digest for tokenizer in setup.tokenizers.values()]
    return {
        "format_version": FORMAT,
        "architecture": config.model.name,
        "world_size": processes,
        "tokenizer": " ".join(digests),
        "data": setup.digest,
        "configuration": list_settings(config),
    }


def compare_with_saved(
    run: RunDirectory,
    identity: Values,
    environment: Values,
    allow_change: bool,
) -> list[str]:
    """Compare a run at its beginning with its identity and environment now.

    Returns:
        A line for each allowed difference.

    Raises:
        InputError: A difference is not allowed.
    """
    # the run file is read again, so that keys of later versions have their defaults
    settings = list_settings(run_file.read(run.file(CONFIG)))
    initial = {**environment, **read_environment(run)}
    saved, current = (
        {name: values[name] for name in DECISIVE} for values in (initial, environment)
    )
    return check_resume(
        run.read_object(IDENTITY) | {"configuration": settings, "environment": saved},
        {**identity, "environment": current},
        allow_change,
    )


def list_settings(config: RunConfig) -> Values:
    """Return the settings of a run file that decide which weights are learned."""
    settings = asdict(config)
    settings.pop("search", None)
    for name in FREE_SETTINGS:
        del settings["training"][name]
    return settings


def check_resume(saved: Values, current: Values, allow_change: bool) -> list[str]:
    """Compare the identity of a run at its start and now.

    Args:
        saved: The identity at the start; nested mappings go by their inner keys.
        current: The identity now. The keys in `FIXED` must be equal, and the number
            of processes may differ.
        allow_change: Whether other differences are allowed; they are logged.

    Returns:
        A line for each allowed difference.

    Raises:
        InputError: One line for each difference, with both values.
    """
    allowed = []
    refused = []
    for key, old, new in compare(saved, current):
        name = key.partition(".")[0]
        line = f"{key}: {_shorten(old)} in the run, {_shorten(new)} now"
        if name in FIXED:
            refused.append(f"{line}; start a new run with another --out")
        elif name == PROCESSES:
            continue
        elif allow_change:
            allowed.append(line)
        else:
            refused.append(f"{line}; undo it or give --allow-change")
    if refused:
        raise InputError("\n".join(f"cannot resume: {line}" for line in refused))
    for line in allowed:
        log.warning("resuming with a change: %s", line)
    return allowed


def check_files(run: RunDirectory, files: Values) -> None:
    """Compare values that the weights belong to, such as classes, with the saved ones.

    Raises:
        InputError: They differ; the message names the first new value.
    """
    for name, value in files.items():
        saved = run.read_json(name) if run.has(name) else value
        if saved != value:
            items = value if isinstance(value, list) else []
            new = [repr(item) for item in items if item not in saved]
            change = f"{new[0]} is new" if new else "some are missing or others"
            raise InputError(
                f"cannot resume: the data have other values of {name} than the run "
                f"({change}). Undo the change of the data, or start a new run"
            )


def explain_misfit(run: RunDirectory, changes: list[str]) -> str:
    """Return why a checkpoint does not fit after allowed changes, and what to do."""
    listed = "; ".join(changes)
    return (
        f"cannot resume: the checkpoint does not fit the changed run ({listed}). Undo "
        "the change, or start a new run from this one with another --out and "
        f"--set training.start={run.path}"
    )


def compare(saved: Any, current: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return (dotted key, saved value, current value) of each difference."""
    if not isinstance(saved, Mapping) or not isinstance(current, Mapping):
        # a tuple equals a list of the same items
        is_equal = json.dumps(saved, default=str) == json.dumps(current, default=str)
        return [] if is_equal else [(path, saved, current)]
    differences = []
    for key in dict.fromkeys([*saved, *current]):
        inner_path = f"{path}.{key}" if path else str(key)
        old = saved.get(key, ABSENT)
        new = current.get(key, ABSENT)
        differences += compare(old, new, inner_path)
    return differences


def _shorten(value: Any) -> str:
    text = value if value == ABSENT else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def current_environment(config: RunConfig, device: str, threads: int) -> dict[str, Any]:
    """Return versions, machine, device, and what else decides the weights."""
    names = re.findall(r"[\w-]+", run_file.dump(config))
    return {
        "regard": VERSION,
        **{name: version(name) for name in PACKAGES},
        "plugins": find_packages(names),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "device": device,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": threads,
    }


def read_environment(run: RunDirectory) -> Values:
    """Return the environment that a run began with; empty if it is unknown."""
    return run.read_object(ENVIRONMENT) if run.has(ENVIRONMENT) else {}


def read_threads(run: RunDirectory) -> int | None:
    """Return the number of threads that a run began with, if it says."""
    threads = read_environment(run).get("threads")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise InputError(f"{run.path / ENVIRONMENT}: threads is {threads!r}, {CHANGED}")
    return threads
