"""Runs and recipes are listed, drawn and shown in a session."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import regard
from docs.making.settings import find_titles, make_pages
from regard.data.batches import collate
from regard.errors import InputError
from regard.maps import Alignment
from regard.maps.lookups import Lookups
from regard.runs.listing import read_record
from regard.runs.recipes import names, path_of
from regard.runs.run_file import make_schema
from regard.storage.run_folder import RunDirectory
from regard.tasks.classification.inputs import collate_marked


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """A folder with a run, a better one of more steps, and one that was interrupted."""
    for name in ("one", "two", "below/three"):
        shutil.copytree(run, tmp_path / name)
    changed(tmp_path / "two", {"steps": 5, "test/exact-match": 90.0})
    with RunDirectory.create(tmp_path / "below" / "three", resume=True) as directory:
        directory._manifest.files.pop("result.json")
        directory._manifest.write()
        (directory.path / "result.json").unlink()
    return tmp_path


def changed(run: Path, figures: dict[str, float]) -> None:
    with RunDirectory.create(run, resume=True) as directory:
        directory.write_json("result.json", directory.read_json("result.json") | figures)
        directory.write_text("config.yaml", directory.read_text("config.yaml").replace("steps: 3", "steps: 5"))


def test_the_runs_of_a_folder(folder: Path, regard):
    code, output, errors = regard("runs", str(folder))
    assert (code, errors) == (0, "")
    header, *rows = output.splitlines()
    assert header.split() == ["run", "task", "model", "steps", "figure", "parameters", "date", "size"]
    assert [row.split()[0] for row in rows] == [str(folder / name) for name in ("below/three", "one", "two")]
    assert "  seq2seq  bahdanau  3 of 3  valid/exact-match" in rows[0]
    assert "  seq2seq  bahdanau  5       test/exact-match 90  " in rows[2]


def test_runs_as_json(folder: Path, regard):
    code, output, _ = regard("runs", str(folder / "two"), str(folder / "one"), "--json")
    records = json.loads(output)
    assert (code, len(records), records[0]["figures"]["test/exact-match"]) == (0, 2, 90.0)
    assert records[0]["size"] == read_record(folder / "two").size > 0


def test_what_a_run_is_and_can_do(run: Path, regard):
    code, output, errors = regard("info", str(run))
    rows = {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in output.splitlines()}
    assert (code, errors) == (0, "")
    assert [*rows] == ["task", "model", "parameters", "can", "maps"]
    assert rows["task"] == "seq2seq. Writes the output for a text, such as its translation."
    assert (rows["model"], rows["maps"]) == ("bahdanau", "weights, gradient, integrated, norms, effect")
    assert rows["parameters"].replace(",", "").isdecimal()
    assert "predict" in rows["can"]


def test_a_folder_that_is_not_there(regard, tmp_path: Path):
    code, _, errors = regard("runs", str(tmp_path / "nowhere"))
    assert (code, "no such folder; expected" in errors) == (2, True)
    code, _, errors = regard("runs", str(tmp_path))
    assert (code, "has no runs; `regard train RECIPE` makes one" in errors) == (2, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_names_commands_and_options(shell: str, regard):
    code, output, errors = regard("completion", shell)
    assert (code, errors) == (0, "")
    for text in ("predict", "evaluate", "n-best"):
        assert text in output


def test_every_recipe_has_a_description():
    assert {"dates", "dates-luong", "dates-transformer", "dates-bottleneck"} <= set(names())
    assert all(description and not description.startswith("#") for description in names().values())


def test_a_file_wins_over_a_recipe_and_a_folder_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("dates").mkdir()
    Path("dates/config.json").touch()  # a published model
    assert path_of("dates").is_file()
    Path("dates").rename("model")
    Path("dates").write_text("mine", encoding="utf-8")
    assert path_of("dates") == Path("dates")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("daets", "'daets' is neither a recipe nor a file; did you mean 'dates'? The recipes are "),
        ("zzz", "'zzz' is neither a recipe nor a file; expected one of 'bandits', 'bert', 'bitext'"),
        ("some/dates.yaml", "some/dates.yaml: no such file; expected a YAML file, or a recipe: bandits, bert, bitext,"),
    ],
)
def test_neither_a_recipe_nor_a_file(given: str, said: str):
    with pytest.raises(InputError) as caught:
        path_of(given)
    assert str(caught.value).startswith(said)


def test_the_recipes_are_listed(regard):
    code, output, errors = regard("recipes")
    assert (code, errors) == (0, "")
    assert [line.split()[0] for line in output.splitlines()] == list(names())


def test_a_run_and_its_results_are_shown_in_a_line(run: Path):
    model = regard.load(run)
    assert repr(model).startswith("<Seq2SeqRun: seq2seq, Bahdanau, ")
    assert repr(model).endswith(" parameters>")
    (prediction,) = model.predict(["14 July 1989"], n_best=2, beam=2)
    assert repr(prediction) == f"<GeneratedText {prediction.text}>"
    assert repr(model.attribute("14 July 1989")).startswith("<Attribution of ")
    for each in (model, prediction, model.attribute("14 July 1989")):
        assert len(repr(each)) < 200


def test_maps_and_batches_are_a_line_without_their_numbers():
    weights = np.full((2, 3, 5, 7), 1 / 7)
    source, target = tuple("abcdefg"), tuple("vwxyz")
    assert repr(Lookups(weights, source, target)) == "<Lookups with weights of shape (2, 3, 5, 7)>"
    assert repr(Alignment(weights[0, 0], source, target)) == "<Alignment with weights of shape (5, 7)>"
    assert repr(collate([([7, 11, 13], [5]), ([7], [8, 9])])) == (
        "PairBatch(source=int64[2, 4], source_lengths=int64[2], target_in=int64[2, 3], target_out=int64[2, 3], "
        "target_lengths=int64[2], target_tokens=5)"
    )
    assert len(repr(collate_marked([(([7, 11], [5]), 0), (([7], [8, 9, 10]), 2)]))) < 150


def test_every_key_has_a_row_in_the_pages_of_settings():
    schema = make_schema()
    text, titles = "\n".join(make_pages(schema).values()), find_titles(schema)
    assert len({title for _, title in titles.values()}) == len(titles) == len(schema["$defs"])
    sections = {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}
    for name, section in schema["$defs"].items():
        for key in section["properties"]:
            assert f"| `{key}` |" in sections[titles[name][1]]
