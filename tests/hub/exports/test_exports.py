"""Exports for other runtimes: they compute the same there, and an export that differs is removed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Backend
from torch import nn

from regard import load
from regard.errors import InputError, RunError
from regard.hub import import_run
from regard.hub.exports import ctranslate2
from regard.hub.exports.onnx import make_graphs
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.ctranslate2 import save_transformer
from regard.text import Tokenizer, TokenizerSettings
from tests import forked
from tests.cli.command import environment, finish, start, tiny
from tests.hub.exports.every_graph import perturbed
from tests.hub.published_images import VITS, classifier


@pytest.mark.slow
def test_onnxruntime_computes_the_same():
    pytest.importorskip("onnxruntime")
    program = "from tests.hub.exports.every_graph import main; main()"  # under type checks no size can be open
    process = forked.start(("-c", program), environment())
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors[-2000:]
    lines = output.splitlines()
    assert [line for line in lines if not line.endswith(": the same")] == []
    assert len(lines) == len(set(lines)) == 7


def test_no_graph_is_made_of_other_models():
    with pytest.raises(InputError, match="Linear has no ONNX graph"):
        make_graphs(nn.Linear(1, 1))


def tokenizer(letters: str) -> Tokenizer:
    return Tokenizer.train(TokenizerSettings("character", 50), [letters])


@pytest.mark.parametrize("norm", ["before", "after"])
@pytest.mark.parametrize(
    "own",
    [
        {},
        {"key_value_heads": 1},
        {"positions": "learned", "shared": False, "tied": False},
        {"positions": "learned", "max_length": 11},
        {"activation": "swish", "decoder_layers": 1, "positions": "sines-then-cosines", "scaled": False},
    ],
)
def test_ctranslate2_computes_the_same(norm: str, own: dict, tmp_path: Path):
    pytest.importorskip("ctranslate2")
    source = tokenizer("abcdefghijklmn")
    target = source if own.get("shared", True) else tokenizer("opqrstuvwxyz.")
    config = TransformerConfig(**({"layers": 2, "width": 12, "heads": 3, "hidden": 20, "norm": norm} | own))
    model = perturbed(Transformer(source.size, target.size, config))
    assert isinstance(model, Transformer)
    save_transformer(model, source, target, tmp_path)
    ctranslate2.check(model, source, target, tmp_path)
    model.decoder.output.bias.data[7] += 1.0
    with pytest.raises(RunError, match="differs from the run by up to"):
        ctranslate2.check(model, source, target, tmp_path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("dates-transformer", "dates"):
        code, _, errors = finish(start("train", name, "--out", str(folder / name), *tiny(model__width="12")))
        assert code == 0, errors
    return folder


@pytest.mark.parametrize(
    ("to", "said", "files"),
    [("onnx", "onnxruntime", {"onnx"}), ("ctranslate2", "CTranslate2", {"config.json"})],
)
def test_the_command(runs: Path, tmp_path: Path, to: str, said: str, files: set[str]):
    out = tmp_path / "out"
    command = "export", str(runs / "dates-transformer"), "--to", to, "--out", str(out)
    code, output, errors = finish(start(*command))  # apart: under type checks no sizes can be left open
    told = f"The model is in {out}, for {to}; it computes the same as the run: {said}.\n"
    assert (code, output, errors) == (0, told, "")
    assert files <= {path.name for path in out.iterdir()}
    for side in ("source", "target"):
        theirs = Backend.from_file(str(out / f"{side}.tokenizer.json"))
        ours = getattr(load(runs / "dates-transformer", "cpu").tokenizers, side)
        assert theirs.encode("Mon 7").ids == ours.encode("Mon 7")
    code, _, errors = finish(start(*command))
    assert (code, errors) == (2, f"regard: {out}: exists; choose another --out\n")


def test_what_is_not_exported_leaves_nothing(regard, runs: Path, tmp_path: Path):
    for run, to, said in (("dates", "onnx", "has no ONNX graph"), ("dates", "ctranslate2", "transformer")):
        code, _, errors = regard("export", str(runs / run), "--to", to, "--out", str(tmp_path / "out"))
        assert (code, said in errors) == (2, True)
        assert not list(tmp_path.iterdir())


def test_a_vit_has_its_labels_and_its_preparation_beside_it(tmp_path: Path):
    """The graph reads what transformers' image processor of the files gives."""
    transformers, runtime = pytest.importorskip("transformers"), pytest.importorskip("onnxruntime")
    theirs = classifier(tmp_path / "published", "vit", **VITS[0])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    out = tmp_path / "out"
    code, _, errors = finish(start("export", str(tmp_path / "run"), "--to", "onnx", "--out", str(out)))
    assert (code, errors) == (0, "")
    side, channels = VITS[0]["image_size"], VITS[0].get("num_channels", 3)
    image = np.random.default_rng(1).integers(0, 256, (side, side, channels), np.uint8)
    kind = json.loads((out / "preprocessor_config.json").read_text())["image_processor_type"]
    pixels = getattr(transformers, kind).from_pretrained(out)(image, return_tensors="np")["pixel_values"]
    (logits,) = runtime.InferenceSession(str(out / "onnx" / "model.onnx")).run(None, {"pixel_values": pixels})
    expected = theirs(torch.from_numpy(pixels)).logits.detach().numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    named = json.loads((out / "config.json").read_text())["id2label"]
    assert tuple(named.values()) == load(tmp_path / "run", "cpu").labels
