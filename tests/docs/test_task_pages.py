"""The pages of tasks to the letter: their files, many times over, and their commands, with few and small updates."""

import re
import shlex
import wave
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

import regard
from regard.cli.main import main
from regard.runs.interface import list_overrides
from tests.code.tree import ROOT

FILE = re.compile(r"^`(?P<name>[\w./-]+)`:\n\n```\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python no-run\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
PARTS = {
    f"{path.stem}: {part.partition(chr(10))[0].strip('# ')}": part
    for path in sorted((ROOT / "docs" / "tasks").glob("*.md"))
    for part in re.split(r"^(?=## )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if FILE.search(part)
}
"""The sections with files, by page and title."""
TINY = ["training.steps=2", "training.warmup=0", "training.validate_every=0"]
BATCHES = {"vit": 208, "captions": 128, "spoken-digits": 128, "few-shot": 32, "characters-gpt2": 256, "bert": 512}
BATCHES |= {"spans": 256}
SMALL = {"captions": ["tokenizer.minimum_count=1"], "few-shot": ["data.valid_episodes=3", "data.episodes=16"]}
SMALL |= {"classify": ["tokenizer.size=200"], "tagging": ["tokenizer.size=200"]}


def write(folder: Path, name: str, content: str) -> None:
    """A file of the page with its rows many times, or the images and the noise of a folder, several of each."""
    path, lines, random = folder / name, content.splitlines(keepends=True), np.random.default_rng(1)
    if not name.endswith("/"):
        head = 1 if path.suffix in (".csv", ".tsv") else 0
        times = 40 if path.parent == folder else 20 if "audio,transcript" in content else 1
        path.write_text("".join(lines[:head] + lines[head:] * times), encoding="utf-8")
        return
    for line, copy in product(content.split(), ("", *"bcdefghij")):
        (path / line).parent.mkdir(parents=True, exist_ok=True)
        if not line.endswith(".wav"):
            pixels = random.integers(0, 255, (32, 32), dtype=np.uint8)
            Image.fromarray(pixels).save((path / line).with_stem(Path(line).stem + copy))
        elif not copy:
            with wave.open(str(path / line), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes(random.integers(-9000, 9000, 800, dtype=np.int16).tobytes())


def settings(words: list[str]) -> dict:
    return {key: yaml.safe_load(value) for key, value in (word.split("=", 1) for word in words if "=" in word)}


@pytest.mark.slow
@pytest.mark.parametrize("title", PARTS)
def test_a_section_to_the_letter(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    monkeypatch.chdir(tmp_path)
    for found in FILE.finditer(PARTS[title]):
        write(tmp_path, found["name"], found["content"])
    (block, *_) = COMMANDS.finditer(PARTS[title])
    given: list[str] = []
    for line in block["lines"].replace("\\\n", "").splitlines():
        command, *words = shlex.split(line.replace("$'", "'").replace("\\t", "\t"), comments=True)
        few = []
        if words[0] == "train":
            given = words
            few = [*TINY, f"training.batch_tokens={BATCHES.get(words[1], 96)}", *SMALL.get(words[1], ())]
        code = main([*words, *(part for setting in few for part in ("--set", setting))])
        output, errors = capfd.readouterr()
        assert (command, code) == ("regard", 0), f"{line}\n{errors}"
        assert output
        assert "--out" not in words or Path(words[words.index("--out") + 1]).exists()

    def train(recipe: str, out: str, **sections):
        """Open the run that the command, with the same settings, has trained."""
        assert [recipe, out] == [given[1], given[given.index("--out") + 1]]
        assert settings(list_overrides(sections)) == settings(given)
        return regard.load(out)

    (code, *_) = PYTHON.finditer(PARTS[title])
    monkeypatch.setattr(regard, "train", train)
    exec(compile(code["code"], title, "exec"), {})
