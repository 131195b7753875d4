"""Tokenizers as they are published: their forms, what cannot be read, and the same tokens in what is exported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend

from regard import load
from regard.errors import InputError, RunError
from regard.hub import export_run, import_run
from regard.hub.folders import write_run
from regard.hub.formats import families, word_pieces
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import PretrainedModel
from regard.models.gpt2 import GPT2, GPT2Config
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kind import KindName
from regard.text.special import END
from tests.hub.published import BERTS, CONFIGURATIONS, TEXTS, filler, gpt2, quiet
from tests.hub.published import word_pieces as bert_pieces

KINDS = ("bert", "roberta", "distilbert")
TRAINED: tuple[KindName, ...] = ("character", "word", "space", "bpe", "gpt2", "wordpiece", "wordpiece-uncased")
CHECKED = ["the files as regard reads them", "transformers"]
Edit = Callable[[dict[str, Any]], object]
DIGITS = {"type": "Digits", "individual_digits": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def publish(folder: Path, kind: str) -> Path:
    if kind == "gpt2":
        gpt2(folder, **CONFIGURATIONS[0])
    else:
        filler(folder, kind.removeprefix("cased "), **BERTS[0])
    if kind.startswith("cased"):
        change(folder, "tokenizer.json", lambda given: given["normalizer"].update(lowercase=False))
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}', encoding="utf-8")
    return folder


def change(folder: Path, name: str, edit: Edit) -> None:
    given = json.loads((folder / name).read_text(encoding="utf-8"))
    edit(given)
    (folder / name).write_text(json.dumps(given), encoding="utf-8")


def listed(folder: Path, **settings: Any) -> None:
    """The vocabulary as a list, and settings beside it, in place of tokenizer.json."""
    ids = bert_pieces().get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(ids, key=ids.__getitem__)) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "tokenizer.json").unlink()


@pytest.mark.parametrize("kind", ["gpt2", *KINDS, "xlm-roberta", "mpnet"])
def test_a_file_of_the_first_years_does_not_tell_its_type(kind: str, tmp_path: Path):
    publish(tmp_path, kind)
    told = families.read(Folder(tmp_path)).tokenizer
    change(tmp_path, "tokenizer.json", lambda given: given["model"].pop("type"))
    assert families.read(Folder(tmp_path)).tokenizer.digest == told.digest


@pytest.mark.parametrize("kind", TRAINED)
def test_a_language_model_trained_here_goes_out_and_comes_back(kind: KindName, tmp_path: Path):
    size = Tokenizer.train(TokenizerSettings(kind, 290), TEXTS).size
    tokenizer = Tokenizer.train(TokenizerSettings(kind, size), TEXTS)
    config = GPT2Config(layers=1, width=6, heads=3, context=11)
    write_run(PretrainedModel(config, GPT2(size, config).state_dict(), tokenizer), {}, tmp_path / "run")
    assert export_run(tmp_path / "run", tmp_path / "exported") == CHECKED
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    for name in ("weights.safetensors", "tokenizer.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    theirs = quiet().AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert (theirs.eos_token_id, len(theirs)) == (END, size)
    assert [theirs(text)["input_ids"] for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]


def test_row_76_half_an_import_is_not_in_the_way_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tokenizer = Tokenizer.train(TokenizerSettings("space", 290), TEXTS)
    config = GPT2Config(layers=1, width=6, heads=3, context=11)
    model = PretrainedModel(config, GPT2(tokenizer.size, config).state_dict(), tokenizer)

    def full(*_: object) -> None:
        raise RunError("no space left on the device")

    with monkeypatch.context() as patch:
        patch.setattr("regard.storage.tensors.write", full)
        with pytest.raises(RunError, match="no space left"):
            write_run(model, {}, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    write_run(model, {}, tmp_path / "run")


@pytest.mark.parametrize("kind", [*KINDS, "cased bert", "xlm-roberta"])
def test_texts_with_blanks_are_those_of_transformers(kind: str, tmp_path: Path):
    published = publish(tmp_path / "published", kind)
    import_run(str(published), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=MaskedLanguageModelRun)
    assert export_run(tmp_path / "run", tmp_path / "exported") == CHECKED
    theirs = quiet().AutoTokenizer.from_pretrained(tmp_path / "exported")
    first = Backend.from_file(str(published / "tokenizer.json"))
    for text in (f"The {theirs.mask_token} on  {theirs.mask_token}, É日", *TEXTS[:1]):
        ours = run._blanked(text, theirs.mask_token)
        assert theirs(text)["input_ids"] == ours
        marked = f"{theirs.cls_token}{text}{theirs.sep_token}"
        assert first.encode(marked, add_special_tokens=False).ids == ours


def test_row_55_a_tokenizer_that_differs_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import_run(str(publish(tmp_path / "published", "cased bert")), tmp_path / "run")
    about = word_pieces.tokenizer_config
    monkeypatch.setattr(word_pieces, "tokenizer_config", lambda *given: about(*given) | {"do_lower_case": True})
    with pytest.raises(RunError, match="transformers segments text differently from the run: 'The cat sat on"):
        export_run(tmp_path / "run", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize(
    ("kind", "part", "values", "message"),
    [
        (
            "bert",
            "model",
            {"continuing_subword_prefix": "@@"},
            "continuing_subword_prefix is '@@'; regard segments text",
        ),
        (
            "bert",
            "model",
            {"max_input_chars_per_word": 3},
            "max_input_chars_per_word is 3; regard segments text with 100",
        ),
        ("bert", "model", {"unk_token": "[SEP]"}, r"unk_token is '\[SEP\]'; regard segments text with"),
        ("gpt2", "model", {"end_of_word_suffix": "</w>"}, "end_of_word_suffix is '</w>'"),
        ("roberta", "model", {"continuing_subword_prefix": "##"}, "continuing_subword_prefix is '##'"),
        ("roberta", "model", {"dropout": 0.1}, "dropout is 0.1; regard segments text with 0 only"),
    ],
)
def test_settings_that_change_how_text_is_cut(
    kind: str, part: str, values: dict[str, Any], message: str, tmp_path: Path
):
    publish(tmp_path, kind)
    change(tmp_path, "tokenizer.json", lambda given: given[part].update(values))
    with pytest.raises(InputError, match=message):
        families.read(Folder(tmp_path))


@pytest.mark.parametrize(
    ("kind", "part", "values"),
    [
        ("bert", "normalizer", {"handle_chinese_chars": False}),
        ("bert", "normalizer", {"clean_text": False}),
        ("bert", "normalizer", {"strip_accents": False}),
        ("bert", "normalizer", {"type": "NFKC"}),
        ("bert", "pre_tokenizer", {"type": "WhitespaceSplit"}),
        ("gpt2", "model", {"ignore_merges": True}),
        ("gpt2", "pre_tokenizer", {"use_regex": False}),
        ("roberta", "pre_tokenizer", {"type": "Sequence", "pretokenizers": [DIGITS, BYTES]}),
    ],
)
def test_steps_of_no_kind_are_those_of_the_library(kind: str, part: str, values: dict[str, Any], tmp_path: Path):
    """Of transformers' general class, text is cut by the steps of tokenizer.json."""
    publish(tmp_path, kind)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}', encoding="utf-8")
    change(tmp_path, "tokenizer.json", lambda given: given[part].update(values))
    found = families.read(Folder(tmp_path)).tokenizer
    assert found.settings.kind == "pipeline"
    theirs = Backend.from_file(str(tmp_path / "tokenizer.json"))
    theirs.encode_special_tokens = True
    for text in (*TEXTS, "ÉCOLE  naïve 日本", "12345 a1b2\tx\n"):
        assert found.encode(text) == theirs.encode(text, add_special_tokens=False).ids, text


