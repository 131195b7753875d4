"""Published ELMos: read from files that the NumPy reference's weights are written to; what is wrong is told."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from huggingface_hub.utils import filter_repo_objects

from regard.errors import InputError
from regard.extras import how_to_install
from regard.hub import download as hub
from regard.hub import formats as regard_pretrained
from regard.hub import import_run
from regard.hub.formats.elmo import read
from regard.hub.formats.folder import Folder
from regard.hub.text_runs import build_model as of_a_run
from regard.models.elmo import Elmo, ElmoConfig
from regard.runs import load as runs
from regard.storage.tensors import load_into
from regard.tasks.bidirectional_language_model.run import ElmoRun
from regard.text import Tokenizer, TokenizerSettings
from tests.oracle import elmo
from tests.oracle.test_elmo import TEXTS, batch, spelled

OPTIONS, WEIGHTS = "small_options.json", "small_weights.hdf5"
Spoil = Callable[[Path], object]


def publish(folder: Path, options: dict[str, Any], **more: Any) -> Path:
    """The files of a model, and more datasets."""
    folder.mkdir(exist_ok=True)
    (folder / OPTIONS).write_text(json.dumps(options), encoding="utf-8")
    with h5py.File(folder / WEIGHTS, "w") as file:
        for name, array in (elmo.weights(options) | more).items():
            file[name] = array
    return folder


def build_model(folder: Path) -> tuple[Elmo, Mapping[str, torch.Tensor]]:
    """The model without its weights, and these."""
    opened = read(Folder(folder))
    assert isinstance(opened.config, ElmoConfig)
    return Elmo(opened.tokenizer.size, opened.config).eval(), opened.tensors


@pytest.mark.parametrize("options", elmo.ODD, ids=["plain", "cut", "small"])
@torch.no_grad()
def test_what_is_read_computes_the_same(options: dict[str, Any], tmp_path: Path):
    model, tensors = build_model(publish(tmp_path, options))
    model = model.double()
    load_into(model, tensors)
    size = options["char_cnn"]["max_characters_per_token"]
    given = batch(TEXTS, size)
    found = model(*given)
    for row, text in enumerate(TEXTS):
        wanted = elmo.states(options, elmo.weights(options), spelled(text, size))
        np.testing.assert_allclose(found[:, row, : wanted.shape[1]].numpy(), wanted, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(of_a_run(read(Folder(tmp_path)))(*given), found.float(), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_run_of_it(tmp_path: Path, regard):
    """Words of any text, cut at blanks and marks, each text between its own marks."""
    publish(tmp_path / "published", elmo.ODD[0])
    code, output, _ = regard("import", str(tmp_path / "published"), "--out", str(tmp_path / "run"))
    assert (code, "regard embed" in output) == (0, True)
    run = runs.load(tmp_path / "run", "cpu", task=ElmoRun)
    found, _ = run.embed_words([TEXTS[1], "dog"])
    assert found.words == TEXTS[1].split()
    wanted = elmo.states(elmo.ODD[0], elmo.weights(elmo.ODD[0]), spelled(TEXTS[1], 50))
    np.testing.assert_allclose(found.states.numpy(), wanted[:, 1:-1], rtol=1e-4, atol=1e-5)
    assert run.embedding(Tokenizer.train(TokenizerSettings("word"), TEXTS)).width == 14
    for problem in (run.evaluate, lambda: run.evaluate(["dog"])):
        with pytest.raises(InputError, match="this model predicts no words"):
            problem()
    code, _, errors = regard("export", str(tmp_path / "run"), "--out", str(tmp_path / "exported"))
    assert (code, "regard exports gpt2, llama, bert, transformer and vit" in errors) == (2, True)


def test_every_parameter_is_told(tmp_path: Path):
    model, tensors = build_model(publish(tmp_path, elmo.ODD[0]))
    assert set(tensors) == set(model.state_dict())


def change(folder: Path, part: str, **values: Any) -> None:
    given = json.loads((folder / OPTIONS).read_text(encoding="utf-8"))
    given[part] |= values
    (folder / OPTIONS).write_text(json.dumps(given), encoding="utf-8")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def edit(folder: Path, name: str, value: Any = None) -> None:
    with h5py.File(folder / WEIGHTS, "a") as file:
        if name in file:
            del file[name]
        if value is not None:
            file[name] = value


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: cut(folder / WEIGHTS), "small_weights.hdf5: broken or truncated HDF5 file"),
        (lambda folder: cut(folder / OPTIONS), "small_options.json: broken or truncated JSON"),
        (lambda folder: (folder / WEIGHTS).write_text("<!DOCTYPE html>"), "is an HTML page"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b""), "is an empty file"),
        (lambda folder: (folder / OPTIONS).write_text("<html>"), "is an HTML page"),
        (lambda folder: (folder / OPTIONS).write_text("{}"), "lstm is None; expected an object"),
        (lambda folder: (folder / WEIGHTS).unlink(), "has no weights.hdf5; expected the folder of a published ELMo"),
        (lambda folder: (folder / "options.json").write_text("{}"), "has options.json, small_options.json; leave one"),
        (lambda folder: edit(folder, "CNN_proj/b_proj"), "1 missing: CNN_proj/b_proj"),
        (lambda folder: edit(folder, "CNN_proj/b_proj", np.zeros(3)), r"1 misshaped: CNN_proj/b_proj is \(3,\)"),
        (lambda folder: edit(folder, "CNN/more", np.zeros(3)), "1 not known: CNN/more"),
        (lambda folder: edit(folder, "CNN/more", "text"), "CNN/more is not an array of numbers of its own; refused"),
        (lambda folder: edit(folder, "in", h5py.SoftLink("/CNN")), "in is a link to another place; refused"),
        (lambda folder: edit(folder, "in", h5py.ExternalLink("a.hdf5", "/")), "in is a link to another place; refused"),
        (lambda folder: change(folder, "lstm", use_skip_connections=False), "regard supports True only"),
        (lambda folder: change(folder, "lstm", peepholes=True), "lstm: peepholes is not known"),
        (lambda folder: change(folder, "lstm", dim=0), "dim is 0; expected a whole number of at least 1"),
        (lambda folder: change(folder, "lstm", cell_clip=-1), "cell_clip is -1; expected a number above 0"),
        (lambda folder: change(folder, "char_cnn", activation="gelu"), "activation is 'gelu'"),
        (lambda folder: change(folder, "char_cnn", n_characters=100), "n_characters is 100"),
        (lambda folder: change(folder, "char_cnn", filters=[[3]]), r"filters is \[\[3\]\]; expected pairs"),
        (lambda folder: change(folder, "char_cnn", filters=[]), "expected pairs"),
        (lambda folder: change(folder, "char_cnn", filters=[[51, 2]]), "a filter reads 51 characters at once"),
        (lambda folder: change(folder, "char_cnn", embedding=3), "dim is None; expected a whole number"),
    ],
)
def test_what_is_refused(spoil: Spoil, message: str, tmp_path: Path):
    folder = publish(tmp_path / "published", elmo.ODD[0])
    spoil(folder)
    with pytest.raises(InputError, match=message) as caught:
        read(Folder(folder))
    assert len(str(caught.value).splitlines()) == 1


def test_groups_in_circles(tmp_path: Path):
    folder = publish(tmp_path, elmo.ODD[0])
    with h5py.File(folder / WEIGHTS, "a") as file:
        file["CNN/CNN"] = file["CNN"]
    with pytest.raises(InputError, match="more than 5000 tensors and groups"):
        read(Folder(folder))


def test_half_precision_is_widened(tmp_path: Path):
    folder = publish(tmp_path, elmo.ODD[0])
    edit(folder, "CNN_proj/b_proj", np.zeros(7, dtype="float16"))
    assert read(Folder(folder)).tensors["words.projection.bias"].dtype == torch.float32


def test_without_h5py(tmp_path: Path, regard, monkeypatch: pytest.MonkeyPatch):
    publish(tmp_path / "published", elmo.ODD[0])
    monkeypatch.delitem(sys.modules, "regard.hub.formats.hdf5", raising=False)
    monkeypatch.delattr(regard_pretrained, "hdf5", raising=False)
    monkeypatch.setitem(sys.modules, "h5py", None)
    code, _, errors = regard("import", str(tmp_path / "published"), "--out", str(tmp_path / "run"))
    assert (code, errors) == (2, f"regard: this needs h5py, which is not installed: {how_to_install('h5py')}\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("beside", [[], ["config.json"]])
def test_the_hub_has_one(beside: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its files are asked for, among others that are not; a config.json that says nothing of it is no hindrance."""
    published = publish(tmp_path / "published", elmo.ODD[0])
    for name in (*beside, "README.md", "model.tar.gz"):
        (published / name).write_text("{}", encoding="utf-8")

    def snapshot(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        folder = tmp_path / "cache" / "snapshots" / "0123abc"
        folder.mkdir(parents=True)
        names = [path.name for path in published.iterdir()]
        for name in filter_repo_objects(names, allow_patterns=allow_patterns):
            os.replace(published / name, tmp_path / "cache" / name)
            (folder / name).symlink_to(tmp_path / "cache" / name)
        return str(folder)

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    import_run("somebody/elmo", tmp_path / "run")
    assert {path.name for path in published.iterdir()} == {"README.md", "model.tar.gz"}
    assert json.loads((tmp_path / "run" / "origin.json").read_text()) == {
        "model": "somebody/elmo",
        "revision": "0123abc",
    }
    (found,) = runs.load(tmp_path / "run", "cpu", task=ElmoRun).embed_words([TEXTS[1]])
    wanted = elmo.states(elmo.ODD[0], elmo.weights(elmo.ODD[0]), spelled(TEXTS[1], 50))
    np.testing.assert_allclose(found.states.numpy(), wanted[:, 1:-1], rtol=1e-4, atol=1e-5)
