"""Row 85: settings of tokenizers, heads and files that change results are honoured or refused."""

import json
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
from regard.tasks.language_model.run import LanguageModelRun
from tests.hub.published import BERTS, CONFIGURATIONS, filler, gpt2, quiet
from tests.hub.published_images import VITS, classifier
from tests.hub.test_faults import change, refused
from tests.hub.test_llama import MORE
from tests.hub.test_llama import SIZES as LLAMAS
from tests.hub.test_llama import published as llama

WEIGHTS = "model.safetensors"


def about(folder: Path, **values: Any) -> None:
    """The folder's tokenizer_config.json."""
    (folder / "tokenizer_config.json").write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize("lower", [True, False])
def test_row_85_a_configuration_overrides_the_tokenizer(lower: bool, tmp_path: Path):
    """do_lower_case beside a tokenizer.json, as transformers reads it."""
    filler(tmp_path, "bert", **BERTS[0])
    about(tmp_path, tokenizer_class="BertTokenizer", do_lower_case=lower)
    found = families.read(Folder(tmp_path)).tokenizer
    theirs = quiet().AutoTokenizer.from_pretrained(tmp_path)
    for text in ("The CAT sat", "Übermut", "the cat"):
        assert found.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text
    assert (found.encode("THE") == found.encode("the")) is lower


STRANGE = ("The CAT sat", "ÉCOLE naïve Übermut", "日本 cat日", "the  cat", " cat", "e\u0301te\u0301 ｶﾞ 12.5%")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bert", {"strip_accents": False}),
        ("bert", {"strip_accents": True, "do_lower_case": False}),
        ("bert", {"tokenize_chinese_chars": False}),
        ("distilbert", {"strip_accents": False, "tokenize_chinese_chars": False}),
        ("roberta", {"add_prefix_space": True}),
        ("gpt2", {"add_prefix_space": True}),
    ],
)
@pytest.mark.parametrize("listed", [False, True], ids=["tokenizer.json", "older files"])
def test_row_85_an_override_is_honoured(kind: str, values: dict[str, Any], listed: bool, tmp_path: Path):
    """Text is cut as by transformers' own class, also after an export and an import of it."""
    folder = tmp_path / "published"
    (gpt2(folder, **CONFIGURATIONS[0]) if kind == "gpt2" else filler(folder, kind, **BERTS[0]))
    about(folder, tokenizer_class={"gpt2": "GPT2Tokenizer", "roberta": "RobertaTokenizer"}.get(kind), **values)
    if listed:
        older(folder)
    found = families.read(Folder(folder)).tokenizer
    theirs = quiet().AutoTokenizer.from_pretrained(folder)
    for text in STRANGE:
        assert found.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text
    assert found.settings.kind == "pipeline"
    import_run(str(folder), tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "exported")
    again = families.read(Folder(tmp_path / "exported")).tokenizer
    assert (again.vocabulary, again.special) == (found.vocabulary, found.special)
    assert [again.encode(text) for text in STRANGE] == [found.encode(text) for text in STRANGE]


def older(folder: Path) -> None:
    """Replace a tokenizer.json by the files of the first years."""
    path = folder / "tokenizer.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    ids = document["model"]["vocab"] | {each["content"]: each["id"] for each in document["added_tokens"]}
    if document["model"].get("merges"):
        (folder / "vocab.json").write_text(json.dumps(ids))
        merges = [each if isinstance(each, str) else " ".join(each) for each in document["model"]["merges"]]
        (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges), encoding="utf-8")
    else:
        (folder / "vocab.txt").write_text("\n".join(sorted(ids, key=ids.__getitem__)) + "\n", encoding="utf-8")


