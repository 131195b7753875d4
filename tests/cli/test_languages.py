"""A run in several languages, on the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.command import finish, start, tiny

WORDS = {"en": "one two three", "de": "eins zwei drei", "fr": "un deux trois"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("languages")
    for name, words in WORDS.items():
        lines = [f"{words} {number}" for number in range(60)]
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
    files = "[" + ", ".join(str(folder / name) for name in WORDS) + "]"
    data = f"{{kind: multiparallel, languages: [de, fr], train: {files}, valid: {files}, test: {files}}}"
    plain = "{kind: character}"
    search = "{beam: 2, length_ratio: 0, length_extra: 9}"
    options = tiny(data=data, model__encoder_width="13", source=plain, target=plain, search=search)
    code, output, errors = finish(start("train", "translate-many", "--out", str(folder / "run"), *options))
    assert code == 0, errors
    assert "60 sources to train on, 60 to validate, 60 to test; in de, fr; " in errors
    assert "test/bleu/fr" in output
    return folder / "run"


def test_each_text_has_a_line_a_language(run: Path):
    code, output, errors = finish(start("predict", str(run), "--beam", "1"), "one\ntwo 7\n")
    assert code == 0, errors
    assert [line.split("\t")[0] for line in output.splitlines()] == ["de", "fr", "de", "fr"]
    code, output, _ = finish(start("predict", str(run), "one", "--json"))
    assert code == 0
    record = json.loads(output)
    assert list(record) == ["source", "languages"]
    assert list(record["languages"]) == ["de", "fr"]
    assert {"text", "score", "finished"} <= set(record["languages"]["fr"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["predict", "RUN", "one", "--n-best", "2"],
            "the option n-best is not supported where a run of the task multi-target predicts",
        ),
        (["predict", "RUN", "one", "--prefix", "u"], "the option prefix is not supported"),
        (["evaluate", "RUN", "a", "b"], "evaluation has 2 files; expected 3, the source's and one for each language"),
        (
            ["show", "RUN", "one", "--out", "x.png", "--role", "encoder"],
            "the option role is not supported where a run of the task multi-target attributes; supported: beam",
        ),
    ],
)
def test_what_it_cannot_do(arguments: list[str], said: str, run: Path, tmp_path: Path):
    code, output, errors = finish(start(*(str(run) if each == "RUN" else each for each in arguments), cwd=tmp_path))
    assert (code, output) == (2, "")
    assert said in errors
    assert len(errors.splitlines()) == 1
