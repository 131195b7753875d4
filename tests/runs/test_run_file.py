"""Run files: what they refuse before any data is read, and that a resolved one says the same as its source."""

import json
from contextlib import redirect_stdout
from dataclasses import fields, is_dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
import yaml
from pydantic_core import to_jsonable_python

from regard.attention.align import Align
from regard.cli.main import main
from regard.data.pairs import Parallel
from regard.data.usual_columns import recognize_columns
from regard.errors import InputError
from regard.models.catalog import MODELS
from regard.runs import run_file
from regard.runs.recipes import names, path_of
from regard.runs.run_file import RunConfig
from regard.tasks.seq2seq.run import Seq2Seq

RUN = """task: seq2seq
data: {{kind: parallel, train: [a, b], valid: [c, d]}}
tokenizers:
  source: {{kind: character}}
  {tokenizers}
model:
  {model}
metrics: [{metrics}]
"""
FILES = ["data.train=[a, b]", "data.valid=[c, d]"]
"""What the recipes for translation leave to the user."""
PLAIN = {"tokenizers": "target: {kind: character}", "model": "name: bahdanau", "metrics": "bleu"}


def test_a_number_that_is_the_name_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "13").mkdir()
    assert run_file.read(path_of("spoken-digits"), ["data.train=13"]).data.train == 13
    assert run_file.read(path_of("spoken-digits"), ["data.train=./13"]).data.kind == "speech"
    data = run_file.read(path_of("vit"), ["data.train=13"]).data
    assert (data.kind, data.train) == ("image-folders", "13")


@pytest.mark.parametrize(
    ("recipe", "content", "columns"),
    [
        ("classify", "review,sentiment\na,b\n", {"text": "review", "label": "sentiment"}),
        (
            "classify",
            "id,Premise,hypothesis,gold_label\n1,a,b,c\n",
            {"text": "Premise", "second": "hypothesis", "label": "gold_label"},
        ),
        (
            "multi-label",
            "id,comment_text,toxic,rude\n7,a,0,1\n8,b,1,0\n",
            {"text": "comment_text", "label": ("toxic", "rude")},
        ),
        (
            "multi-label",
            'plot,genre\na,"x, y"\nb,"y, x"\nc,x\nd,y\n',
            {"text": "plot", "label": "genre", "separator": ","},
        ),
        ("translate-rnn", "id,en,de\n1,a,b\n", {"source": "en", "target": "de"}),
        ("translate-rnn", "a\tb\tCC-BY 2.0\nc\td\tCC-BY 2.0\n", {"source": 1, "target": 2}),
        ("summarise", "article,highlights\na,b\n", {"source": "article", "target": "highlights"}),
        ("captions", "file_name,caption\na.png,b\n", {"image": "file_name", "captions": "caption"}),
        ("spoken-digits", "file_name,transcription\na.wav,b\n", {"audio": "file_name", "transcript": "transcription"}),
        ("classify", "text,label,sentiment\na,b,c\n", {"text": "text", "label": "label"}),
        ("classify", "words,mood\na,b\n", {"text": "text", "label": "label"}),
    ],
)
def test_usual_columns_are_recognized(recipe: str, content: str, columns: Any, tmp_path: Path, caplog: Any):
    """Unless somebody named one; and the run file has them, so that a later evaluation needs none."""
    caplog.set_level("INFO")
    path = tmp_path / "rows.csv"
    path.write_text(content, encoding="utf-8")
    settings = [f"data.train={path}"]
    data = run_file.read(path_of(recipe), settings, is_new=True).data
    assert {key: getattr(data, key) for key in columns} == columns
    changed = any(column not in ("text", "label") for column in columns.values())
    assert any("using column" in line for line in caplog.messages) == changed
    key = next(iter(columns))
    named = [*settings, f"data.{key}=mine"]
    assert getattr(run_file.read(path_of(recipe), named, is_new=True).data, key) == "mine"
    path.write_bytes(b"\0")  # the run file of a run reads no data
    run_file.read(path_of(recipe), settings)


