"""Any published model is fine-tuned, resumed, predicted with and drawn, in every task of texts or images."""

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file

import regard
from regard import load
from regard.data.batches import bert_inputs
from regard.errors import InputError, RunError
from regard.hub.exporting import export_run
from regard.hub.families import FAMILIES as TABLES
from regard.hub.families import gpt2
from regard.hub.families.weights import PublishedTensor
from regard.hub.importing import import_run
from regard.hub.parity import compare, make_inputs, run_model
from regard.models.pretrained import Pretrained, PretrainedConfig, PretrainedLanguageModel, PretrainedSeq2Seq
from regard.models.published import convert_tokenizer, load_part
from regard.runs import run_file
from regard.runs.train import train
from regard.storage.published_folder import PublishedFolder
from regard.testing import check_decoder
from tests import forked
from tests.hub.published import VITS, classifier
from tests.hub.published_folders import SMALL, TEXTS, TEXTUAL, Architecture, make_folder, make_vision_folder
from tests.hub.translator import SIZES, marian

transformers = pytest.importorskip("transformers")
KINDS = {
    "language-model": "AutoModelForCausalLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "masked-language-model": "AutoModelForMaskedLM",
}
CASES = [
    ("deberta-v2", "classification"),
    ("modernbert", "tagging"),
    ("electra", "extractive-qa"),
    ("gemma", "language-model"),
    ("bart", "seq2seq"),
    ("clip", "image-classification"),
    ("modernbert", "masked-language-model"),
]
MORE = [
    ("opt", "classification"),
    ("distilbert", "tagging"),
    ("t5", "extractive-qa"),
    ("gpt_neox", "language-model"),
    ("t5", "seq2seq"),
    ("dinov2", "image-classification"),
]
TRAINING = {"batch_tokens": 256, "warmup": 1, "learning_rate": 2e-3, "device": "cpu"}
TRAINING |= {"validate_every": 10, "log_every": 5}
QUESTION, CONTEXT = "Where lives Anna ?", "Anna lives in Paris"


