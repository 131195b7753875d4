"""Classifiers whose run file takes the states of a trained ELMo as their embedding."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from regard import load
from regard.data.batches import spell_vocabulary
from regard.errors import InputError
from regard.models.elmo import ElmoEmbedding, ElmoStates, make_embedding
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.bidirectional_language_model import ElmoRun
from regard.tasks.classification.run import ClassificationRun

ELMO = "{name: elmo, characters: 9, character_width: 5, filters: [[2, 7]], projection: 6, cell: 11, dropout: 0.0}"
COMMON = ["training.threads=1", "training.precision=fp32", "training.batch_tokens=64", "training.validate_every=0"]
FLAT = "name: flat-attention, width: 7, attention: 5, dropout: 0.0"
MODELS = {
    "flat": "{" + FLAT + ", embedding: {elmo: ELMO}}",
    "rocktaschel": "{name: rocktaschel, width: 7, dropout: 0.0, embedding: {elmo: ELMO}}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ELMo, and texts that tell of money or of water, alone and in pairs."""
    folder = tmp_path_factory.mktemp("states")
    texts = [f"{word} here ." for word in ("money", "loans", "water", "waves")] * 10
    (folder / "text.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    rows = [{"text": text, "second": "so it is", "label": "bank" if text[0] in "ml" else "river"} for text in texts]
    (folder / "table.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    steps = [
        "training.steps=60",
        "training.learning_rate=2e-2",
        "training.warmup=5",
        *COMMON,
        f"model={ELMO}",
        "window=5",
    ]
    launch.train(run_file.read(path_of("elmo"), [f"data.train={folder / 'text.txt'}", *steps]), folder / "elmo")
    return folder


def config(folder: Path, model: str, *more: str) -> run_file.RunConfig:
    table = folder / "table.jsonl"
    second = ["data.second=second"] if "rocktaschel" in model else []
    given = [f"data.train={table}", f"data.test={table}", *second, "tokenizer={kind: space, size: 50}"]
    steps = ["training.steps=60", "training.warmup=1", "training.learning_rate=2e-2", *COMMON]
    chosen = f"model={model.replace('ELMO', str(folder / 'elmo'))}"
    return run_file.read(path_of("reviews"), [*given, *steps, chosen, *more])


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_it_learns_and_is_whole_without_the_run_it_read(model: str, folder: Path, tmp_path: Path):
    """Its ELMo stays what it was, and only the mix of its layers is learned."""
    shutil.copytree(folder, tmp_path / "all")
    given = tmp_path / "all"
    elmo = load(given / "elmo", "cpu", task=ElmoRun).model
    result = launch.train(config(given, model), tmp_path / "run")
    shutil.rmtree(given / "elmo")
    run = load(tmp_path / "run", "cpu", task=ClassificationRun)
    assert result["test/accuracy"] == 100
    assert run.evaluate()["accuracy"] == 100
    embedding = run.model.get_submodule("embedding")
    assert isinstance(embedding, ElmoEmbedding)
    kept = {name: tensor for name, tensor in elmo.state_dict().items() if not name.startswith("output.")}
    assert kept.keys() == embedding.elmo.state_dict().keys()
    assert all(torch.equal(embedding.elmo.state_dict()[name], tensor) for name, tensor in kept.items())
    assert embedding.mix.gamma != 1
    assert torch.equal(embedding.spellings.long(), spell_vocabulary(run.tokenizer, 9))


def test_it_goes_on_and_is_started_from_without_the_run_it_read(folder: Path, tmp_path: Path):
    """The run file has the sizes by then, and the checkpoint all weights."""
    shutil.copytree(folder, tmp_path / "all")
    launch.train(config(tmp_path / "all", MODELS["flat"], "training.steps=4"), tmp_path / "run")
    shutil.rmtree(tmp_path / "all" / "elmo")
    again = run_file.read(tmp_path / "run" / "config.yaml")
    launch.train(again, tmp_path / "run", resume=True)
    started = [f"training.start={tmp_path / 'run'}", "tokenizer=null", "model=null", "training.steps=2"]
    launch.train(config(tmp_path / "all", MODELS["flat"], *started), tmp_path / "next")
    one, other = (load(tmp_path / name, "cpu", task=ClassificationRun).model.state_dict() for name in ("run", "next"))
    kept = [name for name in one if name.startswith("embedding.elmo.")]
    assert kept
    assert all(torch.equal(one[name], other[name]) for name in kept)


def test_what_is_refused(folder: Path, tmp_path: Path):
    out = tmp_path / "run"
    with pytest.raises(InputError, match=r"tokenizer.kind is bpe; model.embedding.elmo reads words, expected word or"):
        config(folder, MODELS["flat"], "tokenizer={kind: bpe, size: 300}")
    launch.train(config(folder, "{" + FLAT + ", embedding: 5}", "training.steps=1"), tmp_path / "other")
    chosen = f"model={{{FLAT}, embedding: {{elmo: {tmp_path / 'other'}}}}}"
    with pytest.raises(InputError, match="other is a run of the task classification; expected one of bidirectional"):
        launch.train(config(folder, "{" + FLAT + ", embedding: 5}", chosen), out)
    assert not out.exists()
    with pytest.raises(InputError, match=r"model\.embedding"):
        config(folder, "{" + FLAT + ", embedding: much}")
    with pytest.raises(ValueError, match=r"the sizes of the ELMo in there are not known"):
        make_embedding(5, ElmoStates("there"), 0.0)
