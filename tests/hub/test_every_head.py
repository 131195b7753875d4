"""Heads of BERT and the models of its layers, of every problem type, with pairs and other activations."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard import load
from regard.data.bert_inputs import bert_inputs
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats.folder import Folder
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.tasks.extractive_qa.run import ExtractiveQARun
from tests.hub.published import BERTS, filler, quiet
from tests.hub.test_fine_tuning import QUICK

KINDS = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
KINDS |= {"xlm-roberta": "XLMRoberta", "mpnet": "MPNet", "electra": "Electra"}
SEGMENTED = ("bert", "electra")
TEXTS, OTHERS = ["the cat sat", "the dog's 12"], ["on the mat", "a cat"]
TAGS = {0: "O", 1: "B-PER", 2: "I-PER"}
PROBLEMS: list[tuple[dict[int, str], str | None]] = [
    (TAGS, "single_label_classification"),
    (TAGS, "multi_label_classification"),
    ({0: "toxic"}, "multi_label_classification"),
    ({0: "LABEL_0"}, None),  # as rerankers are published
    ({0: "LABEL_0"}, "regression"),
]


def published(folder: Path, kind: str, head: str, activation: str = "gelu", **settings: Any) -> Any:
    """A random model with a head in the folder, and it as transformers runs it."""
    config = filler(folder, kind, **BERTS[1]).config
    for key, value in {"activation" if kind == "distilbert" else "hidden_act": activation, **settings}.items():
        setattr(config, key, value)
    model = getattr(quiet(), f"{KINDS[kind]}For{head}")(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model


def theirs(folder: Path, model: Any, *texts: list[str], segmented: bool) -> Any:
    """The outputs of transformers for texts or pairs as its own tokenizer prepares them."""
    encoded = dict(quiet().AutoTokenizer.from_pretrained(folder)(*texts, return_tensors="pt", padding=True))
    if not segmented:
        encoded.pop("token_type_ids", None)
    return model(**encoded)


def same(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


def unchanged(before: Path, after: Path) -> None:
    """The tensors and the class of an export are those that were imported."""
    first, second = Folder(before), Folder(after)
    assert first.tensors().keys() == second.tensors().keys()
    for name, tensor in first.tensors().items():
        behind = name in (
            "roberta.embeddings.position_embeddings.weight",
            "mpnet.embeddings.position_embeddings.weight",
        )
        skipped = 2 if behind else 0  # of padding, never read
        assert torch.equal(tensor[skipped:], second.tensors()[name][skipped:]), name
    assert first.json("config.json")["architectures"] == second.json("config.json")["architectures"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("paired", [False, True], ids=["text", "pair"])
@pytest.mark.parametrize(("labels", "problem"), PROBLEMS)
@torch.no_grad()
def test_a_head_of_a_text_is_that_of_transformers(
    labels: dict[int, str], problem: str | None, paired: bool, kind: str, tmp_path: Path
):
    model = published(tmp_path / "published", kind, "SequenceClassification", id2label=labels, problem_type=problem)
    import_run(str(tmp_path / "published"), tmp_path / "run", paired=paired)
    run: Any = load(tmp_path / "run", "cpu")
    sides = [TEXTS, OTHERS] if paired else [TEXTS]
    rows = [tuple(run.tokenizer.encode(text) for text in row) for row in zip(*sides, strict=True)]
    expected = theirs(tmp_path / "published", model, *sides, segmented=kind in SEGMENTED).logits
    same(run.model(*bert_inputs(run.tokenizer.special, rows)), expected)
    found = [
        each.to_json() for each in run.predict([tuple(row) if paired else row[0] for row in zip(*sides, strict=True)])
    ]
    if len(labels) == 1 and problem != "multi_label_classification":
        assert [each["prediction"] for each in found] == pytest.approx(expected[:, 0].tolist(), abs=1e-5)
    else:
        shares = expected.sigmoid() if problem == "multi_label_classification" else expected.softmax(-1)
        for each, row in zip(found, shares.tolist(), strict=True):
            assert each["probabilities"] == pytest.approx(dict(zip(labels.values(), row, strict=True)), abs=1e-5)
    export_run(tmp_path / "run", tmp_path / "exported")
    unchanged(tmp_path / "published", tmp_path / "exported")
    again = quiet().AutoConfig.from_pretrained(tmp_path / "exported")
    assert again.problem_type == (problem or "regression")
    assert again.id2label == labels


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_tags_of_tokens_are_those_of_transformers(kind: str, tmp_path: Path):
    model = published(tmp_path / "published", kind, "TokenClassification", id2label=TAGS)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run: Any = load(tmp_path / "run", "cpu")
    tokens, lengths, _ = bert_inputs(run.tokenizer.special, [(run.tokenizer.encode(text),) for text in TEXTS])
    expected = theirs(tmp_path / "published", model, TEXTS, segmented=False).logits
    real = torch.arange(tokens.shape[1]) < lengths[:, None]
    same(run.model(tokens, lengths)[real], expected[real])
    assert run.labels == tuple(TAGS.values())
    assert {span.label for span in run.predict(["the cat sat on the mat"])[0].spans} <= {"PER"}
    export_run(tmp_path / "run", tmp_path / "exported")
    unchanged(tmp_path / "published", tmp_path / "exported")


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_spans_of_pairs_are_those_of_transformers(kind: str, tmp_path: Path):
    model = published(tmp_path / "published", kind, "QuestionAnswering")
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run = load(tmp_path / "run", "cpu", task=ExtractiveQARun)
    [answer] = run.predict([("the cat", "a dog sat")])
    found = theirs(tmp_path / "published", model, ["the cat"], ["a dog sat"], segmented=kind in SEGMENTED)
    begins, ends = found.start_logits[0], found.end_logits[0]
    context = len(run.tokenizer.encode("a dog sat"))
    first = len(begins) - 1 - context
    scores = (begins[:, None] + ends)[first:-1, first:-1]
    between = [place in (0, 1, 2, 5, 6, 9) for place in range(10)]  # words of "a dog sat"
    cut = torch.tensor([[between[place] for place in each] for each in run.tokenizer.offsets("a dog sat")])
    whole = (torch.ones_like(scores).triu() > 0) & cut[:, :1] & cut[:, 1]
    assert answer.score == pytest.approx(float(scores[whole].max()), abs=1e-5)
    export_run(tmp_path / "run", tmp_path / "exported")
    unchanged(tmp_path / "published", tmp_path / "exported")


@pytest.mark.parametrize("activation", ["gelu_new", "gelu_fast", "relu", "silu"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_activations_are_those_of_transformers(kind: str, activation: str, tmp_path: Path):
    model = published(tmp_path / "published", kind, "SequenceClassification", activation, id2label=TAGS)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run: Any = load(tmp_path / "run", "cpu")
    rows = [(run.tokenizer.encode(text),) for text in TEXTS]
    expected = theirs(tmp_path / "published", model, TEXTS, segmented=kind in SEGMENTED).logits
    same(run.model(*bert_inputs(run.tokenizer.special, rows)), expected)
    export_run(tmp_path / "run", tmp_path / "exported")


@torch.no_grad()
def test_blanks_of_another_activation(tmp_path: Path):
    """A BERT's predictions have the activation of its layers; a RoBERTa's always have gelu, so that one is refused."""
    model = published(tmp_path / "bert", "bert", "PreTraining", "relu")
    import_run(str(tmp_path / "bert"), tmp_path / "run")
    run: Any = load(tmp_path / "run", "cpu")
    tokens, lengths, segments = bert_inputs(run.tokenizer.special, [(run.tokenizer.encode(TEXTS[0]),)])
    expected = model(tokens, token_type_ids=segments).prediction_logits
    same(run.model.predictions(run.model(tokens, lengths, segments)), expected)
    published(tmp_path / "roberta", "roberta", "MaskedLM", "relu")
    with pytest.raises(InputError, match="hidden_act is relu, and the predictions of a roberta have gelu"):
        import_run(str(tmp_path / "roberta"), tmp_path / "none")


@pytest.mark.parametrize(
    ("head", "settings", "message"),
    [
        ("MultipleChoice", {}, r"architectures is \['BertForMultipleChoice'\]; regard reads classifier.weight"),
        (
            "SequenceClassification",
            {"id2label": TAGS, "problem_type": "regression"},
            "problem_type is 'regression', with 3 outputs; regard computes 'single_label_classification' with two or",
        ),
        (
            "SequenceClassification",
            {"id2label": {0: "x"}, "problem_type": "single_label_classification"},
            "'single_label_classification', with 1 outputs",
        ),
        ("SequenceClassification", {"id2label": TAGS, "problem_type": "other"}, "problem_type is 'other'"),
        (
            "SequenceClassification",
            {"id2label": TAGS, "hidden_act": "quick_gelu"},
            "hidden_act is 'quick_gelu'; regard",
        ),
    ],
)
def test_heads_and_settings_that_no_run_holds(head: str, settings: dict[str, Any], message: str, tmp_path: Path):
    published(tmp_path / "published", "bert", head, **settings)
    with pytest.raises(InputError, match=message):
        import_run(str(tmp_path / "published"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@torch.no_grad()
def test_a_trained_number_is_published_with_its_scale(tmp_path: Path):
    """A run predicts mean + deviation x output; the published layer predicts the number itself."""
    published(tmp_path / "published", "bert", "PreTraining")
    import_run(str(tmp_path / "published"), tmp_path / "imported")
    rows = [f"the cat sat {'on' if number % 3 else 'the'} mat\t{20 + number}" for number in range(60)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]))
    settings = [f"data.train={tmp_path / 'train.tsv'}", f"training.start={tmp_path / 'imported'}"]
    with torch.enable_grad():
        launch.train(run_file.read(path_of("regression"), [*settings, "model=null", *QUICK]), tmp_path / "run")
    run: Any = load(tmp_path / "run", "cpu")
    assert run.outputs.mean > 20
    export_run(tmp_path / "run", tmp_path / "exported")
    model = quiet().AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported")
    found = theirs(tmp_path / "exported", model, TEXTS, segmented=True).logits[:, 0].tolist()
    assert [each.number for each in run.predict(TEXTS)] == pytest.approx(found, rel=1e-5)
