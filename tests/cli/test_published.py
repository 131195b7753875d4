"""Published models on the command line: imported, used, trained further, and exported."""

import json
from pathlib import Path

import pytest

from tests.cli.command import finish, start
from tests.hub.published import BERTS, CONFIGURATIONS, filler, gpt2

WORDS = "the cat sat on the mat\n" * 60


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_language_model_there_and_back(regard, here: Path):
    gpt2(here / "small-gpt2", **CONFIGURATIONS[1])
    code, output, errors = regard("import", "small-gpt2")
    assert (code, errors) == (0, "")
    assert output == "The run is in runs/small-gpt2. Next: regard generate runs/small-gpt2 PROMPT\n"
    code, output, _ = regard("generate", "runs/small-gpt2", "the", "--tokens", "3", "--beam", "1")
    assert code == 0
    assert output.startswith("the")
    (here / "text.txt").write_text(WORDS, encoding="utf-8")
    small = ["training.steps=3", "training.batch_tokens=92", "training.threads=1", "data.train=text.txt"]
    code, output, errors = regard("train", "runs/small-gpt2", *(part for each in small for part in ("--set", each)))
    assert code == 0, errors
    assert "The run is in runs/small-gpt2-trained." in output
    code, output, _ = regard("export", "runs/small-gpt2-trained", "--out", "for-others")
    assert code == 0
    assert "it computes the same as the run: transformers." in output
    assert sorted(path.name for path in (here / "for-others").iterdir()) == [
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_model_that_fills_in_blanks(regard, here: Path):
    filler(here / "small-bert", **BERTS[1])
    code, output, _ = regard("import", "small-bert", "--out", "bert")
    assert code == 0
    assert output == ("The run is in bert. Next: regard fill bert 'TEXT WITH A [MASK]', or regard embed bert TEXT\n")
    code, output, _ = regard("fill", "bert", "the [MASK] sat [MASK]", "--best", "2")
    assert code == 0
    rows = [line.split("\t") for line in output.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    code, output, _ = regard("fill", "bert", "the [MASK]", "--json", "--best", "1")
    [[way]] = json.loads(output)["blanks"]
    assert set(way) == {"text", "token", "probability"}
    code, output, _ = regard("predict", "bert", "the [MASK]", "--json")
    record = json.loads(output)
    assert record == {"text": "the [MASK]", "filled": way["text"], "blanks": [[way]]}
    assert regard("predict", "bert", "the [MASK]")[1] == f"{way['text']}\n"
    assert regard("predict", "bert", "the [MASK]", "--n-best", "2")[1].startswith("1\t")
    process = start("embed", "bert", "-", "--pool", "first", cwd=here)
    code, output, _ = finish(process, "the cat\nthe dog\n")
    assert code == 0
    assert [json.loads(line)["text"] for line in output.splitlines()] == ["the cat", "the dog"]
    assert len(json.loads(output.splitlines()[0])["vector"]) == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("import", "nowhere/at all"), "no such folder and no model on the hub"),
        (("fill", "bert", "no blank here"), "'no blank here' has no blank; write [MASK] where one is"),
        (
            ("embed", "bert", "text", "--words"),
            "does not embed words, but one of the recipe elmo does; it can predict, evaluate",
        ),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], message: str, regard, here: Path):
    filler(here / "small-bert", **BERTS[0])
    assert regard("import", "small-bert", "--out", "bert")[0] == 0
    code, output, errors = regard(*arguments)
    assert (code, output) == (2, "")
    assert message in errors
    assert len(errors.splitlines()) == 1