def data_of(task: str, folder: Path) -> dict[str, Any]:
    """Write a small set for a task, and return the section of a run file that names it."""
    if task == "classification":
        rows = [f"{text} {number}\t{number % 2}" for number in range(8) for text in TEXTS]
        (folder / "data.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
        return {"train": str(folder / "data.tsv"), "text": "text", "label": "label"}
    if task == "tagging":
        text = "Anna B-PER\nlives O\nin O\nParis B-LOC\n\nBen B-PER\nsleeps O\n\n"
        (folder / "data.conll").write_text(text * 12)
        return {"kind": "tagged", "train": str(folder / "data.conll")}
    if task == "extractive-qa":
        answer = {"text": "Paris", "answer_start": CONTEXT.index("Paris")}
        questions = [{"id": str(number), "question": QUESTION, "answers": [answer]} for number in range(20)]
        paragraph = {"context": CONTEXT, "qas": questions}
        (folder / "data.json").write_text(json.dumps({"data": [{"title": "one", "paragraphs": [paragraph]}]}))
        return {"train": str(folder / "data.json"), "valid": str(folder / "data.json")}
    if task in ("language-model", "masked-language-model"):
        (folder / "data.txt").write_text("\n".join(TEXTS * 12) + "\n")
        return {"train": str(folder / "data.txt"), "valid": str(folder / "data.txt")}
    if task == "seq2seq":
        rows = [f"{text}\t{text.split()[0]}" for text in TEXTS * 8]
        (folder / "data.tsv").write_text("\n".join(["source\ttarget", *rows]) + "\n")
        return {"kind": "table", "train": str(folder / "data.tsv")}
    random = np.random.default_rng(0)
    for part in ("train", "valid"):
        for label, light in (("dark", 0), ("light", 120)):
            (folder / part / label).mkdir(parents=True)
            for number in range(6):
                pixels = random.integers(0, 100, (20, 20, 3)) + light
                Image.fromarray(pixels.astype(np.uint8)).save(folder / part / label / f"{number}.png")
    return {"kind": "image-folders", "train": str(folder / "train"), "valid": str(folder / "valid")}


def run_file_of(task: str, name: str, folder: Path, steps: int = 20, **training: Any) -> Path:
    """Write a published model, data and a run file that trains on both."""
    if task == "image-classification":
        published = make_vision_folder(folder / name, name)
    else:
        published = make_folder(folder / name, TEXTUAL[name], KINDS.get(task, "AutoModel"))
    config: dict[str, Any] = {
        "task": task,
        "data": data_of(task, folder),
        "model": {"name": "pretrained", "path": str(published)},
        "training": TRAINING | {"steps": steps} | training,
    }
    config |= {"window": 16} if task == "language-model" else {}
    config |= {"metrics": ["exact-match"]} if task == "seq2seq" else {}
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def example_of(task: str, folder: Path) -> Any:
    if task == "image-classification":
        return str(folder / "valid/dark/0.png")
    if task == "masked-language-model":
        return TEXTS[0].replace(TEXTS[0].split()[1], "[MASK]")
    return (QUESTION, CONTEXT) if task == "extractive-qa" else TEXTS[0]


@pytest.mark.parametrize(
    ("name", "task"), [*CASES[:2], *(pytest.param(*case, marks=pytest.mark.slow) for case in [*CASES[2:], *MORE])]
)
def test_a_published_model_is_fine_tuned_and_the_run_needs_its_folder_no_more(
    tmp_path: Path, name: str, task: str
) -> None:
    config = run_file.read(run_file_of(task, name, tmp_path))
    train(config, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["kind"] == "training"]
    assert losses[-1] < losses[0]
    shutil.rmtree(tmp_path / name)
    run = load(tmp_path / "run", "cpu")
    example = example_of(task, tmp_path)
    options = {"tokens": 5} if task == "language-model" else {}
    [first], [again] = run.predict([example], **options), run.predict([example], **options)
    assert str(first) == str(again)
    for kind in run.kinds:
        shown = run.attribute(example, kinds=(kind,))
        weights = shown.lookups[0].weights
        assert np.isfinite(weights).all()
        if kind == "weights" and task in ("tagging", "language-model"):
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        shown.write(tmp_path / f"{kind}.html")


SCRIPT = """
import os, signal, sys
from pathlib import Path
from regard.runs import run_file
from regard.runs.train import train
from regard.training.loop import Trainer

path, out, way = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
update = Trainer._update

def update_or_die(trainer, stream):
    steps = trainer.run.checkpoints.steps()
    if steps and trainer.state.counters.update >= steps[0] + 2:
        os.kill(os.getpid(), signal.SIGKILL)
    update(trainer, stream)

if way == "kill":
    Trainer._update = update_or_die
train(run_file.read(path), out, resume=way == "resume")
"""


def train_apart(path: Path, out: Path, way: str) -> int:
    """Train in a process of its own, which `kill` ends two updates after a checkpoint."""
    environment = {**os.environ, "PYTHONPATH": str(Path(regard.__file__).parents[1])}
    process = forked.start(["-c", SCRIPT, str(path), str(out), way], environment)
    process.communicate(timeout=300)
    return process.returncode


def digests(run: Path) -> dict[str, str]:
    """Return the SHA-256 of the chosen weights and of the state after the last update."""
    last = max(run.glob("checkpoints/step-*"))
    assert last.name == "step-00000020"
    files = [run / "weights.safetensors", *last.glob("*.safetensors")]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task"), [*CASES, ("t5", "seq2seq"), ("opt", "classification")])
def test_a_killed_run_resumes_to_the_same_weights_without_the_published_folder(
    tmp_path: Path, name: str, task: str
) -> None:
    path = run_file_of(task, name, tmp_path, validate_every=5)
    assert train_apart(path, tmp_path / "whole", "finish") == 0
    assert train_apart(path, tmp_path / "killed", "kill") == -signal.SIGKILL
    assert not (tmp_path / "killed/weights.safetensors").exists()
    shutil.rmtree(tmp_path / name)
    assert train_apart(path, tmp_path / "killed", "resume") == 0
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")


def complete(tmp_path: Path, name: str, kind: str) -> PretrainedConfig:
    return PretrainedConfig(path=str(make_folder(tmp_path / name, TEXTUAL[name], kind))).complete()[0]


@pytest.mark.parametrize("name", ["gemma", "opt", "gpt_neox"])
@torch.no_grad()
def test_a_language_model_computes_what_transformers_computes(tmp_path: Path, name: str) -> None:
    config = complete(tmp_path, name, "AutoModelForCausalLM")
    model = PretrainedLanguageModel(320, config).eval()
    model.load_published(config.folder())
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / name).eval()
    tokens = torch.randint(5, 300, (2, 12))
    logits, _ = model(tokens, model.begin(2))
    torch.testing.assert_close(logits, theirs(tokens).logits)
    first, state = model(tokens[:, :5], model.begin(2))
    rest, state = model(tokens[:, 5:].flip(0), state.select(torch.tensor([1, 0])))
    torch.testing.assert_close(torch.cat([first, rest.flip(0)], 1), logits, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="64"):
        model(torch.zeros(1, 65, dtype=torch.int64), model.begin(1))


