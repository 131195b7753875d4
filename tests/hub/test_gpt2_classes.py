"""Published GPT-2 classifiers: logits, predictions, maps and training, as transformers computes them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard import load
from regard.attention.record import record
from regard.errors import InputError
from regard.hub import export_run, import_run
from regard.hub.formats.folder import Folder
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from tests.hub.published import CONFIGURATIONS, gpt2, quiet
from tests.hub.test_faults import change
from tests.hub.test_fine_tuning import QUICK

SIZES = [*CONFIGURATIONS, {"n_layer": 2, "n_embd": 26, "n_head": 1, "n_positions": 31}]
NAMES = {0: "bad", 1: "good", 2: "other"}
PROBLEMS: list[tuple[dict[int, str], str | None]] = [
    (NAMES, "single_label_classification"),
    (NAMES, None),
    (NAMES, "multi_label_classification"),
    ({0: "LABEL_0"}, "regression"),
    ({0: "LABEL_0"}, None),
]
SHORT = ["the cat", "on", "a dog sat"]


def published(folder: Path, labels: dict[int, str], problem: str | None, **sizes: Any) -> Any:
    """A random classifier in the folder, and it as transformers runs it."""
    config = gpt2(folder, **sizes).config
    config.id2label, config.label2id = labels, {label: number for number, label in labels.items()}
    config.problem_type, config.pad_token_id = problem, config.eos_token_id
    model = quiet().GPT2ForSequenceClassification(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return model


def batch(run: Any, texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens padded with the end token, and lengths."""
    ids = [run.tokenizer.encode(text) for text in texts]
    rows = [torch.tensor(each) for each in ids]
    tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=run.tokenizer.special.pad)
    return tokens, torch.tensor([*map(len, ids)])


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"width-{sizes['n_embd']}")
@pytest.mark.parametrize(("labels", "problem"), PROBLEMS)
@torch.no_grad()
def test_classes_are_those_of_transformers_there_and_back(
    labels: dict[int, str], problem: str | None, sizes: dict[str, Any], tmp_path: Path
):
    theirs = published(tmp_path / "published", labels, problem, **sizes)
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run: Any = load(tmp_path / "run", "cpu")
    tokens, lengths = batch(run, SHORT)
    real = (torch.arange(tokens.shape[1]) < lengths[:, None]).long()
    expected = theirs(tokens, attention_mask=real, output_attentions=True)
    with record(run.model, only=run.model.self_attention) as maps:
        logits = run.model(tokens, lengths)
    torch.testing.assert_close(logits, expected.logits, rtol=1e-5, atol=1e-5)
    for ours, wanted in zip(maps.values(), expected.attentions, strict=True):
        for row, length in enumerate(lengths.tolist()):
            torch.testing.assert_close(
                ours[row, :, :length, :length], wanted[row, :, :length, :length], rtol=1e-5, atol=1e-5
            )
    found = [each.to_json() for each in run.predict(SHORT)]
    if len(labels) == 1:
        assert [each["prediction"] for each in found] == pytest.approx(expected.logits[:, 0].tolist(), abs=1e-5)
    else:
        several = problem == "multi_label_classification"
        shares = expected.logits.sigmoid() if several else expected.logits.softmax(-1)
        for each, row in zip(found, shares.tolist(), strict=True):
            assert each["probabilities"] == pytest.approx(dict(zip(labels.values(), row, strict=True)), abs=1e-5)
    assert export_run(tmp_path / "run", tmp_path / "exported") == ["the files as regard reads them", "transformers"]
    first, second = Folder(tmp_path / "published"), Folder(tmp_path / "exported")
    assert first.tensors().keys() == second.tensors().keys()
    assert all(torch.equal(tensor, second.tensors()[name]) for name, tensor in first.tensors().items())
    again = second.json("config.json")
    assert again["problem_type"] == (problem or ("regression" if len(labels) == 1 else "single_label_classification"))
    assert {int(number): label for number, label in again["id2label"].items()} == labels


