"""Commands of benchmarks that pages name: each exists, has settings that make a run file, and runs on tiny data."""

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from benchmarks import alignment, attended, bandits, rules, scale
from benchmarks.recipes import EXPERIMENTS, Experiment
from benchmarks.rules import KneserNey, best_span, word_set
from benchmarks.sources import tag_kept_words
from regard import load
from regard.runs import run_file
from regard.runs.recipes import path_of
from tests.witness.files import Writer
from tests.witness.record import trained

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"python -m benchmarks\.(\w+)(?: ([\w-]+))?")
FORMER = {"contrast", "related_text", "view", "words_in_context"}
"""Benchmarks of figures that stay in the results, in the repository up to the commit that these name."""
NAMES: dict[str, Any] = {
    "alignment": alignment.COMPARISONS,
    "attended": attended.MEASURES,
    "recipes": EXPERIMENTS,
    "rules": rules.RULES,
    "scale": scale.BENCHMARKS,
}
"""The names that each benchmark takes."""


def test_each_command_of_a_page_is_a_benchmark_that_takes_its_name():
    pages = [*ROOT.glob("*.md"), ROOT / "benchmarks/README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.csv")]
    commands = {
        match.groups()
        for page in pages
        if page.name not in ("log.md", "CHANGELOG.md")
        for match in COMMAND.finditer(page.read_text(encoding="utf-8"))
    }
    assert len(commands) > 20
    for module, name in sorted(commands, key=str):
        assert module in FORMER or (ROOT / "benchmarks" / f"{module}.py").is_file(), module
        if module in NAMES and name and not name.isupper():
            assert name in NAMES[module], (module, name)


def compress(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content.encode() if isinstance(content, str) else content))


def write_tiny_sets(folder: Path) -> None:
    """A few rows of each public data set that a rule reads."""
    writer, random = Writer("rules"), Random(1)
    text = writer.sentences(40)
    for name in ("train", "valid", "test"):
        compress(folder / "wikitext-2" / f"{name}.txt.gz", "\n".join(text) + "\n")
    compress(folder / "tiny_shakespeare" / "input.txt.gz", "\n\n".join(f"ANN:\n{line}" for line in text) + "\n")
    for name in ("train", "val", "test_2016_flickr"):
        compress(folder / "multi30k" / f"{name}.en.gz", "\n".join(text) + "\n")
        compress(folder / "multi30k" / f"{name}.de.gz", "\n".join(f"ein {line.title()}" for line in text) + "\n")
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    rows = [f"{n}\t{text[n]}\t{text[n - n % 3]}\t{1 + n % 5}\t{'ABC'[n % 3]}" for n in range(30)]
    for name in ("train", "test"):
        compress(folder / "sick" / f"{name}.tsv.gz", "\n".join([header, *rows]) + "\n")
    asked = {"question": "Who won in 1901 ?", "answers": [{"text": "Ann", "answer_start": 0}]}
    paragraph = {"context": "Ann won in 1901. It rained.", "qas": [asked]}
    squad = {"data": [{"paragraphs": [paragraph, {"context": "Bo lost.", "qas": [asked]}]}]}
    compress(folder / "squad" / "dev_24articles-v1.1.json.gz", json.dumps(squad))
    for name in ("bnc", "broadcast"):
        cut = [json.dumps({"text": line, "summaries": [line.split(maxsplit=1)[1]]}) for line in text]
        compress(folder / "sentence_compression" / f"{name}.jsonl.gz", "\n".join(cut) + "\n")
    for name in ("train", "t10k"):
        compress(folder / "fashion-mnist" / f"{name}-images-idx3-ubyte.gz", bytes(16) + random.randbytes(20 * 784))
        compress(folder / "fashion-mnist" / f"{name}-labels-idx1-ubyte.gz", bytes(8) + bytes([*range(10)] * 2))
    photographs = folder / "flickr8k_1000"
    photographs.mkdir()
    parts = ("train", "test")
    captions = [json.dumps({"split": parts[n % 2], "captions": text[n : n + 2]}) for n in range(20)]
    (photographs / "captions.jsonl").write_text("\n".join(captions), encoding="utf-8")
    np.savez(
        photographs / "images_64x64.npz",
        images=np.frombuffer(random.randbytes(20 * 64 * 64 * 3), np.uint8).reshape(20, 64, 64, 3),
    )


def table(capsys: pytest.CaptureFixture[str]) -> Sequence[str]:
    """The rows that were printed, without the heading."""
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")][2:]
    assert rows
    assert "nan" not in "".join(rows)
    return rows


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", rules.RULES)
def test_rules_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_tiny_sets(tmp_path)
    rules.RULES[name](tmp_path)
    table(capsys)


MEASURED = {"pronouns": "pronouns", "answers": "templates", "hypernyms": "esim", "same-words": "esim"}
MEASURED |= {"subjects": "language-lstmn"}


@pytest.mark.parametrize("name", attended.MEASURES)
def test_what_models_attend_to_is_measured(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_tiny_sets(tmp_path)
    trained(MEASURED[name], tmp_path)
    attended.MEASURES[name](load(str(tmp_path / "run"), "cpu"), tmp_path)
    table(capsys)


def test_bandits_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    trained("bandits", tmp_path)
    bandits.main(str(tmp_path / "run"))
    assert len(table(capsys)) == 4


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_make_a_run_file(name: str, tmp_path: Path):
    experiment: Experiment = EXPERIMENTS[name]
    for variant in experiment.variants.values():
        settings = [*experiment.data, *variant.settings]
        for placeholder in ("{folder}", "{runs}", "{fold}", "{next}"):
            settings = [setting.replace(placeholder, "1" if "fold}" in placeholder else "x") for setting in settings]
        assert run_file.read(path_of(variant.recipe), settings).training.steps > 0


def test_probabilities_of_the_next_word_sum_to_one():
    model = KneserNey([["a", "b", "a"], ["b", "b"]], 2, 3)
    for history in ("a", "b", "<s>"):
        assert sum(model.probability((history, word)) for word in ("a", "b", "</s>")) == pytest.approx(1)


def test_a_span_near_the_words_of_the_question():
    context = "The river is long. Anna Berger built the bridge in 1901."
    rarity = dict.fromkeys(word_set(context), 2.0) | {"in": 0.1}
    assert best_span(context, "When was the bridge built?", rarity) == "1901"


def test_words_that_a_shorter_sentence_keeps():
    assert tag_kept_words(["A", "big", "dog"], ["a", "dog"]) == ["KEEP", "O", "KEEP"]
    assert tag_kept_words(["A", "dog"], ["a", "cat"]) is None