CLEANING = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BLANKS = {"type": "Metaspace", "replacement": "▁", "split": True}
WORD_STEPS: dict[str, dict[str, Any]] = {
    "cased": {"normalizer": CLEANING | {"lowercase": False, "strip_accents": None}},
    "accents": {"normalizer": CLEANING | {"lowercase": True, "strip_accents": False}},
    "nfkc": {"normalizer": {"type": "NFKC"}},
    "blanks": {"pre_tokenizer": {"type": "WhitespaceSplit"}},
}
BYTE_STEPS: dict[str, dict[str, Any]] = {
    "prefixed": {"pre_tokenizer": BYTES | {"add_prefix_space": True}},
    "uncut": {"pre_tokenizer": BYTES | {"use_regex": False}},
    "nfkc": {"normalizer": {"type": "NFKC"}},
}
PIECE_STEPS: dict[str, dict[str, Any]] = {
    "never": {"pre_tokenizer": BLANKS | {"prepend_scheme": "never"}},
    "nfkc": {"normalizer": {"type": "NFKC"}},
}
CASES = [
    *((kind, name, steps) for kind in ("bert", "distilbert", "electra", "mpnet") for name, steps in WORD_STEPS.items()),
    *((kind, name, steps) for kind in ("roberta", "gpt2") for name, steps in BYTE_STEPS.items()),
    *(("xlm-roberta", name, steps) for name, steps in PIECE_STEPS.items()),
]
GENERAL = {"tokenizer_class": "PreTrainedTokenizerFast"}


@pytest.mark.parametrize(
    "values",
    [
        None,
        {},
        {"do_lower_case": False},
        {"add_prefix_space": True},
        {"strip_accents": None},
        GENERAL,
        GENERAL | {"do_lower_case": False, "add_prefix_space": True},
    ],
    ids=["no file", "no key", "cased", "prefixed", "accents", "general", "general with keys"],
)
@pytest.mark.parametrize(("kind", "name", "steps"), CASES, ids=[f"{kind}-{name}" for kind, name, _ in CASES])
def test_row_85_a_class_has_steps_of_its_own(
    kind: str, name: str, steps: dict[str, Any], values: dict[str, Any] | None, tmp_path: Path
):
    """Steps of tokenizer.json count for transformers' general class only; those of a family have its defaults, such as
    lower case."""
    (gpt2(tmp_path, **CONFIGURATIONS[0]) if kind == "gpt2" else filler(tmp_path, kind, **BERTS[0]))
    change(tmp_path, "tokenizer.json", **steps)
    if values is not None:
        about(tmp_path, **values)
    found = families.read(Folder(tmp_path)).tokenizer
    theirs = quiet().AutoTokenizer.from_pretrained(tmp_path)
    for text in STRANGE:
        assert found.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], (name, text)


@pytest.mark.parametrize("key", ["do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space"])
def test_row_85_an_override_that_is_neither_true_nor_false(key: str, tmp_path: Path):
    filler(tmp_path / "published", "bert", **BERTS[0])
    about(tmp_path / "published", **{key: "no"})
    refused(tmp_path / "published", f"{key} is 'no'; expected true or false")


ADDED = {"content": "<extra>", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"999": ADDED | {"special": True}}},
            "adds the token '<extra>'",
        ),
        ("tokenizer_config.json", {"added_tokens_decoder": {"999": ADDED | {"special": False}}}, "is matched in text"),
        ("tokenizer_config.json", {"additional_special_tokens": ["<extra>"]}, "adds the token '<extra>'"),
        ("added_tokens.json", {"<extra>": 999}, "adds the token '<extra>'"),
    ],
)
def test_row_85_tokens_added_beside_the_tokenizer(
    kind: str, file: str, values: dict[str, Any], message: str, tmp_path: Path
):
    """transformers cuts "<extra>" as one token, so the embeddings of a text differ."""
    folder = tmp_path / "published"
    if kind == "bert":
        filler(folder, "bert", **BERTS[0])
    else:
        gpt2(folder, **CONFIGURATIONS[0])
    (folder / file).write_text(json.dumps(values), encoding="utf-8")
    refused(folder, message)


def template(before: list[str], behind: list[str], between: list[str] | None = None) -> dict[str, Any]:
    """A post-processor."""
    single = [{"SpecialToken": {"id": name, "type_id": 0}} for name in before] + [
        {"Sequence": {"id": "A", "type_id": 0}}
    ]
    single += [{"SpecialToken": {"id": name, "type_id": 0}} for name in behind]
    pair = [*single[: len(before) + 1], *({"SpecialToken": {"id": name, "type_id": 0}} for name in between or behind)]
    pair += [{"Sequence": {"id": "B", "type_id": 1}}, *single[len(before) + 1 :]]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {}}


