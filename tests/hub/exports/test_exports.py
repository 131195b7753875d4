"""Exports for ONNX and CTranslate2: they compute the same there, in the names and with the files that optimum,
transformers.js and CTranslate2 read, and an export that differs is removed."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Backend
from torch import nn

from regard import load
from regard.decoding.engine import save_transformer
from regard.errors import InputError, RunError
from regard.hub.exports import ctranslate2
from regard.hub.exports.onnx import make_graphs
from regard.hub.importing import import_run
from regard.models.transformer import Transformer, TransformerConfig
from regard.text import Tokenizer, TokenizerSettings
from tests import forked
from tests.cli.command import environment, finish, start, tiny
from tests.hub.exports.every_graph import perturbed
from tests.hub.published import BERTS, VITS, classifier, filler
from tests.hub.translator import marian

runtime = pytest.importorskip("onnxruntime")
library = pytest.importorskip("ctranslate2")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of the libraries


@dataclass(frozen=True)
class Exports:
    """The folder of runs and their exports, the published networks, and what each command said."""

    folder: Path
    networks: dict[str, Any]
    said: dict[tuple[str, str], tuple[int, str, str]]

    def __getitem__(self, export: tuple[str, str]) -> Path:
        code, _, errors = self.said[export]
        assert (code, errors) == (0, "")
        return self.folder / "-".join(export)


def child(program: str) -> list[str]:
    """The lines that a process without type checks prints."""
    process = forked.start(("-c", f"from tests.hub.exports import every_graph; {program}"), environment())
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, errors[-2000:]
    return output.splitlines()


def export(folder: Path, networks: dict[str, Any], pairs: list[tuple[str, str]]) -> Exports:
    """Import the published models, and run all commands in one process."""
    for name in networks:
        import_run(str(folder / "published" / name), folder / name)
    commands = [("export", str(folder / run), "--to", to, "--out", str(folder / f"{run}-{to}")) for run, to in pairs]
    lines = child(f"every_graph.run_commands({[*commands, commands[0]]!r})")
    said = [tuple(json.loads(line)) for line in lines]
    return Exports(folder, networks, dict(zip([*pairs, ("again", "")], said, strict=True)))


def translator(folder: Path) -> Any:
    return marian(folder, heads=3, ffn=7, encoder_layers=1, decoder_layers=2, d_model=12)


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Exports:
    folder = tmp_path_factory.mktemp("exports")
    published = folder / "published"
    networks = {
        "bert": filler(published / "bert", **BERTS[1]),
        "marian": translator(published / "marian"),
        "vit": classifier(published / "vit", "vit", **VITS[1]),
    }
    pairs = [("bert", "onnx"), ("marian", "ctranslate2"), ("bert", "ctranslate2"), ("vit", "ctranslate2")]
    return export(folder, networks, pairs)


@pytest.fixture(scope="module")
def further(tmp_path_factory: pytest.TempPathFactory) -> Exports:
    folder = tmp_path_factory.mktemp("further")
    for name in ("dates-transformer", "dates"):
        code, _, errors = finish(start("train", name, "--out", str(folder / name), *tiny(model__width="12")))
        assert code == 0, errors
    pairs = [("dates-transformer", "onnx"), ("dates", "onnx"), ("dates-transformer", "ctranslate2")]
    return export(folder, {}, pairs)


def session(path: Path) -> Any:
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.slow
def test_onnxruntime_computes_the_same():
    lines = child("every_graph.compare_graphs()")
    assert [line for line in lines if not line.endswith(": the same")] == []
    assert len(lines) == len(set(lines)) == 7


def test_no_graph_is_made_of_other_models():
    with pytest.raises(InputError, match="Linear has no ONNX graph"):
        make_graphs(nn.Linear(1, 1))


def tokenizer(letters: str) -> Tokenizer:
    return Tokenizer.train(TokenizerSettings("character", 50), [letters])


@pytest.mark.parametrize(
    "own",
    [
        {"norm": "before", "key_value_heads": 1},
        {"norm": "after", "positions": "learned", "shared": False, "tied": False},
        {"norm": "before", "positions": "learned", "max_length": 11},
        {
            "norm": "after",
            "activation": "swish",
            "decoder_layers": 1,
            "positions": "sines-then-cosines",
            "scaled": False,
        },
    ],
)
def test_ctranslate2_computes_the_same(own: dict, tmp_path: Path):
    source = tokenizer("abcdefghijklmn")
    target = source if own.get("shared", True) else tokenizer("opqrstuvwxyz.")
    sizes: dict[str, Any] = {"layers": 2, "width": 12, "heads": 3, "hidden": 20} | own
    config = TransformerConfig(**sizes)
    model = perturbed(Transformer(source.size, target.size, config))
    assert isinstance(model, Transformer)
    save_transformer(model, source, target, tmp_path)
    ctranslate2.check(model, source, target, tmp_path)
    model.decoder.output.bias.data[7] += 1.0
    with pytest.raises(RunError, match="differs from the run by up to"):
        ctranslate2.check(model, source, target, tmp_path)


@pytest.mark.slow
def test_the_command_says_where_the_export_is_and_replaces_nothing(exports: Exports):
    for (run, to), runtime_name in {("bert", "onnx"): "onnxruntime", ("marian", "ctranslate2"): "CTranslate2"}.items():
        out = exports[run, to]
        told = f"The model is in {out}, for {to}; it computes the same as the run: {runtime_name}.\n"
        assert exports.said[run, to] == (0, told, "")
    assert exports.said["again", ""] == (2, "", f"regard: {exports['bert', 'onnx']}: exists; choose another --out\n")


@pytest.mark.slow
def test_what_is_not_exported_leaves_nothing(exports: Exports):
    for run in ("bert", "vit"):
        code, _, errors = exports.said[run, "ctranslate2"]
        assert (code, "ctranslate2 takes transformer" in errors) == (2, True)
        assert not (exports.folder / f"{run}-ctranslate2").exists()


@pytest.mark.slow
def test_a_model_of_no_published_family_has_its_tokenizers(further: Exports):
    assert further.said["dates", "onnx"][0] == 2
    assert "has no ONNX graph" in further.said["dates", "onnx"][2]
    for to in ("onnx", "ctranslate2"):
        for side in ("source", "target"):
            theirs = Backend.from_file(str(further["dates-transformer", to] / f"{side}.tokenizer.json"))
            ours = getattr(load(further.folder / "dates-transformer", "cpu").tokenizers, side)
            assert theirs.encode("Mon 7").ids == ours.encode("Mon 7")


@pytest.mark.slow
def test_a_vit_has_its_labels_and_its_preparation_beside_it(tmp_path: Path):
    """The graph reads what transformers' image processor of the files gives."""
    network = classifier(tmp_path / "published", "vit", **VITS[0])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    out = tmp_path / "out"
    code, _, errors = finish(start("export", str(tmp_path / "run"), "--to", "onnx", "--out", str(out)))
    assert (code, errors) == (0, "")
    side, channels = VITS[0]["image_size"], VITS[0].get("num_channels", 3)
    image = np.random.default_rng(1).integers(0, 256, (side, side, channels), np.uint8)
    kind = json.loads((out / "preprocessor_config.json").read_text())["image_processor_type"]
    pixels = getattr(transformers, kind).from_pretrained(out)(image, return_tensors="np")["pixel_values"]
    (logits,) = session(out / "onnx" / "model.onnx").run(None, {"pixel_values": pixels})
    expected = network(torch.from_numpy(pixels)).logits.detach().numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    named = json.loads((out / "config.json").read_text())["id2label"]
    assert tuple(named.values()) == load(tmp_path / "run", "cpu").labels


