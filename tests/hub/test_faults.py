"""A faulty published model is one line of error, and leaves no run behind."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import torch
import yaml
from huggingface_hub import errors
from safetensors.torch import load_file, save_file

from regard.errors import InputError, RunError
from regard.hub import exporting
from regard.hub.exporting import export_run
from regard.hub.importing import import_run
from regard.hub.model_card import card
from regard.models.pretrained import Pretrained
from regard.runs.run_file import load
from regard.storage import hub_download as hub
from regard.storage.run_folder import RunDirectory
from tests.hub.published import CONFIGURATIONS, gpt2

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    gpt2(tmp_path / "published", **CONFIGURATIONS[0])
    return tmp_path / "published"


def refused(folder: Path, message: str) -> str:
    out = folder.parent / "run"
    with pytest.raises(InputError, match=message) as caught:
        import_run(str(folder), out)
    assert not out.exists()
    return str(caught.value)


def change(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


def retensor(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / WEIGHTS)
    edit(tensors)
    save_file(tensors, folder / WEIGHTS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (WEIGHTS, "cut safetensors file"),
        ("config.json", "config.json: broken or truncated JSON"),
        ("tokenizer.json", "cannot load its Tokenizer"),
    ],
)
def test_a_cut_file(name: str, message: str, folder: Path):
    (folder / name).write_bytes((folder / name).read_bytes()[:-100])
    refused(folder, message)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (WEIGHTS, b"<!DOCTYPE html><html>", "is an HTML page"),
        ("config.json", b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        ("config.json", b"[1, 2]", "expected a JSON dict, found list"),
        ("config.json", b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_another_kind_of_file(name: str, content: bytes, message: str, folder: Path):
    (folder / name).write_bytes(content)
    assert str(folder / name) in refused(folder, message)


def test_a_pickle_alone(folder: Path):
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    assert "weights_only" not in refused(folder, "a pickle alone, which can run code when it is read")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tensors: tensors.pop("transformer.wpe.weight"), r"lack 1 .*wpe\.weight"),
        (lambda tensors: tensors.update(extra=torch.zeros(2)), "1 tensors .*such as extra"),
        (lambda tensors: tensors.update({"transformer.h.0.ln_1.bias": torch.zeros(5)}), r"h\.0\.ln_1\.bias"),
    ],
)
def test_tensors_that_do_not_fit(edit: Callable[[dict[str, torch.Tensor]], object], message: str, folder: Path):
    retensor(folder, edit)
    refused(folder, message)


def test_weights_that_are_no_numbers(folder: Path):
    retensor(folder, lambda tensors: tensors["transformer.h.0.ln_1.bias"].fill_(torch.nan))
    refused(folder, "NaN or infinite")


def test_an_output_layer_of_its_own_is_kept(folder: Path):
    retensor(folder, lambda tensors: tensors.update({"lm_head.weight": tensors["transformer.wte.weight"] + 1}))
    import_run(str(folder), folder.parent / "run")
    assert isinstance(load(folder.parent / "run").model, Pretrained)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "bort"}, "model type 'bort' is unknown"),
        ({"architectures": ["MambaModel"]}, "the head of no task.*, or train it"),
        ({"architectures": ["WhisperForConditionalGeneration"]}, r"or `regard embed`\.$"),
        ({"n_layer": "two"}, "n_layer"),
        ({"resid_pdrop": 1.5}, "between 0 and 1"),
        ({"eos_token_id": 999}, "has the id 999"),
        ({"vocab_size": 280}, r"wte\.weight"),
    ],
)
def test_another_architecture(values: dict[str, Any], message: str, folder: Path):
    (folder / "generation_config.json").unlink()  # whose ids come first
    change(folder, "config.json", **values)
    refused(folder, message)


def test_the_tokenizer_of_another_model(folder: Path):
    change(folder, "tokenizer.json", pre_tokenizer={"type": "Unknown"})
    refused(folder, "cannot load its Tokenizer")


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", ""])
def test_an_index_that_leads_out(name: str, folder: Path):
    (folder / WEIGHTS).rename(folder.parent / "secret.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": name}}))
    refused(folder, "is not a plain file name; refused")


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "tokenizer.json"])
@pytest.mark.parametrize("absolute", [True, False])
def test_a_link_that_leads_out(name: str, absolute: bool, folder: Path):
    os.replace(folder / name, folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere" if absolute else Path("..", "elsewhere"))
    refused(folder, f"{name}: is a link that leads out of the folder; refused")


def answer(code: int) -> Any:
    return SimpleNamespace(status_code=code, headers={}, request=None)


def without_copy(cause: Exception) -> Exception:
    """What the library raises where the hub did not give the files and no copy of them is here."""
    error = errors.LocalEntryNotFoundError("")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (errors.RepositoryNotFoundError("", response=answer(404)), InputError, "no such model on the hub"),
        (errors.RevisionNotFoundError("", response=answer(404)), InputError, "has no such revision"),
        (errors.GatedRepoError("", response=answer(403)), InputError, "agree to terms"),
        (errors.HfHubHTTPError("", response=answer(429)), RunError, "too many requests"),
        (errors.DisabledRepoError("", response=answer(403)), InputError, "the hub has disabled it"),
        (without_copy(errors.HfHubHTTPError("", response=answer(502))), RunError, "HTTP 502"),
        (without_copy(httpx.ConnectError("no")), RunError, "does not answer and there is no whole copy here"),
        (httpx.ReadTimeout("timed out"), RunError, r"at v9: the transfer broke off \(ReadTimeout: timed out\); run it"),
        (OSError(errno.ENOSPC, "full"), RunError, "cannot be kept: no space left on the device; free some"),
        (OSError(errno.EACCES, "no"), RunError, "cannot be kept: no permission; free some, or set HF_HOME"),
    ],
)
def test_the_hub_fails(
    error: Exception, kind: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(hub, "snapshot_download", fail)
    with pytest.raises(kind, match=message) as caught:
        import_run("somebody/something", tmp_path / "run", "v9")
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_model_of_the_hub_is_written_down_with_its_commit(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    snapshot = tmp_path / "cache" / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    for path in folder.iterdir():
        os.replace(path, tmp_path / "cache" / path.name)
        (snapshot / path.name).symlink_to(tmp_path / "cache" / path.name)
    monkeypatch.setattr(hub, "snapshot_download", lambda *_, **__: str(snapshot))
    import_run("somebody/something", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "origin.json").read_text()) == {
        "model": "somebody/something",
        "revision": "0123abc",
    }


def test_an_export_that_differs_is_removed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import_run(str(folder), tmp_path / "run")
    write = exporting.write_tensors

    def spoiled(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
        write(path, tensors | {"transformer.ln_f.bias": tensors["transformer.ln_f.bias"] + 0.1}, metadata)

    monkeypatch.setattr(exporting, "write_tensors", spoiled)
    with pytest.raises(RunError, match=r"differs from the run by up to .*removed"):
        export_run(tmp_path / "run", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_an_end_that_is_no_token(folder: Path):
    change(folder, "generation_config.json", eos_token_id=1.5)
    assert "eos_token_id is 1.5" in refused(folder, "generation_config.json")


CONFIG = """task: seq2seq
data: {kind: parallel, train: [/secret/a, /secret/b]}
model: {name: transformer, width: 128}
training: {steps: 700, start: /secret/run}
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with RunDirectory.create(tmp_path / "run") as folder:
        folder.write_text("config.yaml", CONFIG)
        folder.write_json("result.json", {"valid/bleu": 31.25, "test/bleu": 30.5, "steps": 700, "parameters": 12})
        rows = {"train": {"count": 29000, "origin": "/secret/a, /secret/b"}}
        folder.write_json("data.json", {"unit": "pairs", "rows": rows})
    return tmp_path / "run"


def test_a_card_has_figures_data_and_settings_and_no_path(run: Path):
    text = card(run, "de-en", "ONNX")
    header = yaml.safe_load(text.split("---\n")[1])
    assert header["tags"] == ["regard", "attention", "seq2seq", "transformer"]
    (index,) = header["model-index"]
    (results,) = index["results"]
    assert [(each["type"], each["value"]) for each in results["metrics"]] == [("bleu", 31.25), ("bleu", 30.5)]
    for part in ("# de-en", "exported for ONNX", "| test/bleu | 30.5 |", "| train | 29,000 pairs |", "steps: 700"):
        assert part in text
    assert "secret" not in text
