"""Tokenizers of Unigram pieces, and others of steps that no kind has, cut text as the tokenizers library does."""

import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard import load
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.tasks.language_model.run import LanguageModelRun
from regard.text import Tokenizer, TokenizerSettings
from tests.hub import spm
from tests.hub.published import BERTS, CHARACTERS, MULTILINGUAL, filler, quiet, unigram_pieces
from tests.hub.test_faults import change, refused
from tests.hub.test_llama import MORE
from tests.hub.test_llama import SIZES as LLAMAS
from tests.hub.test_unigrams import SCRIPTS

TABLE = normalizers.Precompiled(spm.characters(CHARACTERS))
COLLAPSED = normalizers.Replace(" {2,}", " ")
STEPS: dict[str, tuple[Any, Any]] = {
    "XLM-R": (TABLE, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])),
    "T5": (normalizers.Sequence([TABLE, COLLAPSED]), pre_tokenizers.Metaspace()),
    "ALBERT": (
        normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), TABLE, COLLAPSED]
        ),
        pre_tokenizers.Metaspace(prepend_scheme="first"),
    ),
    "no blank in front": (TABLE, pre_tokenizers.Metaspace(prepend_scheme="never")),
}


def drawn_texts(number: int) -> list[str]:
    """Random text of many scripts, half of it decomposed, with words that the pieces know."""
    draw, found = random.Random(7), []
    for at in range(number):
        letters = "".join(chr(draw.choice(draw.choice(SCRIPTS))) for _ in range(draw.randint(0, 9)))
        text = f" {letters} ".join(draw.choice(MULTILINGUAL) for _ in range(draw.randint(1, 3)))
        found.append(unicodedata.normalize("NFD", text) if at % 2 else text)
    return found


TEXTS = ["", " ", "  two\tblanks\n ", "ﬁ …Ａ　ｶﾞ", "e\u0301\u0301", *MULTILINGUAL, *drawn_texts(300)]


def without_names(texts: list[str]) -> list[str]:
    """Texts without the names of special tokens, which other libraries take for the tokens."""
    return [text for text in texts if not any(name in text for name in ("<s>", "</s>", "<pad>", "<unk>", "<mask>"))]


@pytest.mark.parametrize(
    ("steps", "kind"), [("XLM-R", "XLMRobertaTokenizer"), *((steps, "PreTrainedTokenizerFast") for steps in STEPS)]
)
def test_text_of_many_scripts_is_cut_as_by_transformers(steps: str, kind: str, tmp_path: Path):
    """By the class of the family, and by the one that reads the steps of a file; also after an export."""
    filler(tmp_path / "published", "xlm-roberta", **BERTS[0])
    backend = unigram_pieces()
    backend.normalizer, backend.pre_tokenizer = STEPS[steps]
    backend.save(str(tmp_path / "published" / "tokenizer.json"))
    (tmp_path / "published" / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    import_run(str(tmp_path / "published"), tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "exported")
    ours = Tokenizer.load(tmp_path / "run" / "tokenizer.json")
    for folder in ("published", "exported"):
        theirs = quiet().AutoTokenizer.from_pretrained(tmp_path / folder)
        for text in without_names(TEXTS):
            assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], (folder, text)


def test_names_of_special_tokens_are_plain_text_and_spans_lie_in_it(tmp_path: Path):
    filler(tmp_path, "xlm-roberta", **BERTS[0])
    found = families.read(Folder(tmp_path)).tokenizer
    special = {*found.special.all} - {found.special.unknown}
    for text in (*TEXTS, "</s> <s>the<pad> <mask> cat <unk>"):
        assert not special & {*found.encode(text)}, text
        spans = found.offsets(text)
        assert all(0 <= start < end <= len(text) for start, end in spans), text
        assert spans == sorted(spans), text


def test_what_is_decoded_and_shown(tmp_path: Path):
    filler(tmp_path, "xlm-roberta", **BERTS[0])
    found = families.read(Folder(tmp_path)).tokenizer
    assert found.decode(found.encode("the cat sat on the mat")) == "the cat sat on the mat"
    assert found.decode(found.encode("the 字 cat")) == "the \ufffd cat"
    assert found.pieces([found.special.mask or 0, *found.encode("the 字")])[0] == "<mask>"
    assert all(piece for piece in found.pieces(range(found.size)))
    found.save(tmp_path / "kept.json")
    assert Tokenizer.load(tmp_path / "kept.json").digest == found.digest