@pytest.mark.parametrize(
    ("recipe", "name", "content", "columns"),
    [
        ("classify", "a.jsonl", '{"review": "a", "sentiment": "b"}', {"text": "review", "label": "sentiment"}),
        ("classify", "a.json", '[{"Text": "a", "Label": "b"}]', {"text": "Text", "label": "Label"}),
        ("esim", "a.tsv", "gold_label\tsentence1\tsentence2\na\tb\tc", {"label": "gold_label"}),
        ("classify", "a.txt", "content,class\na,b", {"text": "content", "label": "class"}),
        ("translate-rnn", "a.tsv", "id\ten\tde\n1\ta\tb", {"source": "en", "target": "de"}),
        (
            "translate-rnn",
            "a.jsonl",
            '{"translation": {"de": "a", "en": "b"}}',
            {"source": "translation.de", "target": "translation.en"},
        ),
        (
            "spans",
            "a.jsonl",
            '{"question": "a", "context": "b", "answers": {"text": ["b"], "answer_start": [0]}}',
            {"answer": "answers.text", "answer_start": "answers.answer_start"},
        ),
        ("tagging", "a.conllu", "1\ta\ta\tDET\n\n", {"word": 2, "tag": 4}),
    ],
)
def test_usual_columns_of_other_files(recipe: str, name: str, content: str, columns: Any, tmp_path: Path):
    path = tmp_path / name
    path.write_text(content + "\n", encoding="utf-8")
    settings = [f"data.train=[{path}]" if recipe == "spans" else f"data.train={path}"]
    if recipe == "translate-rnn":
        settings = [f"data={{kind: table, train: {path}}}"]
    section = run_file.read(path_of(recipe), settings).data
    assert recognize_columns(section, ()).items() >= columns.items()


def test_rows_without_a_gold_label_are_left_out(tmp_path: Path, caplog: Any):
    caplog.set_level("INFO")
    path = tmp_path / "snli.tsv"
    path.write_text("gold_label\tsentence1\tsentence2\n" + "same\ta\tb\n-\tc\td\n" * 10, encoding="utf-8")
    config = run_file.read(path_of("esim"), [f"data.train={path}"], is_new=True)
    assert {row.label for row in config.data.load().train} == {"same"}
    assert {"using '-' as ignore", f"{path}: 10 of 20 rows left out"} <= {*caplog.messages}
    kept = run_file.read(path_of("esim"), [f"data.train={path}", "data.ignore=null"], is_new=True)
    assert {row.label for row in kept.data.load().train} == {"same", "-"}


def test_a_document_of_squad_has_no_columns_to_recognize(tmp_path: Path):
    path = tmp_path / "train.json"
    path.write_text('{"data": []}', encoding="utf-8")
    assert run_file.read(path_of("spans"), [f"data.train=[{path}]"], is_new=True).data.question == "question"


