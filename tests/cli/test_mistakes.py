"""Mistakes of a first hour and bad records: each is refused with what to do, as a user meets it."""

import json
import pickle
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from regard.data.rows import BadRecord

Regard = Callable[..., tuple[int, str, str]]
RECIPES = "expected one of bahdanau, luong, bottleneck, one-pass, pointer-generator, transformer"
CASES = {
    "nested JSON": (
        "classify --set data.train=nested.jsonl --set data.skip_bad=true",
        "nested.jsonl:1: no column 'text' and 'label', there are 'review.body', 'meta.label'; name yours "
        "with --set data.text=review.body and --set data.label=meta.label\n",
    ),
    "numbers as labels": (
        "classify --set data.train=numbers.csv",
        "numbers.csv: 90 of 90 training rows have a class of their own, such as '0.5'; expected a few classes: set "
        "data.label to their column, or learn numbers by the recipe regression",
    ),
    "a key of the recipe that the user did not write": (
        "vit --set data.kind=image-folders",
        "data.train is not given; expected images, as --set data.train=PATH",
    ),
    "few classes for episodes": (
        "few-shot --set data.train=pictures",
        "pictures: 2 classes, but an episode needs 5 (data.ways) to train on and as many others to validate; lower "
        "data.ways, add classes, or name data.valid",
    ),
    "one text file of a translation": (
        "translate-rnn --set data.train=a.de --set data.source=2",
        "--set data.train: got 'a.de', expected a list, as --set 'data.train=[A, B]'; files are read by kind parallel "
        "or table or dialogue or squad; there is no such file: a.de",
    ),
    "several files of one text": (
        "characters-gpt2 --set data.train=[a.txt,b.txt]",
        "--set data.train: got ['a.txt', 'b.txt'], expected text",
    ),
    "a file instead of generated data": (
        "dates --set data.train=a.txt",
        "--set data.train: got 'a.txt', expected a whole number; files are read by kind parallel or table or dialogue "
        "or squad; there is no such file: a.txt",
    ),
    "a folder of sounds with tables of sets": (
        "spoken-digits --set data.train=sounds",
        "sounds: has several tables, such as dev.tsv, train.tsv; name that of each set with --set data.train=sounds/",
    ),
    "a folder of images below its table": (
        "captions --set data.train=photos/Images",
        "photos/Images: has no table with the columns image and captions, only ",
    ),
    "a column that was named": (
        "captions --set data.train=photos --set data.captions=words",
        "photos/captions.txt:1: no column 'words', there are 'image', 'caption'; name yours with "
        "--set data.captions=caption",
    ),
    "a table instead of a recipe": ("other.csv", "other.csv is a table; name the recipe of its task"),
    "a published model instead of a recipe": ("my-bert", "my-bert is a published model; name the recipe of its task"),
    "a name of another library": ("dates --set training.lr=1", "unknown key; did you mean 'learning_rate'?"),
    "a table of sentences without a header": (
        "translate-rnn --set data.train=corpus.tsv",
        "corpus.tsv:1: no column 'source' and 'target', there are 'A dog runs over the wet grass.', 'Ein Hund rennt.'; "
        "name yours with --set data.source=1 and --set data.target=2 (by number from 1 if",
    ),
    "dropout of a tokenizer that both sides share": (
        "translate-rnn --set data.train=corpus.tsv --set tokenizers.source.dropout=0 --set tokenizers.target.dropout=0",
        "--set tokenizers.target.dropout: tokenizers.target: tokenizer kind is missing: choose one",
    ),
    "a model of another task": ("dates --set model.name=bert", f"--set model.name: got 'bert', {RECIPES}"),
}


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a stranger, in the folder of the command."""
    texts = {
        "my-bert/config.json": ["{}"],
        "other.csv": ["mood,review", *(f"{'ab'[number % 2]},film" for number in range(40))],
        "numbers.csv": ["text,label", *(f"film,{number}.5" for number in range(100))],
        "nested.jsonl": [json.dumps({"review": {"body": "a film"}, "meta": {"label": "ab"[n % 2]}}) for n in range(40)],
    }
    texts["corpus.tsv"] = ["A dog runs over the wet grass.\tEin Hund rennt."] * 40
    texts |= {f"sounds/{name}.tsv": ["audio\ttranscript", "1.wav\tone"] for name in ("train", "dev")}
    texts["photos/captions.txt"] = ["image,caption", *["1.pgm,a dot, and no more"] * 40]
    for name in ("sounds/clips", "photos/Images", "my-bert"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "photos" / "Images" / "1.pgm").write_bytes(b"P5 1 1 255 \0")
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name in ("a", "b"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        (tmp_path / "pictures" / name / "1.pgm").write_bytes(b"P5 1 1 255 \0")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_in_training(name: str, strange: Path, regard: Regard):
    arguments, said = CASES[name]
    code, _, errors = regard("train", *arguments.split(), "--out", "run")
    assert (code, said in errors.splitlines(keepends=True)[-1]) == (2, True), errors
    assert not (strange / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["evaluate", "{run}", "other.tsv"], "there are 'a', 'b'; name yours with --columns SOURCE,TARGET"),
        (["show", "{run}", "5 May", "--view", "document"], 'Invalid value "document" for --view. Choose from: "matr'),
        (["show", "{run}", "5 May", "--view"], "--view"),
    ],
    ids=["evaluation of other columns", "a view of another run", "an option without a value"],
)
def test_a_mistake_with_a_run(arguments: list[str], said: str, run: Path, strange: Path, regard: Regard):
    (strange / "other.tsv").write_text("a\tb\n5 May 2018\t2018-05-05\n", encoding="utf-8")
    code, _, errors = regard(*(each.replace("{run}", str(run)) for each in arguments))
    assert code == 2
    assert said in errors


def test_a_picture_without_a_name(run: Path, strange: Path, regard: Regard, monkeypatch: pytest.MonkeyPatch):
    name = f"{run.name}-attention"
    for more, expected in (
        ([], f"{name}.png"),
        (["--kind", "norms", "--kind", "weights"], f"{name}.html"),
        (["--compare-text", "3 May 2018"], f"{name}.html"),
    ):
        result = "page" if expected.endswith("html") else "picture"
        assert regard("show", str(run), "5 May 2018", *more)[1].endswith(f"The {result} is {expected}.\n")
        assert (strange / expected).is_file()
    monkeypatch.setattr("regard.cli.show.find_spec", lambda name: None)
    assert regard("show", str(run), "5 May 2018")[1].endswith(f"The page is {name}.html.\n")


TINY = {
    "spans": "model.layers=1 model.width=8 model.heads=2 model.hidden=8 data.train=q.csv data.answer=answer",
    "spoken-digits": "model.reader=8 model.width=8 model.attention=8 data.train=sounds.csv masking.time=0",
    "vit": "model.layers=1 model.width=8 model.heads=2 model.hidden=8 data.train=pictures",
}
BAD = {
    "spans": ("q.csv:3: the answer 'the Cat' is not in the context; correct it", "q.csv: skipped 1 of 40 records"),
    "spoken-digits": (
        "sounds.csv:3: bad.wav: cut short, its header promises 4,000 samples but it has 978",
        "sounds.csv: skipped 1 of 40 records",
    ),
    "vit": ("pictures/c/1.png: broken, truncated or unusual image", "pictures: skipped 1 of 40 records"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """40 records of each kind, one of them bad, in the folder of the command."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    for label in "abcdefgh":
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for number in range(5):
            pixels = np.full((16, 16), 16 * number + ord(label), np.uint8)
            image.fromarray(pixels).save(tmp_path / "pictures" / label / f"{number}.png")
    broken = (tmp_path / "pictures" / "c" / "1.png").read_bytes()[:50]
    (tmp_path / "pictures" / "c" / "1.png").write_bytes(broken)
    for number in range(40):
        with wave.open(str(tmp_path / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 4000, "NONE", ""))
            file.writeframes(np.full(4000, 99 * number, "<i2").tobytes())
    (tmp_path / "bad.wav").write_bytes((tmp_path / "1.wav").read_bytes()[:2000])
    rows = ["question,context,answer", *[f"Who won {n}?,The cat won {n}.,The cat" for n in range(40)]]
    rows[2] = "Who won 1?,The cat won 1.,the Cat"
    write("q.csv", rows)
    rows = ["audio,transcript", *[f"{number}.wav,one two" for number in range(40)]]
    rows[2] = "bad.wav,one two"
    write("sounds.csv", rows)
    return tmp_path


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def options(recipe: str, *more: str) -> list[str]:
    settings = [*TINY[recipe].split(), "training.steps=1", "training.batch_tokens=256", *more]
    return [part for each in settings for part in ("--set", each)]


