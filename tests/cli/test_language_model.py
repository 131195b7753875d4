"""Language models and runs of several languages on the command line: trained, evaluated, used and refused."""

import json
from pathlib import Path

import pytest

from regard.runs.run_file import load
from tests.cli.command import finish, start, tiny

TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\n" * 40
FIELDS = {"prompt", "text", "score", "finished", "tokens", "attention"}
"""What the JSON of every continuation has."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def written(text: Path) -> Path:
    folder = text.parent / "run"
    options = [
        f"data.train={text}",
        f"data.test={text}",
        "model={name: recurrent, embedding: 13, width: 13}",
        "window=8",
        "training={steps: 20, batch_tokens: 96, learning_rate: 1e-2, threads: 1}",
    ]
    settings = [part for option in options for part in ("--set", option)]
    code, output, errors = finish(start("train", "language-lstm", "--out", str(folder), *settings))
    assert code == 0, errors
    assert "test/perplexity" in output
    assert f"regard generate {folder}" in output
    assert "to train on" in errors
    return folder


def test_generate_goes_on_from_each_prompt(regard, written: Path):
    code, output, errors = regard("generate", str(written), "the cat", "the", "--tokens", "3", "--seed", "5")
    assert (code, errors) == (0, "")
    first, second = output.splitlines()
    assert first.startswith("the cat")
    assert second.startswith("the")
    assert regard("generate", str(written), "the cat", "the", "--tokens", "3", "--seed", "5")[1] == output


def test_predict_continues_as_generate_does(regard, written: Path):
    code, output, _ = regard("predict", str(written), "the cat", "--beam", "2", "--n-best", "2", "--json")
    assert code == 0
    (record,) = map(json.loads, output.splitlines())
    assert set(record) == FIELDS | {"alternatives"}
    generated = regard("generate", str(written), "the cat", "--beam", "2", "--n-best", "2", "--json")[1]
    assert [json.loads(line)["text"] for line in generated.splitlines()] == [
        record["text"],
        *(each["text"] for each in record["alternatives"]),
    ]


def test_generate_without_a_prompt_and_as_json(regard, written: Path):
    code, output, _ = regard("generate", str(written), "--tokens", "4", "--beam", "3", "--n-best", "2", "--json")
    assert code == 0
    records = [json.loads(line) for line in output.splitlines()]
    assert len(records) == 2
    assert all(set(each) == FIELDS for each in records)
    assert records[0]["score"] >= records[1]["score"]
    assert records[0]["prompt"] == ""


def test_generate_reads_prompts_from_standard_input(written: Path):
    code, output, _ = finish(start("generate", str(written), "-", "--beam", "1", "--tokens", "2"), "the dog\nthe\n")
    assert code == 0
    assert [line.split()[0] for line in output.splitlines()] == ["the", "the"]


def test_evaluate_counts_the_test_set_or_a_file(regard, written: Path, text: Path):
    code, output, _ = regard("evaluate", str(written), "--own-data", "--json")
    assert code == 0
    assert set(json.loads(output)) == {"perplexity", "loss", "word_perplexity", "bits_per_character"}
    assert regard("evaluate", str(written), str(text), "--json")[1] == output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "{run}", "a", "--prefix", "b"), "the option prefix is not supported"),
        (("show", "{run}", "a", "--out", "x.png"), "is recurrent without attention"),
        (
            ("evaluate", "{run}", "--beam", "2"),
            "is not supported by evaluate for a run of the task language-model; supported: columns, files",
        ),
        (("generate", "{other}", "a"), "does not continue prompts, but one of the recipe characters-gpt2 does"),
    ],
)
def test_what_does_not_fit(regard, written: Path, run: Path, arguments: tuple[str, ...], said: str):
    code, _, errors = regard(*(each.format(run=written, other=run) for each in arguments))
    assert (code, len(errors.splitlines())) == (2, 1)
    assert said in errors


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("window=0", "window: got 0"),
        ("window=2000", "training.batch_tokens is 1400, less than the window of 2000 tokens"),
        ("search.beam=5000", "search.beam is 5000, more than the"),
        ("task=language", "did you mean 'language-model'?"),
    ],
)
def test_runs_that_cannot_be(regard, text: Path, tmp_path: Path, option: str, said: str):
    out = tmp_path / "run"
    settings = ["--set", f"data.train={text}", "--set", option]
    code, _, errors = regard("train", "language-lstm", "--out", str(out), *settings)
    assert code == 2
    assert said in errors
    assert not out.exists()


def test_attention_of_a_continuation(regard, tmp_path: Path, text: Path):
    """What each new token attends to, in the prompt and in what was generated, as a page and as a picture."""
    folder = tmp_path / "run"
    sizes = "model={name: gpt2, width: 12, heads: 3, layers: 2, hidden: 16, context: 32, dropout: 0}"
    options = [f"data.train={text}", sizes, "window=32", "training={steps: 5, batch_tokens: 96, threads: 1}"]
    settings = [part for option in options for part in ("--set", option)]
    code, _, errors = finish(start("train", "characters-gpt2", "--out", str(folder), *settings))
    assert code == 0, errors
    for suffix in (".html", ".png"):
        out = tmp_path / f"page{suffix}"
        arguments = ["generate", str(folder), "the cat", "--tokens", "6", "--temperature", "0", "--attention", str(out)]
        code, output, errors = regard(*arguments)
        assert (code, errors) == (0, "")
        assert output.endswith(f"The picture is {out}.\n")
        assert out.stat().st_size > 1000
    run = load(folder)
    (best,) = run.predict(["the cat"], tokens=6, temperature=0.0)
    found = run.attribute("the cat", target_tokens=best.ids).lookups[0]
    assert found.target == best.tokens
    assert len(found.source) == 1 + len("the cat") + len(best.ids) - 1
    assert (found.weights[:, :, 0, len("the cat") + 1 :] == 0).all()


NUMBERS = {"en": "one two three", "de": "eins zwei drei", "fr": "un deux trois"}


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("languages")
    for name, words in NUMBERS.items():
        lines = [f"{words} {number}" for number in range(60)]
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
    files = "[" + ", ".join(str(folder / name) for name in NUMBERS) + "]"
    data = f"{{kind: multiparallel, languages: [de, fr], train: {files}, valid: {files}, test: {files}}}"
    plain = "{kind: character}"
    search = "{beam: 2, length_ratio: 0, length_extra: 9}"
    options = tiny(data=data, model__encoder_width="13", source=plain, target=plain, search=search)
    code, output, errors = finish(start("train", "translate-many", "--out", str(folder / "run"), *options))
    assert code == 0, errors
    assert "60 sources to train on, 60 to validate, 60 to test; in de, fr; " in errors
    assert "test/bleu/fr" in output
    return folder / "run"


def test_each_text_has_a_line_a_language(spoken: Path):
    code, output, errors = finish(start("predict", str(spoken), "--beam", "1"), "one\ntwo 7\n")
    assert code == 0, errors
    assert [line.split("\t")[0] for line in output.splitlines()] == ["de", "fr", "de", "fr"]
    code, output, _ = finish(start("predict", str(spoken), "one", "--json"))
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
            "the option n-best is not supported by predict for a run of the task multi-target",
        ),
        (["evaluate", "RUN", "a", "b"], "languages are de, fr; give tables, or 3 files each: source and languages"),
    ],
)
def test_what_a_run_of_languages_cannot_do(arguments: list[str], said: str, spoken: Path, tmp_path: Path):
    code, output, errors = finish(start(*(str(spoken) if each == "RUN" else each for each in arguments), cwd=tmp_path))
    assert (code, output) == (2, "")
    assert said in errors
    assert len(errors.splitlines()) == 1
