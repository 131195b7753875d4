"""Experiments that measure without training, whole; those that train, by their parts; and the command."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.attention.heads import MultiHead
from regard.attention.memory import Memory
from regard.cli.main import main
from regard.errors import InputError
from regard.experiments import EXPERIMENTS, learning, lengths, structure
from regard.experiments.learning import measure_softmax
from regard.experiments.sweep import Finding, Setting
from regard.nn.encoder_decoder import Encoder, EncoderDecoder
from regard.pictures.chart import Chart
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.load import load
from regard.tasks.prediction import GeneratedText
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.text.special import END
from tests.cli.command import finish, start, tiny
from tests.decoding.scripted import Scripted, Text


def test_scaling_keeps_variance_entropy_and_gradient(tmp_path: Path):
    rows = EXPERIMENTS["scaling"](Setting(tmp_path)).rows
    by = {name: [row for row in rows if row[0] == name] for name in ("dot", "scaled dot")}
    for _, width, variance, entropy, derivative in by["dot"]:
        assert variance == pytest.approx(width, rel=0.15)
        assert 0 <= entropy <= math.log(64)
        assert derivative >= 0
    assert by["dot"][-1][3] < 0.2 < 3 < by["scaled dot"][-1][3]
    assert by["dot"][-1][4] < by["dot"][0][4] / 2
    assert all(row[2] == pytest.approx(1, rel=0.15) for row in by["scaled dot"])


def test_the_derivative_is_that_of_softmax():
    scores = torch.randn(3, 7, dtype=torch.float64)
    jacobians = [torch.autograd.functional.jacobian(lambda row: row.softmax(-1), row) for row in scores]
    wanted = torch.stack([jacobian.norm() for jacobian in jacobians]).mean()  # type: ignore[union-attr]
    assert measure_softmax(scores)[2] == pytest.approx(float(wanted), rel=1e-10)


def test_attention_tells_far_positions_of_a_loss(tmp_path: Path):
    finding = EXPERIMENTS["gradients"](Setting(tmp_path))
    first, last = finding.rows[0], finding.rows[-1]
    columns = {name: place for place, name in enumerate(finding.columns)}
    for cell in ("tanh", "GRU"):
        without, attending = columns[f"{cell}, no attention"], columns[f"{cell}, attention"]
        assert last[without] < first[without] / 100
        assert last[attending] > first[attending] / 100
        assert last[attending] > 100 * last[without]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = tiny(model__width="16", model__hidden="8", model__heads="2", training__steps="30")
    code, _, errors = finish(start("train", "dates-transformer", "--out", str(folder), *options))
    assert code == 0, errors
    return folder


def test_a_head_that_is_taken_away_comes_back(trained: Path):
    run = load(trained)
    assert isinstance(run, Seq2SeqRun)
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    module = next(each for each in run.model.modules() if isinstance(each, MultiHead))
    seen = []
    run.evaluate = lambda pairs, beam: {"exact-match": seen.append(module.output.weight.clone()) or 7.0}  # type: ignore
    assert structure.evaluate_without(run, [], module, 1) == 7.0
    assert not seen[0][:, 8:].any()
    assert torch.equal(seen[0][:, :8], before["encoder.layers.0.self_attention.output.weight"][:, :8])
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.model.state_dict().items())


Says = Callable[[list[int], Text], int]
"""A target and what of it was read -> what is said next."""


def right_again(after: int) -> Says:
    """Wrong (END) until it has said so many tokens since the mistake."""
    return lambda target, text: END if 2 <= len(text) < 2 + after else target[len(text)]


@pytest.mark.parametrize(
    ("says", "share"),
    [
        (right_again(0), 1.0),
        (right_again(2), 6 / 8),
        (right_again(7), 1 / 8),
        (lambda target, text: target[len(text)] if len(text) % 2 else END, 4 / 8),
        (lambda target, text: target[len(text)] if list(text) == target[: len(text)] else END, 0.0),
        (lambda target, text: target[len(text)] if list(text[2:]) == target[2 : len(text)] else END, 1.0),
    ],
    ids=["at once", "after two", "after seven", "every other", "needs a right past", "needs its own to be right"],
)
def test_the_share_that_is_right_after_a_mistake(
    trained: Path, monkeypatch: pytest.MonkeyPatch, says: Says, share: float
):
    """Dates have 10 characters, of which the last 8 count. The second is always a wrong one."""
    run = load(trained)
    assert isinstance(run, Seq2SeqRun)
    pairs = run.config.data.load().test[:5]
    known = [run.tokenizers.source_ids(pair.source) for pair in pairs]
    targets = [run.tokenizers.target_ids(pair.target, pair.source) for pair in pairs]
    read = {}

    class Numbered(Encoder):
        def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> Memory:
            return Memory.of(torch.tensor([[[float(known.index(tokens[0, :-1].tolist()))]]]))

    def script(row: int, text: Text) -> list[float]:
        read[row] = text
        said = says(targets[row], text)
        return [float(token == said) for token in range(run.tokenizers.target.size)]

    decoder = Scripted(run.tokenizers.target.size, script)
    monkeypatch.setattr(run, "model", EncoderDecoder(Numbered(), decoder))
    assert learning.score_after_mistake(run, count=5) == pytest.approx(share)
    for row, target in enumerate(targets):
        assert read[row][0] == target[0]
        assert read[row][1] != target[1]
        assert list(read[row][2:]) == [says(target, read[row][:place]) for place in range(2, 9)]


def test_a_trained_part_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def train(config, out, *, resume):
        calls.append(resume)
        out.mkdir(parents=True, exist_ok=True)
        (out / "config.yaml").write_text(run_file.dump(launch.resolve_precision(config, "cpu")), encoding="utf-8")
        (out / "result.json").write_text('{"test/exact-match": 3.0}', encoding="utf-8")
        return {"test/exact-match": 3.0}

    monkeypatch.setattr("regard.runs.train.train", train)
    setting = Setting(tmp_path)
    assert setting.train("dates", "one", []) == setting.train("dates", "one", []) == {"test/exact-match": 3.0}
    with pytest.raises(InputError, match="one: holds a run with other settings"):
        setting.train("dates", "one", ["training.steps=701"])
    (tmp_path / "two").mkdir()
    setting.train("dates", "two", [])
    assert calls == [False, True]


def test_a_finding_writes_its_table_and_picture(tmp_path: Path):
    chart = Chart("t", "x", "y", {"line": [(1.0, 2.0)]})
    finding = Finding("A claim.", ("name", "figure"), [("one", 1.23456), ("two", 7)], [chart])
    assert finding.table() == "| name | figure |\n| --- | --- |\n| one | 1.235 |\n| two | 7 |"
    files = finding.write(tmp_path / "new" / "folder", "x")
    assert [path.suffix for path in files] == [".md", ".json", ".png"]
    assert "A claim." in files[0].read_text(encoding="utf-8")
    record = json.loads(files[1].read_text(encoding="utf-8"))
    assert record["rows"][0] == {"name": "one", "figure": 1.23456}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["experiment"]) == 0
    assert capsys.readouterr().out.split() == list(EXPERIMENTS)
    assert main(["experiment", "scaling", "--out", str(tmp_path / "out")]) == 0
    assert "| scaled dot | 1024 |" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["scaling.json", "scaling.md", "scaling.png"]
    assert main(["experiment", "scalling"]) == 2
    assert "did you mean 'scaling'?" in capsys.readouterr().err
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(["experiment", "scaling", "--out", str(tmp_path / "file")]) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Seq2SeqRun:
    setting = Setting(tmp_path_factory.mktemp("letters"))
    small = ["data.train=999", "data.valid=5", "data.test=5", "training.steps=3", "training.warmup=1"]
    setting.train("letters", "run", [*small, "data.order=copy", "data.least=3", "data.most=4", "search.beam=1"])
    return setting.run("run")


def test_errors_are_of_the_map_that_validation_chose(rows: Seq2SeqRun, monkeypatch: pytest.MonkeyPatch):
    good, bad = np.eye(4)[:, :, None], np.eye(4)[::-1, :, None]
    splits = rows.config.data.load()

    def maps(pairs):
        kinds = (good, bad) if pairs == splits.valid else (bad, good)
        size = [len(pair.source.split()) for pair in pairs]
        return [np.stack([kind[-n:, :n, 0] if kind is bad else kind[:n, :n, 0] for kind in kinds]) for n in size]

    monkeypatch.setattr(rows, "word_maps", maps)
    _, best, *_ = structure.alignment_errors(rows)
    assert best > 0.4  # the first map is best in validation and wrong on the test set


def test_all_links_of_generated_pairs_are_sure(rows: Seq2SeqRun):
    pair = rows.config.data.load().test[0]
    assert structure.gold_links(pair).sure == structure.gold_links(pair).possible == pair.links


def test_letters_are_right_at_their_place_alone(rows: Seq2SeqRun, monkeypatch: pytest.MonkeyPatch):
    def answer(texts, *, beam, attention):
        return [GeneratedText(change(text), 0.0, True, ()) for text in texts]

    monkeypatch.setattr(rows, "predict", answer)
    change = str
    assert lengths.score_lengths(rows, "copy", [1, 7], 3) == [100, 100]
    change = lambda text: text[:7]  # noqa: E731  # 4 of 8 letters
    assert lengths.score_length(rows, "copy", 8, 5) == 50
    change = lambda text: ""  # noqa: E731
    assert lengths.score_length(rows, "copy", 8, 5) == 0


def test_vectors_of_one_sense_are_nearer():
    """As near, which a static embedding always is, counts half."""
    one, other = torch.tensor([[1.0, 0.0], [1.0, 0.1]]), torch.tensor([[0.0, 1.0], [0.1, 1.0]])
    same, across, nearer = structure.compare_groups([one, other])
    assert (same > 0.9 > 0.2 > across, nearer) == (True, 100)
    assert structure.compare_groups([one[:1].expand(2, 2)] * 2) == pytest.approx((1, 1, 50))


def test_sentences_have_their_word_and_its_subject_alone():
    for sentence in structure.generate_sentences(50, 3):
        words = set(sentence.split())
        [word] = words & set(structure.WORDS)
        meant = {subject for subject, parts in structure.SUBJECTS.items() if words & set(" ".join(parts).split())}
        assert len(meant) == 1
        assert meant < set(structure.WORDS[word])


def test_senses_are_measured_in_each_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    elmo = "model={name: elmo, characters: 12, filters: [[2, 3]], projection: 5, cell: 7, softmax: {kind: full}}"
    bert = (
        "model={name: bert, layers: 1, width: 6, heads: 2, hidden: 5, context: 24, pooler: false, next_sentence: false}"
    )
    monkeypatch.setattr(structure, "MODELS", {"ELMo": ("elmo", "\n", elmo), "BERT": ("bert", "\n\n", bert)})
    train = Setting.train
    few = ["training.steps=2", "training.warmup=0"]
    monkeypatch.setattr(Setting, "train", lambda self, recipe, name, given: train(self, recipe, name, [*given, *few]))
    rows = EXPERIMENTS["context"](Setting(tmp_path / "new")).rows
    layers = [("ELMo", "0, static"), ("ELMo", 1), ("ELMo", 2), ("BERT", "0, static"), ("BERT", 1)]
    assert [row[:2] for row in rows] == layers
    assert rows[0][2:5] == rows[3][2:5] == pytest.approx((1, 1, 50))


def test_a_word_is_given_the_weights_of_the_step_before_or_after():
    weights = np.arange(1.0, 7.0).reshape(3, 2)
    assert structure.shift_rows(weights, 0).tolist() == weights.tolist()
    assert structure.shift_rows(weights, 1).tolist() == [[0, 0], [1, 2], [3, 4]]
    assert structure.shift_rows(weights, -1).tolist() == [[3, 4], [5, 6], [0, 0]]
