"""Whether a run can be resumed with its present settings."""

import logging
from collections.abc import Mapping
from typing import Any

from regard.errors import InputError

FIXED = (
    "format_version",
    "architecture",
    "tokenizer",
)  # without these equal a checkpoint means nothing
PROCESSES = "world_size"
"""May differ; the training says what that changes."""
ABSENT = "(none)"
log = logging.getLogger("regard")


def check_resume(
    saved: Mapping[str, Any], current: Mapping[str, Any], allow_change: bool
) -> None:
    """Compare the identity of the run at its start and now; nested mappings by their inner keys.

    The keys in `FIXED` must be equal, and the number of processes may differ. Other differences (configuration, digests
    of the data, the environment) need `allow_change` and are logged. Raises InputError: a line for each difference,
    with both values.
    """
    fixed = [
        f"{key} is {_show(old)} in the run, {_show(new)} now"
        for key, old, new in _fixed(saved, current)
    ]
    changed = differences(_without_fixed(saved), _without_fixed(current))
    lines = [
        f"{path}: {_show(old)} in the run, {_show(new)} now"
        for path, old, new in changed
    ]
    refused = [f"{line}; start a new run with another --out" for line in fixed]
    refused += (
        []
        if allow_change
        else [f"{line}; undo it or give --allow-change" for line in lines]
    )
    if refused:
        raise InputError("\n".join(f"cannot resume: {line}" for line in refused))
    for line in lines:
        log.warning("resuming with a change: %s", line)


def differences(saved: Any, current: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """(dotted key, saved value, current value) of each difference; a tuple equals a list of the same items."""
    if isinstance(saved, Mapping) and isinstance(current, Mapping):
        found = []
        for key in dict.fromkeys([*saved, *current]):
            inner = f"{path}.{key}" if path else str(key)
            found += differences(
                saved.get(key, ABSENT), current.get(key, ABSENT), inner
            )
        return found
    return [] if _listed(saved) == _listed(current) else [(path, saved, current)]


def _listed(value: Any) -> Any:
    return (
        [_listed(item) for item in value] if isinstance(value, list | tuple) else value
    )


def _fixed(
    saved: Mapping[str, Any], current: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    then, now = (
        {key: side[key] for key in FIXED if key in side} for side in (saved, current)
    )
    return differences(then, now)


def _without_fixed(side: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in side.items() if key not in (*FIXED, PROCESSES)}


def _show(value: Any) -> str:
    text = value if value == ABSENT else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
