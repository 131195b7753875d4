"""Bad input of an import: one line that names what is wrong, exit 2, and no run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.hub import admission
from regard.hub.formats.folder import Folder
from tests.hub.published import BERTS, CONFIGURATIONS, filler, gpt2
from tests.hub.test_faults import change

Spoil = Callable[[Path], object]
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def about(folder: Path, **values: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(values), encoding="utf-8")


def index(folder: Path, total: object) -> None:
    """Replace the weights by an index of files that are not there."""
    (folder / WEIGHTS).unlink()
    metadata = {"weight_map": {"a": "model-00001-of-00002.safetensors"}, "metadata": {"total_size": total}}
    (folder / INDEX).write_text(json.dumps(metadata))


def smaller_tokenizer(folder: Path) -> None:
    """The tokenizer of a model with another vocabulary."""
    gpt2(folder.parent / "other", **CONFIGURATIONS[0])
    (folder / "tokenizer.json").write_bytes((folder.parent / "other" / "tokenizer.json").read_bytes())


def as_bytes(folder: Path) -> None:
    """Weights as some quantisers store them: bytes, with a scale beside."""
    tensors = load_file(folder / WEIGHTS)
    name = "bert.encoder.layer.0.output.dense.weight"
    tensors[name] = tensors[name].to(torch.int8)
    save_file(tensors | {f"{name}.SCB": torch.ones(6)}, folder / WEIGHTS, {"format": "pt"})


BAD: dict[str, tuple[Spoil, str]] = {
    "own code": (
        lambda folder: change(
            folder, "config.json", auto_map={"AutoModel": "modeling_own.OwnModel", "AutoConfig": "c.C"}
        ),
        "config.json: auto_map asks for code of its own (c.py, modeling_own.py), which regard never runs; import",
    ),
    "another's code": (
        lambda folder: change(folder, "config.json", auto_map={"AutoModel": "owner/name--modeling_own.OwnModel"}),
        "config.json: auto_map asks for code of its own (modeling_own.py), which regard never runs",
    ),
    "own code of the tokenizer": (
        lambda folder: about(folder, auto_map={"AutoTokenizer": ["tokenization_own.Own", None]}),
        "tokenizer_config.json: auto_map asks for code of its own (tokenization_own.py), which regard never runs",
    ),
    "too large": (
        lambda folder: index(folder, 1e15),
        "an import of its weights needs 4e+06 GB, ",
    ),
    "an index without sense": (lambda folder: index(folder, "big"), "total_size is 'big'; expected a number of bytes"),
    "quantised": (
        lambda folder: change(folder, "config.json", quantization_config={"quant_method": "gptq"}),
        "quantization_config: the weights are quantised, which regard does not read; import the model that they were",
    ),
    "quantised and not said": (
        as_bytes,
        "the weights are quantised (bert.encoder.layer.0.output.dense.weight is of I8), which regard does not read",
    ),
    "the tokenizer of another model": (smaller_tokenizer, "has no entry <pad>; is it the tokenizer of another model?"),
    "no attention": (
        lambda folder: change(folder, "config.json", model_type="mamba"),
        "is a model of type 'mamba', which is not imported: it has no attention",
    ),
    "ModernBERT": (
        lambda folder: change(folder, "config.json", model_type="modernbert"),
        "is a model of type 'modernbert', which is not imported: its layers read near and all positions in turn",
    ),
    "DeBERTa": (
        lambda folder: change(folder, "config.json", model_type="deberta-v2"),
        "is a model of type 'deberta-v2', which is not imported: its scores compare contents with positions",
    ),
    "ALBERT": (
        lambda folder: change(folder, "config.json", model_type="albert"),
        "is a model of type 'albert', which is not imported: its layers share their weights",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_row_86_a_bad_import_is_one_line(case: str, regard: Any, tmp_path: Path):
    spoil, message = BAD[case]
    filler(tmp_path / "published", "bert", **BERTS[0])
    spoil(tmp_path / "published")
    code, out, error = regard("import", str(tmp_path / "published"), "--out", str(tmp_path / "run"))
    assert (code, out, len(error.splitlines())) == (2, "", 1), error
    assert message in error
    assert not (tmp_path / "run").exists()


def test_row_86_weights_larger_than_the_free_memory(regard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Twice their numbers with 4 bytes each, from the headers alone: nothing is read."""
    theirs = filler(tmp_path / "published", "bert", **BERTS[0])
    numbers = sum(tensor.numel() for tensor in theirs.state_dict().values())
    kept = sum(tensor.numel() for tensor in load_file(tmp_path / "published" / WEIGHTS).values())
    assert kept <= numbers
    monkeypatch.setattr(admission, "available_memory", lambda: 8 * kept)
    admission.check(Folder(tmp_path / "published"))
    monkeypatch.setattr(admission, "available_memory", lambda: 8 * kept - 1)
    monkeypatch.setattr(Folder, "tensors", None)
    code, _, error = regard("import", str(tmp_path / "published"), "--out", str(tmp_path / "run"))
    assert (code, len(error.splitlines())) == (2, 1)
    assert "GB of memory are free; import a smaller model or use a larger machine" in error


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "mpnet", "electra"])
def test_row_86_an_input_beyond_the_positions_of_the_model(kind: str, regard: Any, tmp_path: Path):
    filler(tmp_path / "published", kind, **BERTS[0])
    assert regard("import", str(tmp_path / "published"), "--out", str(tmp_path / "run"))[0] == 0
    assert regard("embed", str(tmp_path / "run"), "the cat")[0] == 0
    code, out, error = regard("embed", str(tmp_path / "run"), "the cat " * 40)
    assert (code, out, len(error.splitlines())) == (2, "", 1)
    assert "19" in error  # the most tokens