def write(folder: Path, **parts: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(RUN.format(**{**PLAIN, **parts}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("parts", "line", "said"),
    [
        (
            {"model": "{name: transformer, width: 6, heads: 4, shared: false}"},
            6,
            "model: width 6 is not divisible by heads 4",
        ),
        ({"model": "{name: luong, width: 7, bidirectional: true}"}, 6, "model: width 7 is odd"),
        ({"model": "name: transformer"}, 1, "model.shared needs one vocabulary; set tokenizers.shared: true"),
        ({"metrics": ""}, 1, "`metrics` is empty; name at least one"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_before_data_is_read(
    parts: dict[str, str],
    line: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(Parallel, "load", lambda self: pytest.fail("data was read"))
    path = write(tmp_path, **parts)
    code = main(["train", str(path), "--out", str(tmp_path / "run")])
    errors = capsys.readouterr().err
    assert (code, len(errors.splitlines())) == (2, 1)
    assert errors.startswith(f"regard: {path}:{line}: {said}")
    assert not (tmp_path / "run").exists()


def recipe(name: str) -> RunConfig:
    return run_file.read(path_of(name), needed(name))


def needed(name: str) -> list[str]:
    """What a recipe leaves to the user, as overrides."""
    text = ["data.train=text.txt"]
    needed = {"translate": FILES, "summarise": ["data.train=a.jsonl", "data.valid=b.jsonl"]}
    needed |= {"language": text, "elmo": text, "characters": text, "dialogue": text}
    needed |= {"squad": ["data.train=[a.json, b.jsonl]", "data.valid=[c.json]"], "classify": ["data.train=a.tsv"]}
    needed |= {"vit": ["data.train=a-images-idx3"], "captions": ["data.train=a.jsonl", "data.split=split"]}
    needed |= {
        name: ["data.train=a.tsv"]
        for name in ("reviews", "entailment", "esim", "regression", "relatedness", "multi-label")
    }
    needed |= {name: ["data.train=[a.json]", "data.valid=[b.json]"] for name in ("spans", "span-reader")}
    many = [f"data.{part}=[a, b, c]" for part in ("train", "valid")]
    needed["translate-many"] = ["data.languages=[de, fr]", *many]
    return needed.get(name) or needed.get(name.split("-")[0], [])


def test_summaries_never_have_the_unknown_word():
    found = recipe("summarise")
    assert isinstance(found, Seq2Seq)
    assert found.search.logits_processors == ("no-unknown",)


@pytest.mark.parametrize(
    ("name", "written", "made"),
    [
        ("dates", "{name: hard, soft_share: 0.5}", ("Hard", {"soft_share": 0.5})),
        ("dates-luong", "{name: straight-through, temperature: 2}", ("StraightThrough", {"temperature": 2.0})),
        ("translate-rnn", "{name: monotonic, offset: -3, noise: 0}", ("Monotonic", {"offset": -3.0, "noise": 0.0})),
        ("dates-transformer", "{name: hard}", ("Hard", {"soft_share": 0.0})),
        ("summarise", "monotonic", ("Monotonic", {"offset": -1.0, "noise": 1.0})),
    ],
)
def test_an_alignment_with_numbers_of_its_own(name: str, written: str, made: tuple[str, dict], tmp_path: Path):
    paths = {"translate-rnn": FILES, "summarise": ["data.train=a.jsonl", "data.valid=b.jsonl"]}.get(name, [])
    run = run_file.read(path_of(name), [*paths, f"model.align={written}"])
    assert isinstance(run, Seq2Seq)
    (tmp_path / "resolved.yaml").write_text(run_file.dump(run), encoding="utf-8")
    assert run_file.read(tmp_path / "resolved.yaml") == run
    model = MODELS.build(run.model, 11, 11)
    found = {type(each).__name__: each for each in model.decoder.modules() if isinstance(each, Align)}
    align = found[made[0]]
    assert {number: torch.as_tensor(getattr(align, number)).item() for number in made[1]} == made[1]


@pytest.mark.parametrize(
    ("name", "written", "said"),
    [
        ("dates", "align={name: straight-through, temperature: 0}", "align.temperature: got 0, expected a number > 0"),
        ("dates", "align={name: hard, noise: 1}", "align.noise: unknown key"),
        ("dates", "align={name: hrad}", "align.name: got 'hrad', expected one of hard, straight-through, monotonic; "),
        ("dates", "align=[hard]", "align: got ['hard'], expected text or a mapping"),
        ("characters-gpt2", "score=dott", "score: got 'dott', expected dot, general, concat, "),
        ("classify", "score=location", "score: got 'location', expected dot, general, concat, "),
        ("dates-transformer", "self_align=hard", "self_align: got 'hard', expected softmax, sparsemax, "),
    ],
)
def test_an_unknown_score_or_alignment_and_wrong_numbers(name: str, written: str, said: str):
    data = [] if name.startswith("dates") else ["data.train=a"]
    with pytest.raises(InputError) as error:
        run_file.read(path_of(name), [*data, f"model.{written}"])
    assert f"model.{said}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", names())
def test_recipes_load_and_their_resolved_form_is_equal(name: str, tmp_path: Path):
    """Every default is written out, so a later default changes no old run."""
    run = recipe(name)
    resolved = tmp_path / "config.yaml"
    resolved.write_text(run_file.dump(run), encoding="utf-8")
    assert run_file.read(resolved) == run
    assert run_file.dump(run_file.read(resolved)) == run_file.dump(run)
    check_all_fields(run, yaml.safe_load(run_file.dump(run)))


def check_all_fields(config: Any, written: Any) -> None:
    """Every field of a configuration, and of those in it, stands in the file."""
    assert set(written) == {each.name for each in fields(config)}
    for name, value in written.items():
        if is_dataclass(inner := getattr(config, name)):
            check_all_fields(inner, value)


def test_files_of_ones_own_replace_data_of_another_kind(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """The kind of data follows `data.train`; what is left out of a recipe's data is an example, of a file a line."""
    caplog.set_level("INFO", "regard")
    (tmp_path / "folder").mkdir()
    folder = tmp_path / "folder"
    cases = {
        ("dates", "a.csv"): "table",
        ("translate-rnn", "a.tsv"): "table",
        ("dates", "[a.de, a.en]"): "parallel",
        ("squad", "a.csv"): "squad",
        ("vit", str(folder)): "image-folders",
        ("few-shot", str(folder)): "class-folders",
        ("scenes", str(folder)): "captions",
        ("captions", str(folder)): "captions",
        ("topics", "a.jsonl"): "labelled",
    }
    for (recipe, train), kind in cases.items():
        overrides = [f"data.train={train}", "training.steps=5"]
        more = ["augmentation.flip=false"] if recipe == "scenes" else []
        assert run_file.read(path_of(recipe), [*overrides, *more]).data.kind == kind
    assert "data.kind is" not in caplog.text
    own, recipe = tmp_path / "own.yaml", path_of("vit").read_text(encoding="utf-8")
    own.write_text(recipe.replace("data: {kind: idx}", "data: {kind: idx, classes: [a, b]}"), encoding="utf-8")
    run_file.read(own, [f"data.train={folder}"])
    assert caplog.text.count("data.kind is image-folders, which has no classes: what own.yaml sets there") == 1
    assert run_file.read(path_of("translate-rnn"), ["model.name=transformer"]).model.name == "transformer"
    assert "model.name is transformer, which has no encoder_width and no encoder_layers: what " in caplog.text


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    with redirect_stdout(StringIO()) as output:
        assert main(["schema"]) == 0
    return json.loads(output.getvalue())


@pytest.mark.slow
def test_every_recipe_fits_and_an_unknown_key_does_not(schema: dict[str, Any]):
    for name in names():
        values = to_jsonable_python(recipe(name))
        jsonschema.validate(values, schema, jsonschema.Draft202012Validator)
        values["training"]["stepz"] = 3
        with pytest.raises(jsonschema.ValidationError, match="stepz"):
            jsonschema.validate(values, schema, jsonschema.Draft202012Validator)


def test_fields_have_the_meaning_of_their_docstring(schema: dict[str, Any]):
    assert schema["$defs"]["Training"]["properties"]["steps"]["description"] == "The number of updates."


def test_the_command_prints_a_recipe(capsys: pytest.CaptureFixture[str]):
    assert main(["new", "dates"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# yaml-language-server: $schema=regard.schema.json\n")
    assert "  steps: 700\n" in text
    assert main(["new", "daets"]) == 2
    assert "did you mean 'dates'?" in capsys.readouterr().err


def test_a_model_of_an_encoder_and_a_decoder_needs_no_name(tmp_path: Path):
    """Their own names choose their settings; options reach into both."""
    config = run_file.read(path_of("dates-mixed"), ["model.encoder.name=convolutional", "model.decoder.width=32"]).model
    assert (config.name, config.encoder.name, config.decoder.name) == ("pair", "convolutional", "luong")
    assert (config.encoder.layers, config.encoder.kernel, config.decoder.width) == (2, 3, 32)
    path = tmp_path / "run.yaml"
    path.write_text(run_file.dump(run_file.read(path_of("dates-mixed"))), encoding="utf-8")
    assert run_file.read(path) == run_file.read(path_of("dates-mixed"))
    with pytest.raises(InputError, match=r"model\.encoder\.name: got 'pretrained', expected one of bahdanau, luong"):
        run_file.read(path_of("dates-mixed"), ["model.encoder.name=pretrained"])