def test_a_kept_tokenizer_that_was_changed(tmp_path: Path):
    filler(tmp_path, "xlm-roberta", **BERTS[0])
    families.read(Folder(tmp_path)).tokenizer.save(tmp_path / "kept.json")
    document = json.loads((tmp_path / "kept.json").read_text(encoding="utf-8"))
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated", "invert": False}
    for change_ in ({"normalizer": 3}, {"pre_tokenizer": pattern}, {"model": {"type": "Unigram"}}, {"entries": [1]}):
        (tmp_path / "broken.json").write_text(json.dumps(document | {"tokenizer": document["tokenizer"] | change_}))
        with pytest.raises(InputError, match="broken tokenizer file"):
            Tokenizer.load(tmp_path / "broken.json")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"unk_id": None}, "segments text without bytes and without an unknown piece, so that characters are lost"),
        ({"unk_id": 0}, "its unknown piece has the id 0; expected 3"),
        ({"vocab": [["a", -1.0], ["a", -2.0]]}, "expected a vocabulary of pieces, none of them twice"),
        ({"vocab": ["a"]}, "expected a vocabulary of pieces, none of them twice, with a log-probability each"),
        ({"vocab": [["a", -1.0]]}, "has no entry <pad>; is it the tokenizer of another model"),
    ],
)
def test_row_35_a_broken_tokenizer(model: dict[str, Any], message: str, tmp_path: Path):
    folder = tmp_path / "published"
    filler(folder, "xlm-roberta", **BERTS[0])
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    added = document["added_tokens"] if "unk_id" in model else []
    change(folder, "tokenizer.json", model=document["model"] | model, added_tokens=added)
    refused(folder, message)


def test_a_language_model_of_unigram_pieces(tmp_path: Path):
    """Greedy text of a Llama with such a tokenizer is that of transformers, and it goes out and comes back."""
    backend = Backend(models.Unigram([(piece, score) for piece, score in pieces_of(unigram_pieces())], 3, False))
    backend.normalizer, backend.pre_tokenizer = STEPS["T5"]
    backend.decoder = decoders.Metaspace()
    size = backend.get_vocab_size()
    transformers = quiet()
    torch.manual_seed(5)
    config = transformers.LlamaConfig(**LLAMAS[1] | MORE[1] | {"vocab_size": size, "eos_token_id": 2})
    theirs = transformers.LlamaForCausalLM(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path / "published")
    backend.add_special_tokens(["</s>"])
    backend.save(str(tmp_path / "published" / "tokenizer.json"))
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    ids = quiet().PreTrainedTokenizerFast(tokenizer_object=backend)("the cat", return_tensors="pt")["input_ids"]
    assert run.tokenizer.encode("the cat") == ids[0].tolist()
    given = theirs.generate(ids, max_new_tokens=7, do_sample=False, pad_token_id=2)[0, ids.shape[1] :].tolist()
    [found] = run.predict(["the cat"], tokens=7)
    assert found.tokens == tuple(run.tokenizer.pieces(given))
    export_run(tmp_path / "run", tmp_path / "exported")
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    for name in ("weights.safetensors", "tokenizer.json", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def pieces_of(backend: Backend) -> list[list[Any]]:
    """The pieces of a Unigram model with their log-probabilities."""
    return json.loads(backend.to_str())["model"]["vocab"]


def test_kind_pipeline_is_not_trained():
    with pytest.raises(InputError, match="read from published models and not trained"):
        Tokenizer.train(TokenizerSettings("pipeline"), ["a text"])


def test_entries_alone_make_pieces():
    names = ["<pad>", "<unk>", "<s>", "</s>", "▁a", "b"]
    tokenizer = Tokenizer.of(TokenizerSettings("pipeline"), {name: at for at, name in enumerate(names)})
    assert tokenizer.encode("ab x") == [4, 5, 1]
