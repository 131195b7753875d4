"""Readers meet any bytes with a value or an InputError, and never with another exception.

Each target changes a sound file: bytes are cut off, flipped, replaced or repeated. CI tries FUZZ_EXAMPLES changes for
each (30 by default); `make fuzz` tries thousands."""

import gzip
import io
import json
import os
import struct
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import save

from regard.data.arrays import arrays
from regard.data.delimited import read_csv, read_tsv
from regard.data.dialogue import read_turns
from regard.data.idx import read_idx
from regard.data.lines import read_lines
from regard.data.links import read_gold, read_links
from regard.data.records import read_jsonl
from regard.data.squad import QuestionFiles
from regard.errors import InputError
from regard.hub.formats import hdf5, sentencepiece, tokenizer_json
from regard.hub.formats.folder import Folder
from regard.images import read_image
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.storage import tensors
from regard.storage.manifest import Manifest
from regard.text.tokenizer import Tokenizer
from regard.text.unigram import Pieces

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "30"))
RUNS = Path(__file__).parents[1] / "data" / "runs"
TABLE = "source\ttarget\nein Haus\ta house\n\u00fcber\tover\n" * 3
QUESTIONS = {
    "data": [
        {
            "paragraphs": [
                {"context": "a b c", "qas": [{"question": "b?", "answers": [{"text": "b", "answer_start": 2}]}]},
            ]
        }
    ]
}
PIECES = Pieces({"\u2581a": -1.0, "b": -2.0, "\u2581": -3.0, "\u2581c": -4.5})


def _png() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(buffer, "PNG")
    return buffer.getvalue()


def _npz() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, images=np.zeros((2, 3, 3), np.uint8), names=np.array(["a", "b"]))
    return buffer.getvalue()


def _stored() -> bytes:
    """An archive without compression or a checksum that matters: changes reach the headers of its arrays."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_npz())) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return buffer.getvalue()


def _hdf5() -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.create_dataset("part/weights", data=np.arange(6, dtype=np.float32))
    return buffer.getvalue()


def _tokenizer_json() -> bytes:
    document = json.loads((RUNS / "dates" / "source.tokenizer.json").read_text(encoding="utf-8"))
    return json.dumps(document["tokenizer"]).encode()


TYPES = ["BPE", "WordPiece", "WordLevel", "Unigram"]


@dataclass(frozen=True)
class Target:
    """A sound file's name and content, and the function that reads it."""

    name: str
    sound: bytes
    read: Callable[[Path], Any]


IDX = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 3) + bytes(18)
JSONL = b'{"source": "a", "target": ["b", "c"]}\n' * 3
TARGETS = [
    Target("lines.txt", TABLE.encode(), read_lines),
    Target("lines.gz", gzip.compress(TABLE.encode()), read_lines),
    Target("table.tsv", TABLE.encode(), lambda path: read_tsv(path, ("source", "target"))),
    Target("table.csv", b'source,target\n"a, b",c\nd,"e ""f"""\n', lambda path: read_csv(path, ("source", "target"))),
    Target("table.jsonl", JSONL, lambda path: read_jsonl(path, ("source", "target"))),
    Target("questions.json", json.dumps(QUESTIONS).encode(), QuestionFiles().every_question),
    Target("dialogue.txt", b"hello\n\nyes\n\n\nno\n\nwhy\n", read_turns),
    Target("links.txt", b"0-0 1-2 2-1\n3-3\n", read_links),
    Target("gold.txt", b"0-0 1?2 2p1\n3-3\n", read_gold),
    Target("gold.jsonl", b'{"sure": [[0, 1]], "possible": [[1, 1]], "src": "a b", "tgt": "c d"}\n', read_gold),
    Target("a-idx3-ubyte", IDX, lambda path: read_idx(path, 3)),
    Target("a-idx3-ubyte.gz", gzip.compress(IDX), lambda path: read_idx(path, 3)),
    Target("a.npz", _npz(), lambda path: arrays(str(path), ["images", "names"])),
    Target("b.npz", _stored(), lambda path: arrays(str(path), ["images", "names"])),
    Target("image.png", _png(), read_image),
    Target("weights.safetensors", save({"a": torch.zeros(2, 3), "b": torch.ones(4)}), tensors.read),
    Target("manifest.json", (RUNS / "dates" / "manifest.json").read_bytes(), lambda path: Manifest.read(path.parent)),
    Target("run.yaml", path_of("dates").read_bytes(), run_file.read),
    Target("source.tokenizer.json", (RUNS / "dates" / "source.tokenizer.json").read_bytes(), Tokenizer.load),
    Target("weights.hdf5", _hdf5(), hdf5.read),
    Target("pieces.spm", sentencepiece.write(PIECES), lambda path: sentencepiece.read(Folder(path.parent), path.name)),
    Target("tokenizer.json", _tokenizer_json(), lambda path: tokenizer_json.read(Folder(path.parent), TYPES)),
]


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


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_changed_file_is_read_or_refused(target: Target, tmp_path: Path):
    path = tmp_path / target.name
    path.write_bytes(target.sound)
    target.read(path)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize="FUZZ_EXAMPLES" not in os.environ,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example),
    )
    @given(changes(target.sound))
    def attempt(content: bytes) -> None:
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(InputError):
                target.read(path)

    attempt()
