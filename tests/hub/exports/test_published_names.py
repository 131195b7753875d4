"""Exports for ONNX and CTranslate2 in the names and with the files that optimum, transformers.js and CTranslate2 read:
their outputs are those of the published model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.hub import import_run
from tests.cli.command import finish, start
from tests.hub.published import BERTS, filler, gpt2
from tests.hub.translator import marian

runtime = pytest.importorskip("onnxruntime")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of the libraries
TEXTS = ["the old cat", "a"]


def exported(folder: Path, to: str = "onnx") -> Path:
    """Import a published model and export it, apart: under type checks no sizes can be left open."""
    import_run(str(folder), folder.parent / "run")
    out = folder.parent / "out"
    code, _, errors = finish(start("export", str(folder.parent / "run"), "--to", to, "--out", str(out)))
    assert (code, errors) == (0, "")
    return out


def session(path: Path) -> Any:
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_a_reader_has_the_inputs_of_its_tokenizer(tmp_path: Path):
    theirs = filler(tmp_path / "published", **BERTS[1])
    out = exported(tmp_path / "published")
    graph = session(out / "onnx" / "model.onnx")
    names = [each.name for each in graph.get_inputs()]
    assert names == ["input_ids", "attention_mask", "token_type_ids"]
    ids = torch.arange(2 * 7).view(2, 7) % 60 + 6
    mask = (torch.arange(7) < torch.tensor([[7], [4]])).long()
    found = graph.run(["logits"], dict(zip(names, map(np.asarray, (ids, mask, ids * 0)), strict=False)))[0]
    with torch.no_grad():
        model = theirs(input_ids=ids, attention_mask=mask)
    expected = model.prediction_logits
    real = mask.bool().numpy()
    np.testing.assert_allclose(found[real], expected.numpy()[real], rtol=1e-4, atol=2e-4)
    assert transformers.AutoConfig.from_pretrained(out).model_type == "bert"
    assert len(transformers.AutoTokenizer.from_pretrained(out)("the old cat")["input_ids"]) > 2


@pytest.mark.slow
def test_a_language_model_reads_whole_texts(tmp_path: Path):
    theirs = gpt2(tmp_path / "published", n_layer=2, n_head=3, n_embd=12, n_positions=29)
    out = exported(tmp_path / "published")
    ids = np.array([[5, 9, 2, 7, 11], [6, 1, 3, 8, 4]])
    (logits,) = session(out / "onnx" / "model.onnx").run(None, {"input_ids": ids})
    np.testing.assert_allclose(logits, theirs(torch.tensor(ids)).logits.detach(), rtol=1e-4, atol=2e-4)
    assert transformers.AutoConfig.from_pretrained(out).model_type == "gpt2"


@pytest.fixture
def translator(tmp_path: Path) -> Any:
    return marian(tmp_path / "published", heads=3, ffn=7, encoder_layers=1, decoder_layers=2, d_model=12)


@pytest.mark.slow
def test_a_translator_has_its_own_files(translator: Any, tmp_path: Path):
    """Its SentencePiece models are those of its publisher."""
    out = exported(tmp_path / "published")
    files = {path.name for path in out.rglob("*") if path.is_file()}
    assert {"config.json", "generation_config.json"} <= files
    assert {"encoder_model.onnx", "decoder_model.onnx"} <= files
    assert not any(name.endswith(".tokenizer.json") for name in files)
    end = translator.config.eos_token_id
    inputs = {
        "input_ids": np.array([[5, 9, 7, 11, end], [8, 6, end, 0, 0]]),
        "attention_mask": np.array([[1] * 5, [1, 1, 1, 0, 0]]),
    }
    (states,) = session(out / "onnx" / "encoder_model.onnx").run(None, inputs)
    target = np.array([[translator.config.decoder_start_token_id, 5, 7]] * 2)
    memory = {"encoder_hidden_states": states, "encoder_attention_mask": inputs["attention_mask"]}
    (logits,) = session(out / "onnx" / "decoder_model.onnx").run(None, {"input_ids": target, **memory})
    with torch.no_grad():
        tensors = {name: torch.tensor(each) for name, each in inputs.items()}
        expected = translator(**tensors, decoder_input_ids=torch.tensor(target)).logits.numpy()
    usual = np.arange(expected.shape[-1]) != translator.config.pad_token_id  # which neither writes
    np.testing.assert_allclose(logits[..., usual], expected[..., usual], rtol=1e-4, atol=2e-4)


def test_ctranslate2_of_a_translator_has_its_own_files(translator: Any, tmp_path: Path):
    library = pytest.importorskip("ctranslate2")
    out = exported(tmp_path / "published", "ctranslate2")
    files = {path.name for path in out.iterdir()}
    assert {"model.bin", "config.json"} <= files
    assert not any(name.endswith(".tokenizer.json") for name in files)
    vocabulary = json.loads((tmp_path / "published" / "vocab.json").read_text(encoding="utf-8"))
    names, end = {index: entry for entry, index in vocabulary.items()}, translator.config.eos_token_id
    pieces = [names[index] for index in (5, 9, 7, 11)]  # it puts the end behind them itself
    found = library.Translator(str(out)).translate_batch([pieces], beam_size=1, max_decoding_length=9)
    (expected,) = translator.generate(
        torch.tensor([[5, 9, 7, 11, end]]), num_beams=1, do_sample=False, max_new_tokens=9, forced_eos_token_id=None
    )
    ended = [each for each in expected[1:].tolist() if each != end]
    assert [vocabulary[piece] for piece in found[0].hypotheses[0]] == ended
