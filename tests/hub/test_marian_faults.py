"""A faulty published translation model is one line of error, and leaves no run behind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard import load
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.nn.embeddings import sinusoids
from regard.runs import run_file
from tests.hub import spm
from tests.hub.test_faults import change, cut, refused, retensor
from tests.hub.translator import POSITIONS, SIZES, marian

Spoil = Callable[[Path], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    marian(tmp_path / "published", **SIZES[0])
    return tmp_path / "published"


def test_a_configuration_as_the_first_released_models_have_it(folder: Path):
    """Keys that change nothing, and how to search, in config.json itself."""
    before = json.loads((folder / "config.json").read_text())
    (folder / "generation_config.json").unlink()
    switches = ("add_bias_logits", "add_final_layer_norm", "normalize_before", "normalize_embedding")
    more = dict.fromkeys((*switches, "force_bos_token_to_be_generated", "gradient_checkpointing"), False)
    more |= {"static_position_embeddings": True, "extra_pos_embeddings": 7, "num_hidden_layers": 1, "_num_labels": 3}
    more |= {"bad_words_ids": [[before["pad_token_id"]]], "num_beams": 4, "max_length": 512, "classif_dropout": 0.0}
    change(folder, "config.json", **more)
    import_run(str(folder), folder.parent / "run")
    search = load(folder.parent / "run", "cpu").config.search
    assert (search.beam, search.length_penalty, search.length_offset, search.length_extra) == (4, 1.0, 0.0, 511)


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "target.spm", "model.safetensors"])
def test_a_missing_file(name: str, folder: Path):
    (folder / name).unlink()
    assert name in refused(folder, str(folder))


def test_what_may_be_missing(folder: Path):
    for name in ("tokenizer_config.json", "generation_config.json"):
        (folder / name).unlink()
    import_run(str(folder), folder.parent / "run")
    search = load(folder.parent / "run", "cpu").config.search
    assert (search.beam, search.length_extra) == (1, POSITIONS - 1)


def test_row_34_a_cut_file(folder: Path):
    cut(folder / "source.spm")
    refused(folder, "source.spm: is not a SentencePiece model that regard reads: ")


def test_row_36_a_pickle_alone(folder: Path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, "a pickle, which can run code when it is read")


def test_row_40_pieces_of_another_model(folder: Path):
    (folder / "target.spm").write_bytes(spm.model([("▁autre", -1.0, 1), ("▁chose", -2.0, 1), ("a", -3.0, 1)]))
    refused(folder, r"target\.spm: vocab\.json has 1 of its 3 pieces; it belongs to another model")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda entries: entries.pop("a"), "it belongs to another model"),
        (lambda entries: entries.update({"one more": len(entries)}), "it belongs to another model"),
        (lambda entries: entries.update({"unknown": entries.pop("<unk>")}), "has no entry <unk>"),
        (lambda entries: entries.update({"a": "one"}), "entries with a whole number each"),
    ],
)
def test_row_40_the_vocabulary_of_another_model(edit: Callable[[dict[str, Any]], object], message: str, folder: Path):
    entries = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    edit(entries)
    (folder / "vocab.json").write_text(json.dumps(entries), encoding="utf-8")
    refused(folder, message)


def test_names_of_special_tokens_here_are_entries_as_others(folder: Path):
    entries = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    entries["<s>"] = entries.pop("a")
    (folder / "vocab.json").write_text(json.dumps(entries), encoding="utf-8")
    assert families.read(Folder(folder)).tokenizer.vocabulary == entries


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"activation_function": "tanh"}, "activation_function is 'tanh'; regard supports 'swish' or 'silu' or"),
        ({"normalize_before": True}, "normalize_before is True"),
        ({"normalize_embedding": True}, "normalize_embedding is True"),
        ({"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings is False"),
        ({"decoder_attention_heads": 2}, "decoder_attention_heads is 2, the encoder's 3; regard has one for both"),
        ({"decoder_ffn_dim": 7}, "decoder_ffn_dim is 7, the encoder's 5; regard has one for both"),
        ({"decoder_start_token_id": 0}, "decoder_start_token_id is 0"),
        ({"rotary": True}, "rotary is not known, so it might change what is computed"),
        ({"d_model": 7}, "d_model is 7, not divisible by 3 heads"),
        ({"pad_token_id": None}, "pad_token_id is None; expected a whole number"),
        ({"eos_token_id": 999}, "has the id 999; the vocabulary has 0 to"),
        ({"vocab_size": 31, "decoder_vocab_size": 31}, "the tokenizer has 38 entries|is it of another model"),
    ],
)
def test_row_40_another_architecture(values: dict[str, Any], message: str, folder: Path):
    (folder / "generation_config.json").unlink()  # whose ids come first
    change(folder, "config.json", **values)
    refused(folder, message)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"length_penalty": -1.0}, "length_penalty is -1.0; expected a number of at least 0"),
        ({"num_beams": 0}, "num_beams is 0; expected a whole number of at least 1"),
        ({"max_length": "long"}, "max_length is 'long'"),
    ],
)
def test_a_search_that_is_none(values: dict[str, Any], message: str, folder: Path):
    change(folder, "generation_config.json", **values)
    refused(folder, f"generation_config.json: {message}")


def test_two_vocabularies(folder: Path):
    change(folder, "tokenizer_config.json", separate_vocabs=True)
    refused(folder, "separate_vocabs is true; regard reads models of one vocabulary")


def constants(folder: Path, wrong: float) -> None:
    """Keeps among the weights what others keep there."""
    tensors = load_file(folder / "model.safetensors")
    plain = sinusoids(POSITIONS, 6)
    halves = torch.cat([plain[:, 0::2], plain[:, 1::2]], 1)
    for side in ("encoder", "decoder"):
        tensors[f"model.{side}.embed_positions.weight"] = (halves + wrong).half()
    for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors["model.shared.weight"].clone()
    save_file(tensors, folder / "model.safetensors")


def test_constants_and_doubles_are_left_out(folder: Path):
    import_run(str(folder), folder.parent / "before")
    constants(folder, 0.0)
    import_run(str(folder), folder.parent / "after")
    before, after = (folder.parent / name / "weights.safetensors" for name in ("before", "after"))
    assert before.read_bytes() == after.read_bytes()


def test_row_39_other_positions(folder: Path):
    constants(folder, 0.1)
    refused(folder, "is not of sines, then cosines")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda tensors: tensors.update({"lm_head.weight": tensors["model.shared.weight"] + 1}),
            r"lm_head\.weight differs from model\.shared\.weight",
        ),
        (lambda tensors: tensors.pop("model.encoder.layers.0.fc1.bias"), "1 missing: model.encoder.layers.0.fc1.bias"),
        (lambda tensors: tensors.update({"model.extra": torch.zeros(2)}), "1 not known: model.extra"),
        (
            lambda tensors: tensors.update({"final_logits_bias": torch.zeros(1, 3)}),
            r"1 misshaped: decoder\.output\.bias is \(3\), expected \(38\)",
        ),
    ],
)
def test_row_39_tensors_that_do_not_fit(edit: Callable[[dict[str, torch.Tensor]], object], message: str, folder: Path):
    retensor(folder, edit)
    refused(folder, message)


def test_a_transformer_that_was_trained_here_is_not_exported(folder: Path, tmp_path: Path):
    import_run(str(folder), tmp_path / "run")
    path = tmp_path / "run" / "config.yaml"
    config = run_file.read(path, ["model.norm=before"])
    path.write_text(run_file.dump(config), encoding="utf-8")
    with pytest.raises(InputError):
        export_run(tmp_path / "run", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()