@pytest.mark.parametrize("recipe", BAD)
def test_a_bad_record_is_refused_or_skipped(recipe: str, folder: Path, regard: Regard):
    said, counted = BAD[recipe]
    code, _, errors = regard("train", recipe, "--out", "run", *options(recipe))
    assert code == 2, errors
    assert said in errors.splitlines()[-1]
    assert errors.splitlines()[-1].endswith(" or leave such records out with --set data.skip_bad=true")
    code, _, errors = regard("train", recipe, "--out", "run", *options(recipe, "data.skip_bad=true"))
    assert code == 0, errors
    assert errors.count("skipped") == errors.count(f"regard: {counted} (first: ") == 1
    file = next(each.removeprefix("data.train=") for each in TINY[recipe].split() if each.startswith("data.train="))
    code, _, errors = regard("evaluate", "run", file, "--skip-bad")
    assert code == 0, errors
    assert counted in errors


def test_a_bad_record_of_an_evaluation_names_its_own_option(folder: Path, regard: Regard):
    Path("good.csv").write_text(Path("q.csv").read_text().replace("the Cat", "The cat"))
    code, _, errors = regard("train", "spans", "--out", "run", *options("spans", "data.train=good.csv"))
    assert code == 0, errors
    code, _, errors = regard("evaluate", "run", "q.csv")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert errors.rstrip().endswith("is not in the context; correct it, or leave such records out with --skip-bad")


def test_bad_records_are_skipped_before_some_are_held_out(folder: Path, regard: Regard):
    write("two.csv", ["audio,transcript", "1.wav,one", "bad.wav,two", "3.wav,three", "bad.wav,four"])
    code, _, errors = regard(
        "train",
        "spoken-digits",
        "--out",
        "run",
        *options("spoken-digits", "data.train=two.csv", "data.skip_bad=true", "training.batch_tokens=51"),
    )
    assert "two.csv: skipped 2 of 4 records" in errors
    assert code == 0, errors
    assert "1 sound, 0.00 hours to train on, 1 to validate" in errors


def test_a_bad_record_is_pickled():
    error = BadRecord("t.csv:3: bad")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
