"""Published Llamas, Mistrals and Qwens: the same as transformers in every number and every token, there and back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from torch import nn

from regard import load
from regard.attention.positions import RotaryScaling
from regard.attention.record import record
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.tasks.language_model.run import LanguageModelRun
from tests.hub.published import TEXTS, byte_pairs, quiet, written

LINEAR = {"rope_type": "linear", "rope_theta": 300.0, "factor": 2.5}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 8}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 700.0, "factor": 8.0, "original_max_position_embeddings": 16}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
SIZES: list[dict[str, Any]] = [
    {"hidden_size": 12, "intermediate_size": 7, "num_hidden_layers": 1, "num_attention_heads": 3, "head_dim": 4},
    {"hidden_size": 20, "intermediate_size": 23, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 6},
    {"hidden_size": 18, "intermediate_size": 11, "num_hidden_layers": 3, "num_attention_heads": 6, "head_dim": 2},
    {"hidden_size": 16, "intermediate_size": 31, "num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": 8},
]
"""Sizes that no released model has."""
MORE: list[dict[str, Any]] = [
    {"num_key_value_heads": 3, "tie_word_embeddings": True},
    {"num_key_value_heads": 2, "rope_parameters": LINEAR},
    {"num_key_value_heads": 1, "rope_parameters": YARN, "rms_norm_eps": 1e-5},
    {"num_key_value_heads": 2, "rope_parameters": LLAMA3, "tie_word_embeddings": True},
]
FAMILIES = ("Llama", "Mistral", "Qwen2", "Qwen3")
POSITIONS = 64
CASES = [
    pytest.param(kind, SIZES[number] | MORE[number], id=f"{kind}-{number}")
    for kind in FAMILIES
    for number in range(len(SIZES))
]
cases = pytest.mark.parametrize(("kind", "sizes"), CASES)
PROMPTS = ["", "the", "the cat sat", "Ein Haus, drei Häuser"]


def published(folder: Path, kind: str, sizes: dict[str, Any]) -> Any:
    """A model in the folder, and it as transformers runs it."""
    transformers = quiet()
    tokenizer = patterned("qwen2") if kind.startswith("Qwen") else byte_pairs(283)
    last = tokenizer.get_vocab_size() - 1
    chosen = dict(sizes)
    if kind == "Qwen2":  # has no width of a head
        chosen["hidden_size"] = chosen.pop("head_dim") * chosen["num_attention_heads"]
    if kind == "Mistral":
        chosen["sliding_window"] = 5
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=last + 1,
        bos_token_id=last,
        eos_token_id=last,
        pad_token_id=None,
        max_position_embeddings=POSITIONS,
        attn_implementation="eager",
        **chosen,
    )
    torch.manual_seed(3)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


def imported(folder: Path, kind: str, sizes: dict[str, Any]) -> tuple[LanguageModelRun, Any]:
    theirs = published(folder / "published", kind, sizes)
    import_run(str(folder / "published"), folder / "run")
    return load(folder / "run", "cpu", task=LanguageModelRun), theirs


@cases
@torch.no_grad()
def test_states_maps_and_logits_are_those_of_transformers(kind: str, sizes: dict[str, Any], tmp_path: Path):
    run, theirs = imported(tmp_path, kind, sizes)
    ids = torch.randint(run.tokenizer.size, (3, 19), generator=torch.Generator().manual_seed(2))
    wanted = theirs(ids, output_attentions=True, output_hidden_states=True)
    states = []
    hooks = [
        block.register_forward_hook(lambda _, __, output: states.append(output[0]))
        for block in run.model.get_submodule("blocks").children()
    ]
    with record(run.model, only="blocks.*.self_attention") as maps:
        logits, _ = run.model(ids, run.model.begin(3))
    for hook in hooks:
        hook.remove()
    assert len(maps) == len(wanted.attentions) == sizes["num_hidden_layers"]
    for found, expected in zip(states[:-1], wanted.hidden_states[1:-1], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for found, expected in zip(maps.values(), wanted.attentions, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, wanted.logits, rtol=1e-5, atol=1e-5)


@cases
@pytest.mark.parametrize("beam", [1, 3])
def test_continuations_are_theirs_token_by_token(kind: str, sizes: dict[str, Any], beam: int, tmp_path: Path):
    """Prompts of different lengths in one batch."""
    run, theirs = imported(tmp_path, kind, sizes)
    last, room = run.tokenizer.special.end, 30
    run.config = replace(run.config, search=replace(run.config.search, length_penalty=0.0))
    found = run.predict(PROMPTS, tokens=room, beam=beam)
    for prompt, ours in zip(PROMPTS, found, strict=True):
        expected = written(theirs, run.tokenizer.encode(prompt) or [last], tokens=room, beam=beam, end=last)
        assert ours.tokens == tuple(run.tokenizer.pieces(expected))


@cases
def test_there_and_back_is_the_same(kind: str, sizes: dict[str, Any], tmp_path: Path):
    imported(tmp_path, kind, sizes)
    assert export_run(tmp_path / "run", tmp_path / "exported") == ["the files as regard reads them", "transformers"]
    assert json.loads((tmp_path / "exported" / "config.json").read_text())["model_type"] == kind.lower()
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    for name in ("weights.safetensors", "tokenizer.json", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_shards_of_16_bits(tmp_path: Path):
    run, theirs = imported(tmp_path, "Qwen2", SIZES[1] | MORE[1])
    theirs.bfloat16().save_pretrained(tmp_path / "shards", max_shard_size="4KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").is_file()
    (tmp_path / "shards" / "tokenizer.json").write_bytes((tmp_path / "published" / "tokenizer.json").read_bytes())
    import_run(str(tmp_path / "shards"), tmp_path / "second")
    second = load(tmp_path / "second", "cpu", task=LanguageModelRun)
    for name, parameter in second.model.state_dict().items():
        torch.testing.assert_close(parameter, run.model.state_dict()[name].bfloat16().float(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("Llama", {"attention_bias": True}, "attention_bias is True; regard supports False only"),
        ("Llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "rope_type is 'dynamic'"),
        ("Llama", {"rope_parameters": YARN | {"mscale": 0.7}}, "mscale of the rotary positions is 0.7"),
        ("Qwen2", {"sliding_window": 4}, "sliding_window is 4; regard supports None for qwen2"),
        ("Qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types has other layers"),
        (
            "Llama",
            {"quantization_config": {"bits": 4}},
            "quantization_config: the weights are quantised",
        ),
        ("Llama", {"num_key_value_heads": 3}, "heads 4 is not divisible by key_value_heads 3"),
        ("Llama", {"intermediate_size": 24}, "intermediate_size is 24, and model.layers.0.mlp.up_proj.weight has 23"),
        ("Llama", {"rope_parameters": LINEAR | {"factor": 0.5}}, "factor is 0.5; it must be at least 1"),
    ],
)
def test_settings_that_are_not_computed_are_refused(kind: str, changed: dict[str, Any], message: str, tmp_path: Path):
    published(tmp_path, kind, SIZES[1] | MORE[1])
    document = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(document | changed))
    with pytest.raises(InputError) as caught:
        families.read(Folder(tmp_path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": 3, "biased": True}, "no published family has biased, normalized and window together"),
        ({"scaling": RotaryScaling("ntk", 2.0)}, "model.scaling.kind is ntk"),
    ],
)
def test_settings_that_no_family_has_are_not_exported(changed: dict[str, Any], message: str, tmp_path: Path):
    published(tmp_path, "Llama", SIZES[1] | MORE[1])
    opened = families.read(Folder(tmp_path))
    with pytest.raises(InputError, match=message):
        families.write(replace(opened, config=replace(opened.config, **changed)))


@pytest.mark.parametrize("kind", ["qwen2", "llama3"])
def test_text_is_cut_as_theirs(kind: str, tmp_path: Path):
    """By the pattern of the released models, as the tokenizers library reads it from their file."""
    published(tmp_path / "published", "Llama", SIZES[1] | MORE[1])
    backend = patterned(kind)
    backend.save(str(tmp_path / "published" / "tokenizer.json"))
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    assert run.tokenizer.settings.kind == kind
    for text in (*TEXTS, "It's 12345 o'clock.\r\n\n  Ein Über\u0308mut 日本 🙂 ", "", "DON'T  cat sat"):
        assert run.tokenizer.encode(text) == backend.encode(text).ids
        assert run.tokenizer.decode(backend.encode(text).ids) == backend.decode(backend.encode(text).ids)


def patterned(kind: str) -> Tokenizer:
    """The pipeline of a released tokenizer, written down from its file."""
    number = {"qwen2": r"\p{N}", "llama3": r"\p{N}{1,3}"}[kind]
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + number
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    document = json.loads(byte_pairs(283).to_str())
    document["normalizer"] = {"type": "NFC"} if kind == "qwen2" else None
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, bytes_]}
    document["model"]["ignore_merges"] = kind == "llama3"
    return Tokenizer.from_str(json.dumps(document))