def test_a_reader_has_the_inputs_of_its_tokenizer(exports: Exports):
    out = exports["bert", "onnx"]
    graph = session(out / "onnx" / "model.onnx")
    names = [given.name for given in graph.get_inputs()]
    assert names == ["input_ids", "attention_mask", "token_type_ids"]
    ids = torch.arange(2 * 7).view(2, 7) % 60 + 6
    mask = (torch.arange(7) < torch.tensor([[7], [4]])).long()
    (logits,) = graph.run(["logits"], dict(zip(names, map(np.asarray, (ids, mask, ids * 0)), strict=True)))
    with torch.no_grad():
        expected = exports.networks["bert"](input_ids=ids, attention_mask=mask).prediction_logits
    real = mask.bool().numpy()
    np.testing.assert_allclose(logits[real], expected.numpy()[real], rtol=1e-4, atol=2e-4)
    assert transformers.AutoConfig.from_pretrained(out).model_type == "bert"
    assert len(transformers.AutoTokenizer.from_pretrained(out)("the old cat")["input_ids"]) > 2


def test_ctranslate2_of_a_translator_has_its_own_files(exports: Exports):
    out = exports["marian", "ctranslate2"]
    network = exports.networks["marian"]
    files = {path.name for path in out.iterdir()}
    assert {"model.bin", "config.json"} <= files
    assert not any(name.endswith(".tokenizer.json") for name in files)
    entries = json.loads((exports.folder / "published/marian/vocab.json").read_text(encoding="utf-8"))
    names, end = {index: entry for entry, index in entries.items()}, network.config.eos_token_id
    pieces = [names[index] for index in (5, 9, 7, 11)]  # it puts the end behind them itself
    result = library.Translator(str(out)).translate_batch([pieces], beam_size=1, max_decoding_length=9)
    (expected,) = network.generate(
        torch.tensor([[5, 9, 7, 11, end]]), num_beams=1, do_sample=False, max_new_tokens=9, forced_eos_token_id=None
    )
    ended = [index for index in expected[1:].tolist() if index != end]
    assert [entries[piece] for piece in result[0].hypotheses[0]] == ended
