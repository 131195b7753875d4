"""Published models, imported and trained on for tasks of their own."""

import json
from pathlib import Path

import pytest
import torch

from regard import load
from regard.hub import export_run, import_run
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.classification.run import ClassificationRun
from regard.tasks.extractive_qa.run import ExtractiveQARun
from tests.hub.published import BERTS, filler

QUICK = ["training.steps=3", "training.warmup=0", "training.batch_tokens=128", "training.threads=1"]
QUICK += ["training.precision=fp32", "training.validate_every=0", "training.average_decay=0.0", "tokenizer=null"]


@pytest.fixture
def imported(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    filler(tmp_path / "published", request.param, **BERTS[1])
    import_run(str(tmp_path / "published"), tmp_path / "imported")
    return tmp_path / "imported"


@pytest.mark.parametrize("imported", ["bert", "roberta", "distilbert"], indirect=True)
def test_classes_on_an_imported_encoder(imported: Path, tmp_path: Path):
    rows = [("the cat sat", "a"), ("the dog sat", "b")] * 40
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    settings = [f"data.train={tmp_path / 'train.tsv'}", f"training.start={imported}", "model=null", *QUICK]
    launch.train(run_file.read(path_of("classify"), settings), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=ClassificationRun)
    assert run.predict(["the cat sat"])[0].label in ("a", "b")
    before, after = (RunDirectory.open(each).load_tensors(WEIGHTS) for each in (imported, tmp_path / "run"))
    name = "encoder.layers.0.self_attention.query.weight"
    changed = (before[name] - after[name]).abs().max()
    assert 0 < changed < 0.01
    assert export_run(tmp_path / "run", tmp_path / "exported")[-1] == "transformers"


@pytest.mark.parametrize("imported", ["roberta", "distilbert"], indirect=True)
def test_classes_of_pairs_on_an_imported_encoder(imported: Path, tmp_path: Path):
    rows = [("the cat sat", "the mat", "a"), ("the dog sat", "the cat", "b")] * 40
    lines = ["first\tsecond\tlabel", *map("\t".join, rows)]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    settings = [f"data.train={tmp_path / 'train.tsv'}", f"training.start={imported}", "model=null", *QUICK]
    settings += ["data.text=first", "data.second=second"]
    launch.train(run_file.read(path_of("classify"), settings), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=ClassificationRun)
    assert run.predict([("the cat sat", "the mat")])[0].label in ("a", "b")
    assert export_run(tmp_path / "run", tmp_path / "exported")[-1] == "transformers"


@pytest.mark.parametrize("imported", ["bert", "roberta", "distilbert"], indirect=True)
def test_spans_on_an_imported_encoder(imported: Path, tmp_path: Path):
    lines = [{"context": "the cat sat", "question": "who?", "answer_text": "cat"}] * 20
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = [f"data.{part}=[{tmp_path / 'train.jsonl'}]" for part in ("train", "valid")]
    settings = [*data, f"training.start={imported}", "model=null", *QUICK]
    launch.train(run_file.read(path_of("spans"), settings), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=ExtractiveQARun)
    (found,) = run.predict([("who?", "the cat sat")])
    assert found.text == "the cat sat"[found.start : found.end]
    assert torch.isfinite(torch.tensor(found.score))
    assert export_run(tmp_path / "run", tmp_path / "exported")[-1] == "transformers"
