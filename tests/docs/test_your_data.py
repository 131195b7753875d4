"""The page "Your data" to the letter: its files, many times over, and its commands, with few and small updates."""

import re
import shlex
import wave
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from regard.cli.main import main
from tests.code.tree import ROOT

PAGE = (ROOT / "docs" / "guide" / "your-data.md").read_text(encoding="utf-8")
FILE = re.compile(r"^`(?P<name>[\w./-]+)`:\n\n```\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}
TINY = {"training.steps": 2, "training.warmup": 0, "training.validate_every": 0, "training.batch_tokens": 96}
SMALL = {
    "vit": {"training.batch_tokens": 208},
    "captions": {"training.batch_tokens": 128, "tokenizer.minimum_count": 1},
    "spoken-digits": {"training.batch_tokens": 128},
    "few-shot": {"training.batch_tokens": 32, "data.valid_episodes": 3, "data.episodes": 16},
    "characters-gpt2": {"training.batch_tokens": 256},
    "spans": {"training.batch_tokens": 256},
    "classify": {"tokenizer.size": 200},
    "tagging": {"tokenizer.size": 200},
}
TIMES = 40
"""How often the rows of a file are written, so that they fill batches."""


def write(folder: Path, name: str, content: str) -> None:
    """A file of the page with its rows many times, or the images of a folder, several of each."""
    path, lines = folder / name, content.splitlines(keepends=True)
    if not name.endswith("/"):
        head = 1 if path.suffix in (".csv", ".tsv") else 0
        times = TIMES if path.parent == folder else 20 if "audio,transcript" in content else 1
        path.write_text("".join(lines[:head] + lines[head:] * times), encoding="utf-8")
        return
    from PIL import Image

    if ".wav" in content:
        for line in content.split():
            recording(path / line)
        return
    for number, (line, copy) in enumerate(product(content.split(), ("", *"bcdefghij"))):
        file = path / line
        file.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 255, (32, 32), dtype=np.uint8)
        Image.fromarray(pixels).save(file.with_stem(file.stem + copy))


def recording(path: Path) -> None:
    """A tenth of a second of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(np.random.default_rng(1).integers(-9000, 9000, 800, dtype=np.int16).tobytes())


@pytest.mark.parametrize("title", [title for title, part in SECTIONS.items() if COMMANDS.search(part)])
def test_a_section_to_the_letter(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    monkeypatch.chdir(tmp_path)
    for found in FILE.finditer(SECTIONS[title]):
        write(tmp_path, found["name"], found["content"])
    blocks = (found["lines"].replace("\\\n", "") for found in COMMANDS.finditer(SECTIONS[title]))
    commands = [line for block in blocks for line in block.splitlines()]
    assert commands
    for line in commands:
        words = shlex.split(line.replace("$'", "'").replace("\\t", "\t"))
        assert words.pop(0) == "regard"
        if words[0] == "train":
            settings = TINY | SMALL.get(words[1], {})
            words += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        code = main(words)
        output, errors = capfd.readouterr()
        assert code == 0, f"{line}\n{errors}"
        assert output
        if "--out" in words:
            assert Path(words[words.index("--out") + 1]).exists()


def test_every_file_that_a_command_names_is_on_the_page():
    assert len(SECTIONS) > 12
    for part in SECTIONS.values():
        names = {found["name"].rstrip("/") for found in FILE.finditer(part)}
        for found in COMMANDS.finditer(part):
            trained = re.findall(r"data\.train='?\[?([\w.]+)", found["lines"])
            assert set(trained) <= names
