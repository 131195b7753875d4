"""A sound file and the function that reads it, and changes of its bytes."""

import copy
import json
import os
import struct
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.errors import InputError

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "30"))


@dataclass(frozen=True)
class Target:
    """A sound file's name and content, and the function that reads it; `beside` are other files of its folder, and
    `refuses` what the function may raise."""

    name: str
    sound: bytes
    read: Callable[[Path], Any]
    beside: Mapping[str, bytes] = field(default_factory=dict)
    refuses: type[Exception] = InputError


@st.composite
def changes(draw: st.DrawFn, sound: bytes) -> bytes:
    """The sound bytes with a few changes, or bytes that are nothing."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    content = bytearray(sound)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        kind = draw(st.sampled_from(("cut", "flip", "write", "repeat", "remove", "number")))
        if kind == "cut":
            del content[place:]
        elif kind == "flip" and content:
            content[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "write":
            content[place:place] = draw(st.binary(min_size=1, max_size=8))
        elif kind == "repeat":
            content[place:place] = content[place : place + draw(st.integers(1, 40))] * draw(st.integers(1, 30))
        elif kind == "remove":
            del content[place : place + draw(st.integers(1, 20))]
        else:
            content[place : place + 4] = struct.pack("<I", draw(st.sampled_from((0, 1, 0x7FFFFFFF, 0xFFFFFFFF))))
    return bytes(content)


VALUES = (None, True, 0, -1, 1.5, 10**12, 1e400, float("nan"), "", "x", "\ud800", [], [1], ["a"], {}, {"a": 1})


@st.composite
def changed_values(draw: st.DrawFn, sound: bytes) -> bytes:
    """The document with some of its values removed or replaced by others."""
    document = json.loads(sound)
    for _ in range(draw(st.integers(1, 3))):
        place: Any = document
        while place:
            key = draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
            if not (isinstance(place[key], dict | list) and place[key] and draw(st.integers(0, 4))):
                if draw(st.integers(0, 4)):
                    place[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
                else:
                    del place[key]
                break
            place = place[key]
    return json.dumps(document).encode("ascii")


def attempt(target: Target, folder: Path) -> None:
    """Read the sound file, and many changes of it."""
    path = folder / target.name
    for name, content in {**target.beside, target.name: target.sound}.items():
        (folder / name).write_bytes(content)
    target.read(path)
    document = target.name.endswith(".json")
    drawn = st.one_of(changes(target.sound), changed_values(target.sound)) if document else changes(target.sound)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize="FUZZ_EXAMPLES" not in os.environ,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example),
    )
    @given(drawn)
    def read(content: bytes) -> None:
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(target.refuses):
                target.read(path)

    read()
