"""`regard predict RUN --input FILES --output DIR` and `regard embed` for files."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from regard.cli.main import main
from regard.runs.run_file import load
from regard.tasks.options import PredictOptions
from tests.witness.cases import CASES

DATES = ["Saturday 09 May 2018", "14 July 1989", "3 March 77"]


def records(folder: Path) -> list[dict[str, Any]]:
    parts = sorted(folder.glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text(encoding="utf-8").splitlines()]


def texts_of(record: dict[str, Any]) -> dict[str, str]:
    """A record without its numbers, whose last digits depend on the rows beside it."""
    return {name: value for name, value in record.items() if isinstance(value, str)}


def test_files_of_lines_and_of_rows(run: Path, tmp_path: Path, regard):
    lines, table, keyed = tmp_path / "a.txt", tmp_path / "a.csv", tmp_path / "a.jsonl"
    lines.write_text("\n".join(DATES) + "\n")
    table.write_text("id,when\n" + "".join(f"{number},{each}\n" for number, each in enumerate(DATES)))
    keyed.write_text("".join(json.dumps({"when": each, "id": 3}) + "\n" for each in DATES))
    code, output, errors = regard("predict", str(run), "--input", str(lines), "--output", str(tmp_path / "1"))
    assert (code, errors) == (0, "")
    assert output.splitlines()[:3] == ["rows in   3", "rows out  3", "skipped   0"]
    code, output, errors = regard(
        *("predict", str(run), "--input", str(table), str(keyed), "--columns", "when", "--output", str(tmp_path / "2"))
    )
    assert (code, errors) == (0, "")
    found = records(tmp_path / "1")
    assert [each.pop("place") for each in found] == [f"{lines}:{number}" for number in (1, 2, 3)]
    assert [each["source"] for each in found] == DATES
    code, output, _ = regard("predict", str(run), "--json", *DATES)
    assert [texts_of(json.loads(line)) for line in output.splitlines()] == [texts_of(each) for each in found]
    again = records(tmp_path / "2")
    places = [each.pop("place") for each in again]
    assert places == [f"{table}:{n}" for n in (2, 3, 4)] + [f"{keyed}:{n}" for n in (1, 2, 3)]
    assert again == found * 2
    sentences = ["\n".join(f"{place}\t{word}\t_" for place, word in enumerate(text.split(), 1)) for text in DATES]
    words = tmp_path / "a.conllu"
    words.write_text("# a comment\n" + "\n\n".join(sentences), encoding="utf-8")
    assert regard("predict", str(run), "--input", str(words), "--output", str(tmp_path / "3"))[0] == 0
    assert [each["source"] for each in records(tmp_path / "3")] == DATES


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "a.txt"], "--input and --output go together: --input names the files, and their parts are"),
        (["x", "--input=a.txt", "--output", "b"], "texts and --input are both given; choose one"),
        (
            ["--input", "a.txt", "--output", "b", "--part-rows", "0"],
            'Invalid value "0" for --part-rows. Must be >= 1; see `regard predict --help`',
        ),
    ],
)
def test_flags_that_do_not_go_together(options: list[str], message: str, run: Path, regard):
    code, output, errors = regard("predict", str(run), *options)
    assert (code, output) == (2, "")
    assert errors.startswith(f"regard: {message}")


def test_a_run_without_vectors(run: Path, tmp_path: Path, regard):
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    code, _, errors = regard("embed", str(run), "--input", str(path), "--output", str(tmp_path / "out"))
    assert code == 2
    assert "does not embed texts" in errors
    assert not (tmp_path / "out").exists()


def texts(*lines: str) -> Callable[[Path], Sequence[str]]:
    return lambda folder: lines


def images(folder: Path) -> list[str]:
    paths = [folder / f"{shade}.png" for shade in (30, 90, 200)]
    for path in paths:
        Image.new("L", (28, 28), int(path.stem)).save(path)
    return list(map(str, paths))


def questions(folder: Path) -> list[str]:
    return [json.dumps({"question": "Who won?", "context": f"The team {n} won."}) for n in range(3)]


LINES: dict[str, Callable[[Path], Sequence[str]]] = {
    "bandits": texts("0.2 0.8 0.4 0.5 0.1", "0.9 0.1 0.1 0.1 0.1"),
    "bert": texts("a [MASK] b", "[MASK]"),
    "captions": images,
    "copy": texts("10110100 01101001", "11111111"),
    "dates": texts(*DATES),
    "entailment": texts("a b\tc", "d\te"),
    "names": texts("Anna sleeps in Bonn", "Bonn"),
    "sorting": texts("0.9 0.1 0.5", "0.2 0.7"),
    "spans": questions,
    "vit": images,
    **dict.fromkeys(("classify", "language-gpt2", "multi-label", "regression", "translate-many"), texts("a b", "c")),
}


MORE = {"language-gpt2": ["tokens=9", "search.temperature=null"]}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", LINES)
def test_every_task(recipe: str, tmp_path: Path):
    """The predictions of files are those of `regard predict`, in the order of the rows."""
    folder = tmp_path / "data"
    folder.mkdir()
    settings = ["training.steps=1", "training.warmup=0", *MORE.get(recipe, [])]
    options = [*CASES[recipe].options(folder), *(part for each in settings for part in ("--set", each))]
    assert main(["train", recipe, "--out", str(tmp_path / "run"), *options]) == 0
    lines = LINES[recipe](folder)
    path = tmp_path / ("in.jsonl" if lines[0].startswith("{") else "in.txt")
    path.write_text("\n".join(lines) + "\n")
    assert main(["predict", str(tmp_path / "run"), "--input", str(path), "--output", str(tmp_path / "out")]) == 0
    run = load(tmp_path / "run")
    examples = [run.parse(line) for line in lines]
    chosen = PredictOptions(attention=False) if "attention" in run.supports["predict"] else None
    predictions = run.predict(examples, chosen)
    expected = [run.record(one) | found.to_json() for one, found in zip(examples, predictions, strict=True)]
    found = records(tmp_path / "out")
    assert [each.pop("place") for each in found] == [f"{path}:{number}" for number in range(1, len(lines) + 1)]
    assert [list(each) for each in found] == [list(each) for each in expected]
    assert [texts_of(each) for each in found] == [texts_of(each) for each in expected]
