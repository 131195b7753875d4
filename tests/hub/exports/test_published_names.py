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
    theirs = filler(tmp_path / "published", "bert", **BERTS[1])
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


def test_a_decoder_has_a_cache(tmp_path: Path):
    """Greedy steps behind the cache, of texts of two lengths with padding before the shorter, write what transformers
    writes; the first pass has an empty cache, later ones a single position."""
    theirs = gpt2(tmp_path / "published", n_layer=2, n_head=3, n_embd=12, n_positions=29)
    out = exported(tmp_path / "published")
    graph = session(out / "onnx" / "model.onnx")
    names = [each.name for each in graph.get_inputs()]
    assert names[:3] == ["input_ids", "attention_mask", "position_ids"]
    assert names[3:5] == ["past_key_values.0.key", "past_key_values.0.value"]
    assert [each.name for each in graph.get_outputs()][:2] == ["logits", "present.0.key"]
    ids = np.array([[5, 9, 2, 7, 11], [0, 0, 3, 8, 4]])
    mask = np.array([[1] * 5, [0, 0, 1, 1, 1]])
    expected = theirs.generate(
        torch.tensor(ids), attention_mask=torch.tensor(mask), max_new_tokens=7, do_sample=False, eos_token_id=-1,
        pad_token_id=0,
    )  # fmt: skip
    past = {name: np.zeros((2, 3, 0, 4), np.float32) for name in names[3:]}
    written, new = ids, ids
    for _ in range(7):
        places = np.maximum(mask.cumsum(1) - 1, 0)[:, -new.shape[1] :]
        inputs = {"input_ids": new, "attention_mask": mask, "position_ids": places, **past}
        logits, *present = graph.run(None, inputs)
        new, past = logits[:, -1:].argmax(-1), dict(zip(past, present, strict=True))
        written, mask = np.concatenate([written, new], 1), np.pad(mask, ((0, 0), (0, 1)), constant_values=1)
    np.testing.assert_array_equal(written, expected.numpy())
    assert transformers.AutoConfig.from_pretrained(out).model_type == "gpt2"


@pytest.fixture
def translator(tmp_path: Path) -> Any:
    return marian(tmp_path / "published", heads=3, ffn=7, encoder_layers=1, decoder_layers=2, d_model=12)


def test_a_translator_has_its_own_files(translator: Any, tmp_path: Path):
    """Marian's SentencePiece models, which its library loads, and no tokenizer of another format."""
    out = exported(tmp_path / "published")
    files = {path.name for path in out.rglob("*") if path.is_file()}
    assert {"source.spm", "target.spm", "vocab.json", "config.json", "generation_config.json"} <= files
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
    assert {"source.spm", "target.spm", "model.bin", "config.json"} <= files
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


def test_ctranslate2_of_a_gpt2(tmp_path: Path):
    library = pytest.importorskip("ctranslate2")
    theirs = gpt2(tmp_path / "published", n_layer=2, n_head=3, n_embd=12, n_positions=29)
    out = exported(tmp_path / "published", "ctranslate2")
    tokenizer = transformers.AutoTokenizer.from_pretrained(out, config=theirs.config)
    ids = tokenizer("the old cat")["input_ids"]
    found = (
        library.Generator(str(out))
        .generate_batch(
            [tokenizer.convert_ids_to_tokens(ids)], max_length=9, sampling_topk=1, include_prompt_in_result=False
        )[0]
        .sequences_ids[0]
    )
    expected = theirs.generate(torch.tensor([ids]), max_new_tokens=9, do_sample=False, pad_token_id=0)[0, len(ids) :]
    assert found == [each for each in expected.tolist() if each != theirs.config.eos_token_id]


def test_a_gpt2_that_ctranslate2_does_not_compute(tmp_path: Path, regard: Any):
    gpt2(tmp_path / "published", n_layer=1, n_head=3, n_embd=12, n_positions=29)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    path = tmp_path / "run" / "config.yaml"
    path.write_text(path.read_text().replace("positions: learned", "positions: alibi"))
    code, _, errors = regard("export", str(tmp_path / "run"), "--to", "ctranslate2", "--out", str(tmp_path / "out"))
    assert code == 2
    assert not (tmp_path / "out").exists()
    assert "regard: " in errors
