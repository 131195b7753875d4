"""Regression: correlations and errors, it learns numbers of texts and pairs, and refuses labels that are none."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import load
from regard.errors import InputError
from regard.metrics import number_metrics, pearson, rank
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.storage.run_folder import RunDirectory
from regard.tasks.regression import SCALE, NumberOutput, NumberTables, RegressionRun

WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
BERT = "model={name: bert, layers: 1, width: 32, heads: 4, hidden: 64, context: 16, dropout: 0.0}"
QUICK = ["training.steps=150", "training.batch_tokens=400", "training.learning_rate=5e-3", "training.warmup=10"]
QUICK += ["training.validate_every=0", "training.threads=1", "training.precision=fp32", "tokenizer.size=90"]


def test_correlations_of_a_published_example():
    """IQ and hours of television, of the page on Spearman's correlation in Wikipedia: -29/165."""
    iq = torch.tensor([106, 100, 86, 101, 99, 103, 97, 113, 112, 110], dtype=torch.float64)
    hours = torch.tensor([7, 27, 2, 50, 28, 29, 20, 12, 6, 17], dtype=torch.float64)
    assert pearson(rank(iq), rank(hours)) == pytest.approx(-29 / 165)
    assert pearson(iq, hours) == pytest.approx(np.corrcoef(iq, hours)[0, 1])


def test_equal_numbers_share_their_rank():
    assert rank(torch.tensor([0.5, 3.0, 0.5, -1.0, 3.0, 3.0])).tolist() == [2.5, 5, 2.5, 1, 5, 5]
    found = number_metrics(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([10.0, 30.0, 30.0]))
    assert found["spearman"] == pytest.approx(1)


def test_a_constant_has_no_correlation():
    found = number_metrics(torch.full((3,), 0.1), torch.tensor([1.0, 2.0, 4.0]))
    assert (found["pearson"], found["spearman"]) == (0.0, 0.0)
    assert found["mean-absolute-error"] == pytest.approx((0.9 + 1.9 + 3.9) / 3)
    assert found["mean-squared-error"] == pytest.approx((0.9**2 + 1.9**2 + 3.9**2) / 3)


def test_the_loss_is_in_units_of_the_deviation():
    output = NumberOutput(20.0, 10.0)
    logits = torch.tensor([[0.5], [-2.0]])
    assert output.loss(logits, torch.tensor([10.0, 20.0]), 0.0).item() == pytest.approx(1.5**2 + 2.0**2)
    assert [each.number for each in output.predictions(logits)] == [25.0, 0.0]


def written(path: Path, seed: int, count: int) -> None:
    """A table of two number words each, whose label is their sum, in thousands."""
    generator = torch.Generator().manual_seed(seed)
    rows = ["text\tlabel"]
    for _ in range(count):
        first, second = (list(WORDS)[int(each)] for each in torch.randint(5, (2,), generator=generator))
        rows.append(f"{first} and {second}\t{1000 * (WORDS[first] + WORDS[second])}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def trained(folder: Path, *settings: str) -> Path:
    for name, seed, count in (("train", 1, 400), ("test", 2, 60)):
        written(folder / f"{name}.tsv", seed, count)
    data = [f"data.{name}={folder / f'{name}.tsv'}" for name in ("train", "test")]
    launch.train(run_file.read(path_of("regression"), [*data, *QUICK, *settings]), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("numbers"), BERT)


def test_it_learns_sums_of_thousands(run: Path):
    result = json.loads((run / "result.json").read_text())
    assert result["test/pearson"] > 0.98
    assert result["test/spearman"] > 0.97
    assert result["test/mean-absolute-error"] < 400
    (found,) = load(run, "cpu", task=RegressionRun).predict(["five and four"])
    assert found.number == pytest.approx(9000, abs=900)


def test_a_gradient_explains_the_number(run: Path):
    found = load(run, "cpu", task=RegressionRun).attribute("two and five", kinds=["gradient"])
    assert found.weights.name == found.prediction.text
    assert abs(found.weights.weights).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("label", ["high", "3,500", "nan", "inf"])
def test_a_label_that_is_no_number(label: str, tmp_path: Path):
    (tmp_path / "a.tsv").write_text(f"text\tlabel\nx\t1\ny\t{label}\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"a\.tsv:3: label '{label}' is not a number; expected one such as 3\.5"):
        NumberTables().read(str(tmp_path / "a.tsv"))


def test_run_files_that_fit_no_number(tmp_path: Path):
    with pytest.raises(InputError, match=r"training\.label_smoothing is for classes"):
        run_file.read(path_of("regression"), ["data.train=a.tsv", "training.label_smoothing=0.1"])
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "x\t3\n" * 40, encoding="utf-8")
    same = run_file.read(path_of("regression"), [f"data.train={tmp_path / 'a.tsv'}", *QUICK, BERT])
    with pytest.raises(InputError, match="every label is 3; expected different numbers"):
        launch.train(same, tmp_path / "run")


def test_a_run_that_goes_on_keeps_its_scale(run: Path, tmp_path: Path):
    written(tmp_path / "train.tsv", 3, 100)
    text = (tmp_path / "train.tsv").read_text().replace("000", "")
    (tmp_path / "train.tsv").write_text(text)
    own = [f"training.start={run}", "tokenizer=null", "model=null", f"data.train={tmp_path / 'train.tsv'}"]
    quick = [each for each in QUICK if not each.startswith("tokenizer")]
    launch.train(
        run_file.read(path_of("regression"), [*quick, *own, "training.steps=1", "training.warmup=0"]), tmp_path / "on"
    )
    assert RunDirectory.open(tmp_path / "on").read_json(SCALE) == RunDirectory.open(run).read_json(SCALE)
