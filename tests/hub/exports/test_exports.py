"""Exports for other runtimes: they compute the same there, and an export that differs is removed."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Backend
from torch import nn

from regard import load
from regard.errors import InputError, RunError
from regard.hub import import_run
from regard.hub.exports import ctranslate2, onnx
from regard.hub.exports.graphs import graphs
from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.luong import Luong, LuongConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.text import Tokenizer, TokenizerSettings
from tests import forked
from tests.cli.command import environment, finish, start, tiny
from tests.hub.exports.every_graph import perturbed
from tests.hub.published_images import VITS, classifier


@pytest.mark.parametrize(("group", "count"), [("attentive", 8), ("recurrent", 11)])
def test_onnxruntime_computes_the_same(group: str, count: int):
    pytest.importorskip("onnxruntime")
    program = (
        f"from tests.hub.exports.every_graph import main; main({group!r})"  # under type checks no size can be open
    )
    process = forked.start(("-c", program), environment())
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors[-2000:]
    lines = output.splitlines()
    assert [line for line in lines if not line.endswith(": the same")] == []
    assert len(lines) == len(set(lines)) == count


def test_what_torch_says_is_heard_again(caplog: pytest.LogCaptureFixture):
    log = logging.getLogger("torch.onnx.registry")
    with onnx.quiet():
        log.warning("torchvision is not installed")
    log.warning("something else")
    assert caplog.messages == ["something else"]


def test_no_graph_is_made_of_other_models():
    with pytest.raises(InputError, match="a model of class Linear has no graph; onnx takes bert, gpt2"):
        graphs(nn.Linear(1, 1))


@pytest.mark.parametrize(
    "model",
    [
        lambda: Luong(31, 37, LuongConfig(embedding=6, width=8, align="monotonic")),
        lambda: Bahdanau(31, 37, BahdanauConfig(embedding=6, width=5, history="coverage")),
    ],
)
def test_attention_that_carries_weights_has_no_graph(model: Any):
    with pytest.raises(InputError, match="the attention of this run's decoder carries weights from step to step"):
        graphs(model().eval())


GREEDY = """
import sys, numpy, onnxruntime
from pathlib import Path
from tokenizers import Tokenizer
from regard import load
out, run = Path(sys.argv[1]), load(sys.argv[2], "cpu")
folder = out / "onnx"
encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}_model.onnx") for name in ("encoder", "decoder"))
source, target = (Tokenizer.from_file(str(out / f"{side}.tokenizer.json")) for side in ("source", "target"))
special = run.tokenizers.target.special
ends = run.tokenizers.source.special.end
for text in sys.argv[3:]:
    ids = numpy.array([[*source.encode(text).ids, ends]])
    mask = numpy.ones_like(ids)
    states, *parts = encoder.run(None, {"input_ids": ids, "attention_mask": mask})
    names = [each.name for each in decoder.get_inputs()][3:]
    written = [special.start]
    while len(written) < 11 and (len(written) == 1 or written[-1] != special.end):
        inputs = {"input_ids": numpy.array(written[-1:])}
        inputs |= {"encoder_hidden_states": states, "encoder_attention_mask": mask}
        logits, *parts = decoder.run(None, inputs | dict(zip(names, parts, strict=True)))
        logits[:, [special.pad, special.start, special.unknown]] = -numpy.inf
        written.append(int(logits[0].argmax()))
    print(*run.tokenizers.target.pieces([each for each in written[1:] if each != special.end]), sep=" ")
"""


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
    ctranslate2.save(model, source, target, tmp_path)
    ctranslate2.check(model, source, target, tmp_path)
    model.decoder.output.bias.data[7] += 1.0
    with pytest.raises(RunError, match="the export differs from the run by up to"):
        ctranslate2.check(model, source, target, tmp_path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, more in (("dates-transformer", {}), ("dates", {}), ("dates", {"model__history": "coverage"})):
        out = folder / more.get("model__history", name)
        code, _, errors = finish(start("train", name, "--out", str(out), *tiny(model__width="12", **more)))
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


def test_a_recurrent_decoder_writes_the_same_in_onnxruntime(runs: Path, tmp_path: Path):
    """Greedy texts of RNNsearch by its two graphs, one step a call."""
    pytest.importorskip("onnxruntime")
    texts = ["Mon 7 June 2010", "11/12/13"]
    code, _, errors = finish(start("export", str(runs / "dates"), "--to", "onnx", "--out", str(tmp_path / "out")))
    assert (code, errors) == (0, "")
    command = "-c", GREEDY, str(tmp_path / "out"), str(runs / "dates"), *texts
    code, output, errors = finish(forked.start(command, environment()))
    assert code == 0, errors[-2000:]
    run = load(runs / "dates", "cpu")
    expected = [" ".join(each.tokens[:10]).removesuffix(" </s>") for each in run.predict(texts, beam=1)]
    assert output.splitlines() == expected
    assert len({*expected}) == 2


def test_what_is_not_exported_leaves_nothing(regard, runs: Path, tmp_path: Path):
    carried = "the attention of this run's decoder carries weights from step to step"
    for run, to, said in (("coverage", "onnx", carried), ("dates", "ctranslate2", "takes transformer and gpt2")):
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
