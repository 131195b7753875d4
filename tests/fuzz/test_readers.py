"""Readers meet any bytes with a value or an InputError, and never with another exception.

Each target changes a sound file: bytes are cut off, flipped, replaced or repeated. CI tries FUZZ_EXAMPLES changes for
each (30 by default); `make fuzz` tries thousands."""

import bz2
import gzip
import io
import json
import lzma
import struct
import tarfile
import wave
import zipfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save

from regard.audio import read_audio
from regard.data.arrays import arrays, read_idx
from regard.data.files import read_lines
from regard.data.image_shards import ImageShards
from regard.data.pairs import read_gold, read_links
from regard.data.questions import QuestionFiles
from regard.data.texts import read_turns
from regard.hub.sentencepiece import read_side
from regard.images import read_image
from regard.runs import run_file
from regard.runs.listing import read_record
from regard.runs.recipes import path_of
from regard.serve.openai import Completion, Embeddings
from regard.serve.requests import HTTPError, RequestBody, ServerLimits, build_body_type, parse
from regard.storage.published_folder import PublishedFolder
from regard.storage.tensors import read_tensors
from regard.storage.verified_files import Manifest
from regard.tasks.options import PredictOptions
from regard.text.kinds import SpecialTokens
from regard.text.tokenizer import Tokenizer
from tests.data.tables import read_pairs
from tests.fuzz.targets import Target, attempt
from tests.hub import spm

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
IDS = {piece: index for index, piece in enumerate([*"\u2581ab", "\u2581c", "<unk>", "<pad>", "</s>"])}
PIECES = {"\u2581a": -1.0, "b": -2.0, "\u2581": -3.0, "\u2581c": -4.5}


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


def _zstd(content: bytes) -> bytes:
    return import_module("pyarrow").compress(content, codec="zstd", asbytes=True)


def _tar() -> bytes:
    """Two images with their classes, as WebDataset has them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in (("a.png", _png()), ("a.cls", b"1"), ("b.png", _png()), ("b.cls", b"0")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


TYPES = ["BPE", "WordPiece", "WordLevel", "Unigram"]


def _wave(width: int) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(width)
        file.setframerate(8000)
        file.writeframes(bytes(range(120)) * 2)
    return buffer.getvalue()


def _log(path: Path) -> None:
    """Read the figures of a run whose log this is; a log has no digest."""
    read_record(path.parent)


def _body(path: Path) -> RequestBody:
    """Read a request as a server does."""
    kinds = PredictOptions, frozenset({"beam", "n_best", "temperature"})
    return parse(
        build_body_type({"text": str, "more": dict[str, list[int]]}, *kinds), path.read_bytes(), ServerLimits()
    )


def _completion(path: Path) -> RequestBody:
    return parse(Completion, path.read_bytes(), ServerLimits())


def _embeddings(path: Path) -> RequestBody:
    return parse(Embeddings, path.read_bytes(), ServerLimits())


BODY = b'{"text": "9 May", "more": {"a": [1, 2]}, "beam": 3, "temperature": 0.5}'
RUN = {each: (RUNS / "dates" / each).read_bytes() for each in ("manifest.json", "config.yaml", "result.json")}
IDX = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 3) + bytes(18)
JSONL = b'{"source": "a", "target": ["b", "c"]}\n' * 3
TARGETS = [
    Target("lines.txt", TABLE.encode(), read_lines),
    Target("lines.gz", gzip.compress(TABLE.encode()), read_lines),
    Target("lines.xz", lzma.compress(TABLE.encode()), read_lines),
    Target("lines.bz2", bz2.compress(TABLE.encode()), read_lines),
    *([Target("lines.zst", _zstd(TABLE.encode()), read_lines)] if find_spec("pyarrow") else []),
    Target("shard.tar", _tar(), lambda path: list(ImageShards().read(str(path)))),
    Target("table.tsv", TABLE.encode(), read_pairs),
    Target("table.csv", b'source,target\n"a, b",c\nd,"e ""f"""\n', read_pairs),
    Target("table.jsonl", JSONL, read_pairs),
    Target("questions.json", json.dumps(QUESTIONS).encode(), lambda path: list(QuestionFiles().questions(str(path)))),
    Target("dialogue.txt", b"hello\n\nyes\n\n\nno\n\nwhy\n", lambda path: list(read_turns(path))),
    Target("links.txt", b"0-0 1-2 2-1\n3-3\n", read_links),
    Target("gold.txt", b"0-0 1?2 2p1\n3-3\n", read_gold),
    Target("gold.jsonl", b'{"sure": [[0, 1]], "possible": [[1, 1]], "src": "a b", "tgt": "c d"}\n', read_gold),
    Target("a-idx3-ubyte", IDX, lambda path: read_idx(path, 3)),
    Target("a-idx3-ubyte.gz", gzip.compress(IDX), lambda path: read_idx(path, 3)),
    Target("a.npz", _npz(), lambda path: arrays(str(path), ["images", "names"])),
    Target("b.npz", _stored(), lambda path: arrays(str(path), ["images", "names"])),
    Target("image.png", _png(), read_image),
    Target("weights.safetensors", save({"a": torch.zeros(2, 3), "b": torch.ones(4)}), read_tensors),
    Target("manifest.json", (RUNS / "dates" / "manifest.json").read_bytes(), lambda path: Manifest.read(path.parent)),
    Target("run.yaml", path_of("dates").read_bytes(), run_file.read),
    Target("source.tokenizer.json", (RUNS / "dates" / "source.tokenizer.json").read_bytes(), Tokenizer.load),
    Target(
        "pieces.spm",
        spm.model([*spm.SPECIAL, *((piece, score, 1) for piece, score in PIECES.items())]),
        lambda path: read_side(PublishedFolder(path.parent), path.name, IDS, SpecialTokens(5, 4, 5, 6)),
    ),
    Target("sound.wav", _wave(2), read_audio),
    Target("sound24.wav", _wave(3), read_audio),
    Target("metrics.jsonl", (RUNS / "dates" / "metrics.jsonl").read_bytes()[:400], _log, RUN),
    Target("body.json", BODY, _body, refuses=HTTPError),
    Target(
        "completion.json",
        b'{"model": "lm", "prompt": ["a", "b"], "n": 2, "stop": ["x"]}',
        _completion,
        refuses=HTTPError,
    ),
    Target("embeddings.json", b'{"model": "lm", "input": ["a", "b"]}', _embeddings, refuses=HTTPError),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_changed_file_is_read_or_refused(target: Target, tmp_path: Path):
    attempt(target, tmp_path)
