"""Tokenizers of Llama 2 and Mistral, with bytes for unknown characters: as the tokenizers library reads their files."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard import load
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats.folder import Folder
from regard.tasks.language_model.run import LanguageModelRun
from regard.text import Tokenizer as Own
from regard.text import TokenizerSettings
from tests.hub.published import TEXTS, quiet
from tests.hub.test_llama import MORE, SIZES

SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MANY = (
    *TEXTS,
    " the",
    "  two  blanks\tand\nlines\r\n ",
    "",
    "日本 🙂 Über\u0308mut",
    "<0x41> <s> </s>",
    "the▁cat",
    "\u0130",
)


def fallback(kind: str) -> Tokenizer:
    """The pipeline of a released tokenizer, written down from its file, with a small vocabulary."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace("▁", "first")
    trainer = trainers.BpeTrainer(vocab_size=299, special_tokens=[*SPECIAL, *BYTES], show_progress=False)
    trained.train_from_iterator(TEXTS[:1], trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    found = Tokenizer(models.BPE(model["vocab"], merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if kind == "llama2":
        found.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        found.pre_tokenizer = pre_tokenizers.Metaspace("▁", "first", split=False)
    found.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    found.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    found.add_special_tokens(SPECIAL)
    return found


def published(folder: Path, kind: str) -> tuple[Any, Tokenizer]:
    """A random Llama with such a tokenizer, as transformers runs it."""
    backend, sizes = fallback(kind), SIZES[1] | MORE[1]
    transformers = quiet()
    torch.manual_seed(5)
    size = backend.get_vocab_size() + 5  # padded beyond the tokenizer's
    config = transformers.LlamaConfig(**sizes | {"vocab_size": size, "bos_token_id": 1, "eos_token_id": 2})
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        model.get_output_embeddings().weight[len(SPECIAL) : len(SPECIAL) + len(BYTES)] = 0.0  # it writes few bytes
    model.save_pretrained(folder)
    backend.save(str(folder / "tokenizer.json"))
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return model, backend


@pytest.mark.parametrize("kind", ["llama2", "mistral"])
def test_text_is_cut_as_the_library_cuts_it(kind: str, tmp_path: Path):
    _, backend = published(tmp_path / "published", kind)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    assert run.tokenizer.settings.kind == kind
    backend.encode_special_tokens = True  # the name of a special token is plain text
    for text in MANY:
        ids = backend.encode(text, add_special_tokens=False).ids
        assert run.tokenizer.encode(text) == ids, text
        assert run.tokenizer.decode(ids) == backend.decode(ids), text
        assert len(run.tokenizer.offsets(text)) == len(ids)
        if kind == "llama2":
            assert run.tokenizer.decode(ids) == text.replace("▁", " ")
    assert run.tokenizer.pieces(run.tokenizer.encode("é")) == ["·", r"\xc3", r"\xa9"]


@pytest.mark.parametrize("kind", ["llama2", "mistral"])
def test_greedy_text_is_that_of_transformers_and_comes_back(kind: str, tmp_path: Path):
    model, _ = published(tmp_path / "published", kind)
    theirs = quiet().AutoTokenizer.from_pretrained(tmp_path / "published")
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    unwritten = {"suppress_tokens": [1, *range(model.config.vocab_size - 5, model.config.vocab_size)]}
    for text in ("the cat", "日本", "sat  on"):
        ids = theirs(text, return_tensors="pt")["input_ids"]
        assert ids[0].tolist() == [1, *run.tokenizer.encode(text)]
        found = model.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=2, **unwritten)[0].tolist()
        written = run.tokenizer.decode(found).removeprefix(text)
        assert run.predict([text], tokens=5)[0].text == written
    export_run(tmp_path / "run", tmp_path / "exported")
    again = quiet().AutoTokenizer.from_pretrained(tmp_path / "exported")
    for text in MANY:
        assert (
            again(text, split_special_tokens=True)["input_ids"] == theirs(text, split_special_tokens=True)["input_ids"]
        )
    before, after = (Folder(tmp_path / name).tensors() for name in ("published", "exported"))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_vocabulary_without_a_byte_is_refused(tmp_path: Path):
    published(tmp_path, "llama2")
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace("<0x0A>", "<newline>"))
    with pytest.raises(InputError, match="entry '<0x0A>' is missing"):
        import_run(str(tmp_path), tmp_path / "run")


def test_no_space_in_front_is_refused(tmp_path: Path):
    published(tmp_path, "mistral")
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"add_prefix_space": False}))
    with pytest.raises(InputError, match="add_prefix_space is False; regard segments text with True only"):
        import_run(str(tmp_path), tmp_path / "run")


@pytest.mark.parametrize("kind", ["llama2", "mistral"])
def test_a_vocabulary_is_learned(kind: Any):
    found = Own.train(TokenizerSettings(kind, size=300), TEXTS)
    assert found.size == 300
    assert len(found.encode("the cat")) < len("the cat")
    for text in ("the cat sat", "żółw 🙂\n"):
        assert found.decode(found.encode(text)) == text
