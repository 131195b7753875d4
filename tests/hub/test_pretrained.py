"""Any published model is fine-tuned, resumed, predicted with and drawn, in every task of texts or images."""

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import regard
from regard.data.batches import bert_inputs
from regard.errors import InputError
from regard.models.pretrained import PretrainedConfig, PretrainedLanguageModel, PretrainedSeq2Seq
from regard.models.published import read_tokenizer
from regard.runs import run_file
from regard.runs.load import load
from regard.runs.train import train
from regard.storage.published_folder import PublishedFolder
from regard.testing import check_decoder
from tests import forked

from .published_folders import TEXTS, TEXTUAL, make_folder, make_vision_folder

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


@pytest.mark.parametrize(("name", "task"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)])
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
    steps = trainer.run.checkpoint_steps()
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
    _, errors = process.communicate(timeout=300)
    print(errors)
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
    tokenizer = read_tokenizer(config.folder())
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
    tokenizer = read_tokenizer(PublishedFolder(folder))
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
        ({"hidden_size": 10**9}, "hidden_size is 1000000000"),
        ({"model_type": "nothing", "auto_map": {"AutoModel": "code.Model"}}, "code.Model"),
        ({"model_type": "nothing"}, "unknown to transformers"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantized"),
    ],
)
def test_a_hostile_folder_is_refused(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    folder = make_folder(tmp_path / "model", TEXTUAL["electra"])
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=match):
        PretrainedConfig(path=str(folder)).complete()


def test_a_link_out_of_the_folder_and_weights_that_lack_a_parameter_are_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "model", TEXTUAL["electra"])
    config, _ = PretrainedConfig(path=str(folder)).complete()
    (tmp_path / "outside.json").write_text("{}")
    (folder / "vocab.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(InputError, match="leads out of the folder"):
        PretrainedConfig(path=str(folder)).complete()
    (folder / "vocab.json").unlink()
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    name = next(each for each in weights if "query" in each)
    save_file({key: value for key, value in weights.items() if key != name}, folder / "model.safetensors")
    from regard.models.pretrained import PretrainedClassifier

    with pytest.raises(InputError, match="lack 1 parameter"):
        PretrainedClassifier(320, 2, config).load_published(config.folder())