def test_a_step_with_a_pattern_of_its_own_is_refused(tmp_path: Path):
    """A pattern may take exponential time."""
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+b"}, "behavior": "Isolated", "invert": False}
    steps = {"type": "Sequence", "pretokenizers": [pattern, BYTES]}
    change(publish(tmp_path, "gpt2"), "tokenizer.json", lambda given: given.update(pre_tokenizer=steps))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}', encoding="utf-8")
    with pytest.raises(InputError, match=r"a step has the pattern '\(a\+\)\+b' of its own, which regard does not run"):
        families.read(Folder(tmp_path))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda given: given["model"]["vocab"].update(a="x"), "a vocabulary of entries with a whole number each"),
        (lambda given: given["model"]["vocab"].update(a=[1]), "a vocabulary of entries with a whole number each"),
        (
            lambda given: given["model"]["vocab"].update({"\ud800": 3}),
            "an entry .* has an unpaired surrogate",
        ),
        (lambda given: given["model"].update(merges=5), "merges is 5; expected a list of pairs"),
        (lambda given: given["model"].update(merges=[5]), "a merge is 5; expected two entries that make a third"),
        (lambda given: given["model"].update(merges=["a b c"]), "a merge is 'a b c'; expected two entries"),
        (
            lambda given: given["model"].update(merges=[["zq", "qz"]]),
            r"a merge is \['zq', 'qz'\]; expected two",
        ),
        (lambda given: given["added_tokens"][0].pop("id"), "an added token is .*; expected a content with an id"),
        (lambda given: given.update(added_tokens=7), "an added token is 7; expected a content with an id of its own"),
        (lambda given: given["added_tokens"][0].update(special=False), "is matched in text before segmentation"),
        (lambda given: given.update(normalizer="x"), "the tokenizers library cannot read it"),
        (lambda given: given.update(pre_tokenizer=[1]), "the tokenizers library cannot read it"),
    ],
)
def test_row_35_a_broken_tokenizer(edit: Edit, message: str, tmp_path: Path):
    change(publish(tmp_path, "gpt2"), "tokenizer.json", edit)
    with pytest.raises(InputError, match=message) as caught:
        families.read(Folder(tmp_path))
    assert len(str(caught.value).splitlines()) == 1
