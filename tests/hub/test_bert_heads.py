"""Published classifiers and models of spans: the same as transformers, in both directions."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard import load
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats.folder import Folder
from regard.runs import run_file
from regard.runs import train as launch
from regard.tasks.classification.run import ClassificationRun
from regard.tasks.extractive_qa.run import ExtractiveQARun
from tests.hub.published import BERTS, POSITIONS, filler, quiet

LABELS = ("so", "not so", "a while")
QUICK = ["training.steps=3", "training.warmup=0", "training.batch_tokens=128", "training.threads=1"]
QUICK += ["training.precision=fp32", "training.validate_every=0", "training.average_decay=0.0"]
CLASSES, SPANS = "BertForSequenceClassification", "BertForQuestionAnswering"


def headed(folder: Path, kind: str, architecture: str, sizes: dict[str, Any], **more: Any) -> Any:
    """A published model with a head in the folder, and it as transformers runs it."""
    config = filler(folder, kind, **sizes).config
    if architecture != SPANS:
        config.id2label = dict(enumerate(LABELS))
    for key, value in more.items():
        setattr(config, key, value)
    model = getattr(quiet(), architecture)(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model


def given(vocabulary: int, pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """Texts of unequal lengths and of two segments."""
    generator = torch.Generator().manual_seed(2)
    lengths = torch.tensor([POSITIONS, 7, 1])
    tokens = torch.randint(4, vocabulary, (3, POSITIONS), generator=generator)
    tokens = tokens.where(torch.arange(POSITIONS) < lengths[:, None], pad)
    return tokens, lengths, torch.randint(2, (3, POSITIONS), generator=generator)


@pytest.mark.parametrize("sizes", BERTS, ids=lambda sizes: f"width-{sizes['hidden_size']}")
@pytest.mark.parametrize("architecture", [CLASSES, SPANS])
@torch.no_grad()
def test_logits_are_those_of_transformers_there_and_back(architecture: str, sizes: dict[str, Any], tmp_path: Path):
    theirs = headed(tmp_path / "published", "bert", architecture, sizes)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    tokens, lengths, segments = given(run.tokenizer.size, run.tokenizer.special.pad)
    real = torch.arange(POSITIONS) < lengths[:, None]
    wanted = theirs(tokens, attention_mask=real.long(), token_type_ids=segments)
    found = run.model(tokens, lengths, segments)
    if architecture == CLASSES:
        torch.testing.assert_close(found, wanted.logits, rtol=1e-5, atol=1e-5)
        assert run.labels == LABELS
    else:
        both = torch.stack([wanted.start_logits, wanted.end_logits], -1)
        torch.testing.assert_close(found[real], both[real], rtol=1e-5, atol=1e-5)
    export_run(tmp_path / "run", tmp_path / "exported")
    before, after = (Folder(tmp_path / name) for name in ("published", "exported"))
    assert before.tensors().keys() == after.tensors().keys()
    assert after.json("config.json")["architectures"] == [architecture]
    again = getattr(quiet(), architecture).from_pretrained(tmp_path / "exported").eval()
    for ours, expected in zip(again.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(ours, expected)
    assert again.config.id2label == theirs.config.id2label


@torch.no_grad()
def test_a_roberta_tells_classes_of_one_text(tmp_path: Path):
    theirs = headed(tmp_path / "published", "roberta", "RobertaForSequenceClassification", BERTS[0])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=ClassificationRun)
    tokens, lengths, _ = given(run.tokenizer.size, run.tokenizer.special.pad)
    wanted = theirs(tokens, attention_mask=(tokens != run.tokenizer.special.pad).long()).logits
    torch.testing.assert_close(run.model(tokens, lengths), wanted, rtol=1e-5, atol=1e-5)


def test_a_run_of_classes_predicts_and_is_trained_on(tmp_path: Path):
    headed(tmp_path / "published", "bert", CLASSES, BERTS[1])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=ClassificationRun)
    assert set(run.predict(["the cat sat"])[0].probabilities) == set(LABELS)
    with pytest.raises(InputError, match=r"data\.train is not given; expected a table"):
        launch.train(run_file.read(tmp_path / "run" / "config.yaml", QUICK), tmp_path / "tuned")
    rows = [f"the cat sat\t{LABELS[number % 3]}" for number in range(60)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]))
    settings = [f"data.train={tmp_path / 'train.tsv'}", f"training.start={tmp_path / 'run'}", *QUICK]
    launch.train(run_file.read(tmp_path / "run" / "config.yaml", settings), tmp_path / "tuned")
    tuned = load(tmp_path / "tuned", "cpu", task=ClassificationRun)
    assert tuned.labels == LABELS  # in the order of the layer that was imported
    torch.testing.assert_close(tuned.model.output.weight, run.model.output.weight, rtol=0, atol=0.01)
    export_run(tmp_path / "tuned", tmp_path / "exported")


def test_classes_of_pairs(regard: Any, tmp_path: Path):
    headed(tmp_path / "published", "bert", CLASSES, BERTS[1])
    code, _, _ = regard("import", str(tmp_path / "published"), "--pairs", "--out", str(tmp_path / "run"))
    assert code == 0
    run = load(tmp_path / "run", "cpu", task=ClassificationRun)
    assert run.predict([("the cat sat", "the mat")])[0].label in LABELS
    export_run(tmp_path / "run", tmp_path / "exported")
    headed(tmp_path / "spans", "bert", SPANS, BERTS[0])
    with pytest.raises(InputError, match="is no text classifier, so it cannot read pairs"):
        import_run(str(tmp_path / "spans"), tmp_path / "none", paired=True)


def test_a_run_of_spans_answers_and_is_trained_on(tmp_path: Path):
    headed(tmp_path / "published", "bert", SPANS, BERTS[1])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=ExtractiveQARun)
    [found] = run.predict([("who?", "the cat sat")])
    assert found.text == "the cat sat"[found.start : found.end]
    with pytest.raises(InputError, match=r"data\.train is not given; expected a file of questions, as --set"):
        launch.train(run_file.read(tmp_path / "run" / "config.yaml", QUICK), tmp_path / "tuned")
    lines = [{"context": "the cat sat", "question": "who?", "answer_text": "cat"}] * 20
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = [f"data.{part}=[{tmp_path / 'train.jsonl'}]" for part in ("train", "valid")]
    settings = [*data, f"training.start={tmp_path / 'run'}", *QUICK]
    launch.train(run_file.read(tmp_path / "run" / "config.yaml", settings), tmp_path / "tuned")
    export_run(tmp_path / "tuned", tmp_path / "exported")