@pytest.mark.parametrize(
    ("before", "behind"), [(["[CLS]"], []), ([], ["[SEP]"]), (["[CLS]"], ["[SEP]", "[SEP]"]), (["[SEP]"], ["[CLS]"])]
)
def test_row_85_another_post_processor(before: list[str], behind: list[str], tmp_path: Path):
    filler(tmp_path / "published", "bert", **BERTS[0])
    change(tmp_path / "published", "tokenizer.json", post_processor=template(before, behind))
    refused(tmp_path / "published", "its post-processor puts .* around a text")


@pytest.mark.parametrize("between", [["[SEP]"], ["[SEP]", "[SEP]"], ["[CLS]"], ["[SEP]"] * 3])
def test_row_85_the_tokens_between_two_texts(between: list[str], tmp_path: Path):
    """One or two end tokens, by the post-processor; other tokens are refused."""
    folder = tmp_path / "published"
    filler(folder, "bert", **BERTS[0])
    change(folder, "tokenizer.json", post_processor=template(["[CLS]"], ["[SEP]"], between))
    if between not in (["[SEP]"], ["[SEP]"] * 2):
        refused(folder, r"its post-processor puts \['.*'\] between two texts; regard puts one or two \[SEP\] there")
        return
    assert families.read(Folder(folder)).tokenizer.special.between == len(between)


