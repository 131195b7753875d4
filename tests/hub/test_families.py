"""BERT, GPT-2, Llama, Marian and ViT: regard's own models compute what the published ones do, in both directions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard import load
from regard.errors import InputError, RunError
from regard.hub import export_run, import_run
from regard.hub.families import FAMILIES as TABLES
from regard.hub.families import gpt2
from regard.hub.families.weights import Part
from regard.hub.parity import compare, make_inputs, run_model
from regard.models.pretrained import Pretrained
from tests.hub.published_folders import SMALL, TEXTS, TEXTUAL, Architecture, make_folder
from tests.hub.published_images import VITS, classifier
from tests.hub.translator import SIZES, marian

transformers = pytest.importorskip("transformers")
BERT = Architecture("BertConfig", SMALL | {"hidden_act": "gelu_new", "layer_norm_eps": 1e-6})
GPT2 = Architecture(
    "GPT2Config", {"n_embd": 18, "n_layer": 2, "n_head": 3, "n_positions": 64, "n_inner": 20}, before="", after=""
)
LLAMA = {"num_key_value_heads": 1, "rms_norm_eps": 1e-4}
ROTATION = {"rope_type": "llama3", "factor": 2.0, "rope_theta": 500.0, "original_max_position_embeddings": 32,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0}  # fmt: skip
FAMILIES: dict[str, tuple[Architecture, str, dict[str, Any]]] = {
    "bert masked": (BERT, "AutoModelForMaskedLM", {}),
    "bert pairs": (BERT, "AutoModelForPreTraining", {}),
    "bert": (BERT, "AutoModel", {}),
    "bert class": (BERT, "AutoModelForSequenceClassification", {"num_labels": 3}),
    "bert number": (BERT, "AutoModelForSequenceClassification", {"num_labels": 1}),
    "bert labels": (
        BERT,
        "AutoModelForSequenceClassification",
        {"num_labels": 2, "problem_type": "multi_label_classification"},
    ),
    "bert tags": (BERT, "AutoModelForTokenClassification", {"num_labels": 3}),
    "bert spans": (BERT, "AutoModelForQuestionAnswering", {}),
    "gpt2": (GPT2, "AutoModelForCausalLM", {}),
    "gpt2 class": (GPT2, "AutoModelForSequenceClassification", {"num_labels": 3}),
    "llama": (Architecture("LlamaConfig", SMALL | LLAMA, after=""), "AutoModelForCausalLM", {}),
    "llama stretched": (
        Architecture("LlamaConfig", SMALL | LLAMA),
        "AutoModelForCausalLM",
        {"rope_parameters": ROTATION},
    ),
}


def published(name: str, folder: Path) -> Path:
    architecture, kind, more = FAMILIES[name]
    return make_folder(folder, architecture, kind, **more)


def same_tensors(first: Path, second: Path) -> bool:
    one, two = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    return set(one) == set(two) and all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_model_is_imported_and_exported_tensor_by_tensor(name: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path / "published")
    import_run(str(folder), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    assert not isinstance(run.model, Pretrained)
    document = json.loads((folder / "config.json").read_text())
    network = getattr(transformers, document["architectures"][0]).from_pretrained(folder).eval()
    inputs = make_inputs(run.model, network, 2, 9, run.tokenizer)
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        theirs = network(**inputs)
        for key, tensor in run_model(run.model, inputs).items():
            is_by_token = tensor.shape[:2] == real.shape
            pair = (tensor[real], theirs[key][real]) if is_by_token else (tensor, theirs[key])
            torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-4)
    assert export_run(tmp_path / "run", tmp_path / "out") == ["transformers"]
    assert same_tensors(folder, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer(TEXTS[0], add_special_tokens=False)["input_ids"] == run.tokenizer.encode(TEXTS[0])
    exported = json.loads((tmp_path / "out/config.json").read_text())
    if "id2label" in document:
        assert exported["id2label"] == document["id2label"]


@pytest.mark.parametrize("number", range(len(VITS)))
@pytest.mark.parametrize("kind", ["vit", "deit"])
def test_an_image_classifier_is_imported_and_exported(kind: str, number: int, tmp_path: Path) -> None:
    network = classifier(tmp_path / "published", kind, **VITS[number])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    config = run.config.model
    pixels = torch.rand(2, config.channels, config.image, config.image)
    with torch.no_grad():
        torch.testing.assert_close(run.model(pixels), network(pixels).logits, rtol=1e-4, atol=1e-4)
    export_run(tmp_path / "run", tmp_path / "out")
    assert same_tensors(tmp_path / "published", tmp_path / "out")


def test_an_image_encoder_has_no_classes(tmp_path: Path) -> None:
    network = classifier(tmp_path / "published", "vit", **VITS[0]).base_model
    network.save_pretrained(tmp_path / "published")
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    assert run.labels == ()
    config = run.config.model
    pixels = torch.rand(2, config.channels, config.image, config.image)
    with torch.no_grad():
        states = network(pixels).last_hidden_state
        torch.testing.assert_close(run.model.encoder(pixels), states, rtol=1e-4, atol=1e-4)


def test_images_of_a_model_saved_by_transformers_5_are_prepared(tmp_path: Path) -> None:
    classifier(tmp_path / "published", "vit", **VITS[0])
    old = tmp_path / "published/preprocessor_config.json"
    new = {"image_processor": json.loads(old.read_text())}
    (tmp_path / "published/processor_config.json").write_text(json.dumps(new))
    import_run(str(tmp_path / "published"), tmp_path / "old")
    old.unlink()
    import_run(str(tmp_path / "published"), tmp_path / "new")
    assert load(tmp_path / "new").config.images == load(tmp_path / "old").config.images


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_a_translation_model_is_imported_and_exported(number: int, tmp_path: Path) -> None:
    network = marian(tmp_path / "published", **SIZES[number])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    special = run.tokenizers.target.special
    inputs = make_inputs(run.model, network, 2, 9, run.tokenizers.target)
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        expected = network(**inputs).logits[real]
        torch.testing.assert_close(run_model(run.model, inputs)["logits"][real], expected, rtol=1e-4, atol=1e-4)
    source = torch.tensor([[*run.tokenizers.source.encode("the cat sat"), special.end]])
    ids = network.generate(source, num_beams=1, do_sample=False, max_length=17)[0]
    [predicted] = run.predict(["the cat sat"], beam=1)
    assert predicted.text == run.tokenizers.target.decode(ids.tolist())
    export_run(tmp_path / "run", tmp_path / "out")
    assert same_tensors(tmp_path / "published", tmp_path / "out")
    assert run.tokenizers.source.encode(">>de<< the fﬁne") == run.tokenizers.source.encode(">>de<< the ffine")
    mark = run.tokenizers.source.vocabulary[">>de<<"]
    assert run.tokenizers.source.encode(">>de<< the cat") == [mark, *run.tokenizers.source.encode("the cat")]
    assert run.tokenizers.source.decode(run.tokenizers.source.encode("the cat")) == "the cat"
    assert {*run.tokenizers.source.encode("日 ü K itz </s>")} <= {
        *range(special.unknown, run.tokenizers.source.size - 1)
    }


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bert class", {"is_decoder": True}),
        ("bert masked", {"is_decoder": True}),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    ],
)
def test_a_setting_that_ours_does_not_compute_keeps_the_published_network(
    name: str, change: dict[str, Any], tmp_path: Path
) -> None:
    architecture, kind, more = FAMILIES[name]
    folder = make_folder(tmp_path / "published", architecture, kind, **more, **change)
    import_run(str(folder), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    assert isinstance(run.model, Pretrained)
    text = f"{TEXTS[0]} [MASK]" if "masked" in name else TEXTS[0]
    assert run.predict([text], **({"tokens": 3} if "bert" not in name else {}))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("roberta", "AutoModelForSequenceClassification"),
        ("modernbert", "AutoModelForMaskedLM"),
        ("deberta-v2", "AutoModelForTokenClassification"),
        ("electra", "AutoModelForQuestionAnswering"),
        ("opt", "AutoModelForCausalLM"),
        ("gemma", "AutoModelForCausalLM"),
        ("t5", "AutoModelForSeq2SeqLM"),
        ("bart", "AutoModelForSequenceClassification"),
    ],
)
def test_any_other_model_is_imported_and_exported_as_it_is(name: str, kind: str, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "published", TEXTUAL[name], kind)
    import_run(str(folder), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    if kind == "AutoModelForSequenceClassification":
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
        with torch.no_grad():
            shares = network(**tokenizer(TEXTS[0], return_tensors="pt")).logits.softmax(-1)[0]
        [found] = run.predict([TEXTS[0]])
        assert found.probability == pytest.approx(float(shares.max()), abs=1e-4)
    if kind == "AutoModelForMaskedLM":
        states = transformers.AutoModel.from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        with torch.no_grad():
            mean = states(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state[0].mean(0)
        torch.testing.assert_close(run.embed([TEXTS[0]])[0], mean, rtol=1e-4, atol=1e-4)
    export_run(tmp_path / "run", tmp_path / "out")
    assert same_tensors(folder, tmp_path / "out")


def test_a_wrong_table_of_weights_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = published("gpt2", tmp_path / "published")
    swapped = {"h.{}.ln_1": "h.{}.ln_2", "h.{}.ln_2": "h.{}.ln_1"}
    parts = []
    for part in gpt2.PARTS:
        name = next((old for old in swapped if old in part.published), None)
        changed = part.published if name is None else part.published.replace(name, swapped[name])
        parts.append(Part(changed, part.ours, part.transposed))
    monkeypatch.setattr(gpt2, "PARTS", tuple(parts))
    torch.manual_seed(1)
    weights = load_file(folder / "model.safetensors")
    for key, tensor in weights.items():
        if "ln_" in key:
            tensor += torch.rand_like(tensor)
    from safetensors.torch import save_file

    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    import_run(str(folder), tmp_path / "run")
    assert isinstance(load(tmp_path / "run").model, Pretrained)


@pytest.mark.parametrize("change", [{"positions": "rotary"}, {"score": "additive"}, {"segments": 0}])
def test_a_model_without_a_published_form_is_not_exported(change: dict[str, Any]) -> None:
    from regard.models.bert import BertConfig

    config = BertConfig(layers=1, width=8, heads=2, hidden=8, context=8)
    object.__setattr__(config, *next(iter(change.items())))
    with pytest.raises(InputError, match=next(iter(change))):
        TABLES["bert"].write_config(config, "masked-language-model")


def test_a_small_difference_counts() -> None:
    compare(torch.ones(3), torch.ones(3) + 5e-5)
    with pytest.raises(RunError, match=r"up to 0\.01"):
        compare(torch.ones(3), torch.ones(3) + 0.01)


SEARCHES: list[tuple[str, dict[str, Any], Callable[[Any], bool]]] = [
    ("llama", {"do_sample": True, "temperature": 0.5, "top_k": 7}, lambda run: run.config.search.top_k == 7),
    ("llama", {"num_beams": 3, "no_repeat_ngram_size": 2}, lambda run: run.config.search.beam == 3),
    ("llama", {"max_new_tokens": 9, "min_new_tokens": 4}, lambda run: run.config.tokens == 9),
    ("gpt2", {"eos_token_id": [2, 7]}, lambda run: run.tokenizer.special.ends == (2, 7)),
    ("gpt2", {"suppress_tokens": [9]}, lambda run: run.config.search.banned == ((9,),)),
]


@pytest.mark.parametrize(("name", "settings", "holds"), SEARCHES)
def test_the_published_search_becomes_that_of_the_run(
    name: str, settings: dict[str, Any], holds: Callable[[Any], bool], tmp_path: Path
) -> None:
    folder = published(name, tmp_path / "published")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 2} | settings))
    import_run(str(folder), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    assert holds(run)
    export_run(tmp_path / "run", tmp_path / "out")
    written = json.loads((tmp_path / "out/generation_config.json").read_text())
    known = {key: value for key, value in settings.items() if key != "suppress_tokens"}
    assert {key: written.get(key) for key in known} == known


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"guidance_scale": 2.0}, "guidance_scale"),
        ({"num_beams": 2, "do_sample": True}, "num_beams is 2"),
        ({"min_length": 5}, "min_new_tokens"),
        ({"eos_token_id": 5000}, "has the id 5000"),
    ],
)
def test_a_search_that_regard_does_not_compute_is_refused(settings: dict[str, Any], match: str, tmp_path: Path) -> None:
    folder = published("gpt2", tmp_path / "published")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 2} | settings))
    with pytest.raises(InputError, match=match):
        import_run(str(folder), tmp_path / "run")