@pytest.mark.parametrize("name", ["t5", "bart"])
@torch.no_grad()
def test_an_encoder_decoder_computes_what_transformers_computes(tmp_path: Path, name: str) -> None:
    config = complete(tmp_path, name, "AutoModelForSeq2SeqLM")
    tokenizer = convert_tokenizer(load_part(config.folder(), "AutoTokenizer"), None, "")
    model = PretrainedSeq2Seq(320, 320, config).eval()
    model.load_published(config.folder())
    model.source_special = tokenizer.special
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / name).eval()
    published = transformers.AutoTokenizer.from_pretrained(tmp_path / name)(list(TEXTS[:2]), padding=True)
    source, mask = (torch.tensor(published[key]) for key in ("input_ids", "attention_mask"))
    target = torch.randint(5, 300, (2, 6))
    expected = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
    skipped = int(tokenizer.special.opens)
    logits = model(source[:, skipped:], mask.sum(1) - skipped, target)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    memory = model.encoder(source[:, skipped:], mask.sum(1) - skipped)
    check_decoder(model.decoder, memory, tokens=target)


@pytest.mark.parametrize("name", [*TEXTUAL])
def test_rows_and_tokens_are_those_of_the_published_tokenizer(tmp_path: Path, name: str) -> None:
    folder = make_folder(tmp_path / name, TEXTUAL[name])
    published = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer = convert_tokenizer(load_part(PublishedFolder(folder), "AutoTokenizer"), None, "")
    for text in (*TEXTS, "ÉCOLE naïve 日本語 👍🏽", " two  blanks\n"):
        assert tokenizer.encode(text) == published(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode("<mask>") != [published.mask_token_id]
    one, two = tokenizer.encode(TEXTS[0]), tokenizer.encode(TEXTS[1])
    rows, lengths, segments = bert_inputs(tokenizer.special, [(one,), (one, two)])
    assert rows[0][: lengths[0]].tolist() == published(TEXTS[0])["input_ids"]
    assert rows[1][: lengths[1]].tolist() == published(TEXTS[0], TEXTS[1])["input_ids"]
    assert segments[1].sum() == len(two) + tokenizer.special.closes


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"num_hidden_layers": 10**8}, "num_hidden_layers is 100000000"),
        ({"model_type": "nothing", "auto_map": {"AutoModel": "code.Model"}}, "code.Model"),
    ],
)
def test_a_hostile_folder_is_refused(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    folder = make_folder(tmp_path / "model", TEXTUAL["electra"])
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=match):
        PretrainedConfig(path=str(folder)).complete()


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
    inputs = make_inputs(run.model, 2, 9, run.tokenizer.special)
    real = inputs.get("attention_mask", torch.ones(2, 9)).bool()
    with torch.no_grad():
        theirs = network(**inputs)
        outputs = run_model(run.model, inputs)
        names = {key.removeprefix("prediction_"): key for key in theirs if key.removeprefix("prediction_") in outputs}
        assert names
        for name, key in names.items():
            is_by_token = outputs[name].shape[:2] == real.shape
            pair = (outputs[name][real], theirs[key][real]) if is_by_token else (outputs[name], theirs[key])
            torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-4)
    assert run.export(tmp_path / "out") == tmp_path / "out"
    assert same_tensors(folder, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer(TEXTS[0], add_special_tokens=False)["input_ids"] == run.tokenizer.encode(TEXTS[0])
    exported = json.loads((tmp_path / "out/config.json").read_text())
    if "id2label" in document:
        assert exported["id2label"] == document["id2label"]


@pytest.mark.parametrize(("kind", "number"), [("vit", 0), ("deit", 1), ("vit", 2)])
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
    inputs = make_inputs(run.model, 2, 9, run.tokenizers.target.special)
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
        parts.append(PublishedTensor(changed, part.ours, part.transposed))
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