def test_what_the_command_line_does_with_a_classifier(regard: Any, tmp_path: Path):
    """predict, evaluate, show of every kind, and a text without tokens."""
    published(tmp_path / "published", NAMES, None, **SIZES[1])
    assert regard("import", str(tmp_path / "published"), "--out", str(tmp_path / "run"))[0] == 0
    run = str(tmp_path / "run")
    code, out, _ = regard("predict", run, "the cat sat")
    assert (code, out.split()[0] in NAMES.values()) == (0, True)
    assert regard("predict", run, "")[0] == 0
    (tmp_path / "test.tsv").write_text("text\tlabel\nthe cat\tgood\na dog\tbad\n")
    code, out, _ = regard("evaluate", run, str(tmp_path / "test.tsv"))
    assert code == 0
    assert "accuracy" in out
    for kind in ("weights", "rollout", "norms", "gradient"):
        code, _, error = regard("show", run, "the cat sat", "--kind", kind, "--out", str(tmp_path / f"{kind}.html"))
        assert code == 0, error
    code, _, error = regard("predict", run, "the cat " * 40)
    assert (code, len(error.splitlines())) == (2, 1)
    assert "but the model takes 23" in error


def test_the_last_token_is_what_reads_the_text(tmp_path: Path):
    published(tmp_path / "published", NAMES, None, **SIZES[1])
    import_run(str(tmp_path / "published"), tmp_path / "run")
    run: Any = load(tmp_path / "run", "cpu")
    tokens, lengths = batch(run, ["the cat sat"])
    with torch.no_grad(), record(run.model, only=run.model.self_attention) as maps:
        run.model(tokens, lengths)
    mean = torch.stack([each[0].mean(0)[-1] for each in maps.values()]).mean(0)
    shown = run.attribute("the cat sat", kinds=("weights",)).weights
    spans = run.tokenizer.offsets("the cat sat")
    pieces = [[float(mean[at]) for at, (start, _) in enumerate(spans) if word(start) == each] for each in range(3)]
    total = sum(map(sum, pieces))
    assert shown.labels == ("the", "cat", "sat")
    assert shown.weights.tolist() == pytest.approx([sum(each) / len(each) / total for each in pieces], abs=1e-5)


def word(start: int) -> int:
    """The word of "the cat sat" in which a token begins, each with the blank before it."""
    return 0 if start < 3 else 1 if start < 7 else 2


def test_classes_on_an_imported_language_model(tmp_path: Path):
    """A published GPT-2 is trained further as a classifier, and goes out again."""
    gpt2(tmp_path / "published", **SIZES[1])
    import_run(str(tmp_path / "published"), tmp_path / "imported")
    rows = [
        f"{'the cat' if number % 2 else 'a dog'} {number}\t{'good' if number % 2 else 'bad'}" for number in range(60)
    ]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]))
    settings = [f"data.train={tmp_path / 'train.tsv'}", f"training.start={tmp_path / 'imported'}"]
    launch.train(run_file.read(path_of("classify"), [*settings, "model=null", *QUICK]), tmp_path / "run")
    run: Any = load(tmp_path / "run", "cpu")
    before: Any = load(tmp_path / "imported", "cpu")
    assert run.config.model.name == "gpt2"
    torch.testing.assert_close(run.model.embedding.table.weight, before.model.embedding.table.weight, rtol=0, atol=0.05)
    export_run(tmp_path / "run", tmp_path / "exported")
    assert Folder(tmp_path / "exported").json("config.json")["architectures"] == ["GPT2ForSequenceClassification"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"architectures": ["GPT2ForOther"]}, r"architectures is \['GPT2ForOther'\]; regard reads score.weight"),
        ({"problem_type": "regression"}, "problem_type is 'regression', with 3 outputs"),
        ({"id2label": {"0": "a"}}, "id2label does not name the 3 classes of the weights"),
    ],
)
def test_settings_that_do_not_fit_the_head(values: dict[str, Any], message: str, tmp_path: Path):
    published(tmp_path / "published", NAMES, None, **SIZES[0])
    change(tmp_path / "published", "config.json", **values)
    with pytest.raises(InputError, match=message):
        import_run(str(tmp_path / "published"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_classifier_of_pairs_and_one_with_a_start_token_are_refused(tmp_path: Path):
    published(tmp_path / "published", NAMES, None, **SIZES[0])
    with pytest.raises(InputError, match="is a gpt2, which reads one text; import it without --pairs"):
        import_run(str(tmp_path / "published"), tmp_path / "run", paired=True)
    about = {"add_bos_token": True, "bos_token": "<|endoftext|>"}
    (tmp_path / "published" / "tokenizer_config.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="its tokenizer puts a token before a text, which a classifier does not read"):
        import_run(str(tmp_path / "published"), tmp_path / "run")
