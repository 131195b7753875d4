"""Mistakes of a first hour whose messages were unclear once: each is refused with what to do, as a user meets it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Regard = Callable[..., tuple[int, str, str]]
RECIPES = "expected one of bahdanau, luong, bottleneck, one-pass, pointer-generator, transformer"
CASES = {
    "a warm-up longer than the training": (
        "dates --set training.steps=5 --set training.warmup=200",
        "--set training.steps and training.warmup: warmup is 200, and training ends after 5 updates (steps); lower "
        "warmup, such as to 1, or raise",
    ),
    "texts longer than the model": (
        "classify --set data.train=long.csv",
        "long.csv:3: 400 tokens and 2 special tokens, but the model takes 128; shorten it, or train with a "
        "larger model.context (--set truncate=true cuts such texts in training and prediction)",
    ),
    "nested JSON": (
        "classify --set data.train=nested.jsonl --set data.skip_bad=true",
        "nested.jsonl:1: no column 'text' and 'label', there are 'review.body', 'meta.label'; name yours "
        "with --set data.text=COLUMN and --set data.label=meta.label",
    ),
    "other columns": (
        "classify --set data.train=other.csv",
        "other.csv:1: no column 'text' and 'label', there are 'mood', 'review'; name yours with --set "
        "data.text=COLUMN and --set data.label=COLUMN (by number from 1 if the file has no header)",
    ),
    "a table without a header": (
        "classify --set data.train=bare.csv",
        "bare.csv:1: no column 'text' and 'label', there are '1', 'a slow film and much too long', 'x'; name yours "
        "with --set data.text=COLUMN and --set data.label=COLUMN (by number from 1 if the file has no header)",
    ),
    "a model whose parts need another tokenizer": (
        "dates --set model.name=transformer",
        "--set model.name: model.shared needs one vocabulary; set tokenizers.shared: true, or model.shared: false",
    ),
    "numbers as labels": (
        "classify --set data.train=numbers.csv",
        "numbers.csv: 90 of 90 training rows have a class of their own, such as '0.5'; expected a few classes: set "
        "data.label to their column, or learn numbers by the recipe regression",
    ),
    "lists of labels": (
        "classify --set data.train=lists.jsonl",
        "column 'label' is list, expected text",
    ),
    "no data of one file": (
        "classify",
        "data.train is not given; expected a table, as --set data.train=FILE",
    ),
    "no data of two files": (
        "translate-rnn",
        "data.train is not given; expected two text files, as --set 'data.train=[SOURCE, TARGET]', or a table with",
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
    "other columns of span answers": (
        "spans --set data.train=questions.csv",
        "no column 'answer_text', there are 'question', 'context', 'answer'; name yours with --set data.answer=answer",
    ),
    "one text file of a translation": (
        "translate-rnn --set data.train=a.de --set data.source=2",
        "--set data.train: got 'a.de', expected a list, as --set 'data.train=[A, B]'; files are read by kind parallel "
        "or table or squad; there is no such file: a.de",
    ),
    "a table without its ending": (
        "translate-rnn --set data.train=corpus.de --set data.source=2 --set data.target=1",
        "--set data.train: got 'corpus.de', expected a list, as --set 'data.train=[A, B]'; files are read by kind "
        "parallel or table or squad",
    ),
    "several files of one text": (
        "characters-gpt2 --set data.train=[a.txt,b.txt]",
        "--set data.train: got ['a.txt', 'b.txt'], expected text",
    ),
    "one language without a list": (
        "translate-many --set data.train=other.csv --set data.languages=de",
        "--set data.languages: got 'de', expected a list, as --set 'data.languages=[A, B]'",
    ),
    "no languages": (
        "translate-many --set data.train=other.csv",
        "--set data.languages: missing; set it in the file, or with --set KEY=VALUE",
    ),
    "a file instead of generated data": (
        "dates --set data.train=a.txt",
        "--set data.train: got 'a.txt', expected a whole number; files are read by kind parallel or table or squad",
    ),
    "a setting without its option": (
        "dates training.steps=5",
        "training.steps=5: a setting needs --set; did you mean --set training.steps=5?",
    ),
    "languages that are no names": (
        "translate-many --set data.train=other.csv --set data.languages=[m!d]",
        "--set data.languages: multiparallel: languages has 'm!d', which is no language's name; use letters",
    ),
    "a folder of sounds with tables of sets": (
        "spoken-digits --set data.train=sounds",
        "sounds: has several tables, such as dev.tsv, train.tsv; name that of each set with --set data.train=sounds/",
    ),
    "a folder of images below its table": (
        "captions --set data.train=photos/Images",
        "photos/Images: has no table of captions",
    ),
    "a column of captions": (
        "captions --set data.train=photos",
        "photos/captions.txt:1: no column 'captions', there are 'image', 'caption'; name yours with "
        "--set data.captions=caption",
    ),
    "a path that does not exist": (
        "spoken-digits --set data.train=nowhere",
        "--set data.train: got 'nowhere', expected a whole number; files are read by kind speech; there is no such "
        "file: nowhere",
    ),
    "a folder without files": (
        "spans --set data.train=pictures",
        "pictures: no file fits; name a file, a folder or a pattern",
    ),
    "a table of sentences without a header": (
        "translate-rnn --set data.train=corpus.tsv",
        "corpus.tsv:1: no column 'source' and 'target', there are 'A dog runs over the wet grass.', 'Ein Hund rennt.'; "
        "name yours with --set data.source=COLUMN and --set data.target=COLUMN (by number from 1 if",
    ),
    "dropout of a tokenizer that both sides share": (
        "translate-rnn --set data.train=corpus.tsv --set tokenizers.source.dropout=0 --set tokenizers.target.dropout=0",
        "--set tokenizers.target.dropout: tokenizers.target.kind: missing",
    ),
    "a model of another task": ("dates --set model.name=bert", f"--set model.name: got 'bert', {RECIPES}"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a stranger, in the folder of the command."""
    texts = {
        "long.csv": ["text,label", *(f"{'a film ' * 200},{'ab'[number % 2]}" for number in range(40))],
        "other.csv": ["mood,review", *(f"{'ab'[number % 2]},film" for number in range(40))],
        "numbers.csv": ["text,label", *(f"film,{number}.5" for number in range(100))],
        "nested.jsonl": [json.dumps({"review": {"body": "a film"}, "meta": {"label": "ab"[n % 2]}}) for n in range(40)],
        "lists.jsonl": [json.dumps({"text": "a film", "label": ["a", "b"]})] * 40,
        "questions.csv": ["question,context,answer", *["Who won?,The cat won.,The cat"] * 40],
    }
    texts["bare.csv"] = ["1;a slow film and much too long;x", "2;a good film, though long;y"] * 20
    texts["corpus.de"] = ["A dog.\tEin Hund."] * 40
    texts["corpus.tsv"] = ["A dog runs over the wet grass.\tEin Hund rennt."] * 40
    texts |= {f"sounds/{name}.tsv": ["audio\ttranscript", "1.wav\tone"] for name in ("train", "dev")}
    texts["photos/captions.txt"] = ["image,caption", *["1.pgm,a dot, and no more"] * 40]
    for name in ("sounds/clips", "photos/Images"):
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
def test_a_mistake_in_training(name: str, folder: Path, regard: Regard):
    arguments, said = CASES[name]
    code, _, errors = regard("train", *arguments.split(), "--out", "run")
    assert code == 2
    assert said in errors.splitlines()[-1]
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fill", "{run}", "5 [MASK]"], "does not fill blanks, but one of the recipe bert does; use this run with"),
        (["evaluate", "{run}", "other.tsv"], "there are 'a', 'b'; name yours with --columns SOURCE,TARGET"),
        (["show", "{run}", "5 May", "--view", "document"], 'Invalid value "document" for --view. Choose from: "matr'),
        (["show", "{run}", "5 May", "--view"], "--view needs a value: "),
    ],
    ids=[
        "blanks of a translation",
        "evaluation of other columns",
        "a view of another run",
        "an option without a value",
    ],
)
def test_a_mistake_with_a_run(arguments: list[str], said: str, run: Path, folder: Path, regard: Regard):
    (folder / "other.tsv").write_text("a\tb\n5 May 2018\t2018-05-05\n", encoding="utf-8")
    code, _, errors = regard(*(each.replace("{run}", str(run)) for each in arguments))
    assert code == 2
    assert said in errors


def test_a_picture_without_a_name(run: Path, folder: Path, regard: Regard, monkeypatch: pytest.MonkeyPatch):
    name = f"{run.name}-attention"
    for more, expected in (
        ([], f"{name}.png"),
        (["--kind", "norms", "--kind", "weights"], f"{name}.html"),
        (["--compare-text", "3 May 2018"], f"{name}.html"),
    ):
        assert regard("show", str(run), "5 May 2018", *more)[1].endswith(f"The picture is {expected}.\n")
        assert (folder / expected).is_file()
    monkeypatch.setattr("regard.cli.show.find_spec", lambda name: None)
    assert regard("show", str(run), "5 May 2018")[1].endswith(f"The picture is {name}.html.\n")