@pytest.mark.parametrize("where", ["tokenizer.json", "tokenizer_config.json"])
def test_row_85_a_start_token(where: str, tmp_path: Path):
    """Llama's tokenizers put a token before each text, and so does the run."""
    theirs = llama(tmp_path / "published", "Llama", LLAMAS[0] | MORE[0])
    document = json.loads((tmp_path / "published" / "tokenizer.json").read_text(encoding="utf-8"))
    document["added_tokens"].append({"id": 65, "content": "a", "special": True})  # an entry of its own
    if where == "tokenizer.json":
        document["post_processor"] = template(["a"], [])
    else:
        about(tmp_path / "published", bos_token={"content": "a"}, add_bos_token=True)
    (tmp_path / "published" / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    start = document["model"]["vocab"]["a"]
    document["added_tokens"][-1]["id"] = start
    (tmp_path / "published" / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    assert (run.config.before, run.tokenizer.special.start) == ("start", start)
    ids = torch.tensor([[start, *run.tokenizer.encode("the cat")]])
    given = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, pad_token_id=282)
    [found] = run.predict(["the cat"], tokens=5)
    assert found.tokens == tuple(run.tokenizer.pieces(given[0, ids.shape[1] :].tolist()))
    export_run(tmp_path / "run", tmp_path / "exported")
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    assert (tmp_path / "run" / "config.yaml").read_bytes() == (tmp_path / "again" / "config.yaml").read_bytes()


def pad(folder: Path, name: str, rows: int) -> None:
    """Give a published model more ids than its tokenizer has."""
    tensors = load_file(folder / WEIGHTS)
    tensors[name] = torch.cat([tensors[name], 50 * torch.ones(rows, tensors[name].shape[1])])
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    change(folder, "config.json", vocab_size=len(tensors[name]))


def test_row_85_a_padded_vocabulary(tmp_path: Path):
    """The ids that no entry has are never predicted, and the logits of the others are the model's."""
    theirs = gpt2(tmp_path / "published", **CONFIGURATIONS[1])
    pad(tmp_path / "published", "transformer.wte.weight", 5)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=LanguageModelRun)
    assert (run.tokenizer.size, run.tokenizer.special.unused) == (288, 5)
    ids = torch.tensor([run.tokenizer.encode("the cat")])
    with torch.no_grad():
        logits, _ = run.model(ids, run.model.begin(1))
        torch.testing.assert_close(logits[..., :283], theirs(ids).logits, rtol=1e-5, atol=1e-5)
    for chosen in ({}, {"beam": 3}, {"temperature": 1.5}):
        [found] = run.predict(["the cat"], tokens=9, **chosen)
        assert not any("unused" in token for token in found.tokens)
    export_run(tmp_path / "run", tmp_path / "exported")
    entries = json.loads((tmp_path / "exported" / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    assert len(entries) == 283
    import_run(str(tmp_path / "exported"), tmp_path / "again")
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == (tmp_path / "again" / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_row_85_images_with_another_problem(problem: str, tmp_path: Path):
    classifier(tmp_path / "published", "vit", **VITS[0])
    change(tmp_path / "published", "config.json", problem_type=problem)
    refused(tmp_path / "published", f"problem_type is '{problem}'")


@pytest.mark.parametrize("kind", ["vit", "deit"])
def test_row_85_images_with_one_output(kind: str, tmp_path: Path):
    """A single output is a number, which a softmax would make 1."""
    theirs = classifier(tmp_path / "published", kind, **VITS[0])
    config = theirs.config
    config.id2label, config.label2id = {0: "LABEL_0"}, {"LABEL_0": 0}
    type(theirs)(config).save_pretrained(tmp_path / "published")
    refused(tmp_path / "published", "problem_type is 'single_label_classification', with 1 outputs; regard computes it")


def test_row_85_a_byte_order_mark(tmp_path: Path):
    gpt2(tmp_path, **CONFIGURATIONS[0])
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert families.read(Folder(tmp_path)).config.layers == 1


def test_row_85_one_tensor_in_two_files(tmp_path: Path):
    """The index decides, not the last file."""
    gpt2(tmp_path, **CONFIGURATIONS[0])
    tensors = load_file(tmp_path / WEIGHTS)
    name = "transformer.ln_f.bias"
    (tmp_path / WEIGHTS).unlink()
    save_file(tensors, tmp_path / "a.safetensors")
    save_file({name: tensors[name] + 1}, tmp_path / "b.safetensors")
    index = dict.fromkeys(tensors, "a.safetensors")
    (tmp_path / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": index}))
    assert torch.equal(families.read(Folder(tmp_path)).tensors["norm.bias"], tensors[name])


def test_row_85_a_link_to_itself(tmp_path: Path):
    gpt2(tmp_path / "published", **CONFIGURATIONS[0])
    (tmp_path / "published" / "config.json").unlink()
    (tmp_path / "published" / "config.json").symlink_to("config.json")
    refused(tmp_path / "published", r"config\.json: is a link to itself")


def test_row_85_quantised_weights(tmp_path: Path):
    filler(tmp_path / "published", "bert", **BERTS[0])
    change(tmp_path / "published", "config.json", quantization_config={"bits": 4})
    refused(tmp_path / "published", "the weights are quantised, which regard does not read")


def test_row_85_an_end_that_is_an_ordinary_token(tmp_path: Path):
    gpt2(tmp_path / "published", **CONFIGURATIONS[1])
    change(tmp_path / "published", "generation_config.json", eos_token_id=40)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    assert load(tmp_path / "run", "cpu", task=LanguageModelRun).tokenizer.special.end == 40


def test_row_85_a_roberta_with_merges(tmp_path: Path):
    """vocab.json and merges.txt without a tokenizer.json."""
    filler(tmp_path, "roberta", **BERTS[0])
    before = families.read(Folder(tmp_path)).tokenizer
    model = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    merges = [each if isinstance(each, str) else " ".join(each) for each in model["merges"]]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges), encoding="utf-8")
    assert families.read(Folder(tmp_path)).tokenizer.encode("the cat's") == before.encode("the cat's")


def test_row_85_the_heads_of_a_decoder(tmp_path: Path):
    from tests.hub.translator import SIZES, marian

    marian(tmp_path / "published", **SIZES[0])
    change(tmp_path / "published", "config.json", decoder_attention_heads=None)
    with pytest.raises(InputError, match="decoder_attention_heads is 16, the encoder's 3"):
        import_run(str(tmp_path / "published"), tmp_path / "run")
