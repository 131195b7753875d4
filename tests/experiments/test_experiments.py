"""Experiments that measure without training, whole; those that train, by their parts; and the command."""

import itertools
import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.cli.main import main
from regard.data.generated.pairs import Order
from regard.data.pairs import Pair
from regard.errors import InputError
from regard.experiments import EXPERIMENTS, cost, learning, lengths, structure
from regard.experiments.cost import MECHANISMS, make_step, peak_bytes
from regard.experiments.learning import COMPARED_SCORES, TASKS, languages, measure_softmax
from regard.experiments.lengths import PROPERTIES, check_properties, list_encodings, score_lengths
from regard.experiments.sweep import Finding, Setting
from regard.pictures.chart import Chart
from regard.runs import run_file
from regard.runs import train as launch
from regard.runs.recipes import path_of
from regard.runs.run_file import load
from regard.tasks.options import GeneratedText
from regard.tasks.seq2seq.run import Seq2SeqRun
from tests.cli.command import finish, start, tiny


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
    options = tiny(model__width="16", model__hidden="8", model__heads="2", training__steps="2")
    code, _, errors = finish(start("train", "dates-transformer", "--out", str(folder), *options))
    assert code == 0, errors
    return folder


@pytest.mark.parametrize(("output", "share"), [(str, 1.0), (lambda text: text[:6], 4 / 8), (lambda text: "", 0.0)])
def test_the_share_that_is_right_after_a_mistake(
    trained: Path, monkeypatch: pytest.MonkeyPatch, output: Callable[[str], str], share: float
):
    """Dates have 10 characters, of which the last 8 count. The second is always a wrong one."""
    run = load(trained, task=Seq2SeqRun)
    targets = {pair.source: pair.target for pair in run.config.data.load().test}

    def predict(texts, *, beam, prefix):
        target = targets[texts[0]]
        assert prefix[0] == target[0]
        assert prefix[1] != target[1]
        return [GeneratedText(output(prefix + target[2:]), 0.0, True, ())]

    assert load(trained, task=Seq2SeqRun).predict(["May 9"], beam=1, prefix="21")[0].text.startswith("21")
    monkeypatch.setattr(run, "predict", predict)
    assert learning.score_after_mistake(run, count=5) == pytest.approx(share)


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


def check_scaling(rows: list[dict[str, Any]]) -> None:
    by = {score: [[*row.values()][1:] for row in rows if row["score"] == score] for score in ("dot", "scaled dot")}
    for width, variance, entropy, derivative in by["dot"]:
        assert variance == pytest.approx(width, rel=0.15)
        assert 0 <= entropy <= math.log(64)
        assert derivative >= 0
    assert by["dot"][-1][2] < 0.2 < 3 < by["scaled dot"][-1][2]
    assert by["dot"][-1][3] < by["dot"][0][3] / 2
    assert all(row[1] == pytest.approx(1, rel=0.15) for row in by["scaled dot"])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["experiment"]) == 0
    assert capsys.readouterr().out.split() == list(EXPERIMENTS)
    assert main(["experiment", "scaling", "--out", str(tmp_path / "out")]) == 0
    assert "| scaled dot | 1024 |" in capsys.readouterr().out
    check_scaling(json.loads((tmp_path / "out/scaling.json").read_text(encoding="utf-8"))["rows"])
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
    _, best = structure.alignment_errors(rows)
    assert best > 40  # the first map is best in validation and wrong on the test set


def test_letters_are_right_at_their_place_alone(rows: Seq2SeqRun, monkeypatch: pytest.MonkeyPatch):
    def answer(texts, *, beam, attention):
        return [GeneratedText(change(text), 0.0, True, ()) for text in texts]

    monkeypatch.setattr(rows, "predict", answer)
    change = str
    assert lengths.score_lengths(rows, "copy", [1, 7], 3) == [100, 100]
    change = lambda text: text[:7]  # noqa: E731  # 4 of 8 letters
    assert lengths.score_lengths(rows, "copy", [8], 5) == [50]
    change = lambda text: ""  # noqa: E731
    assert lengths.score_lengths(rows, "copy", [8], 5) == [0]


def test_vectors_of_one_sense_are_nearer():
    """As near, which a static embedding always is, counts half."""
    one, other = torch.tensor([[1.0, 0.0], [1.0, 0.1]]), torch.tensor([[0.0, 1.0], [0.1, 1.0]])
    same, across, nearer = structure.compare_groups(torch.cat([one, other]))
    assert (same > 0.9 > 0.2 > across, nearer) == (True, 100)
    assert structure.compare_groups(one[:1].expand(4, 2)) == pytest.approx((1, 1, 50))


def test_sentences_have_their_word_and_its_subject_alone():
    for sentence in structure.generate_sentences(50, 3):
        words = set(sentence.split())
        [word] = words & set(structure.WORDS)
        meant = {subject for subject, parts in structure.SUBJECTS.items() if words & set(" ".join(parts).split())}
        assert len(meant) == 1
        assert meant < set(structure.WORDS[word])


@pytest.mark.slow
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


def test_shares_of_sentences_together_are_those_of_each_alone(trained: Path):
    run = load(trained, task=Seq2SeqRun)
    pairs = [Pair("May 9, 2018", "2018-05-09", "a"), Pair("thu 3 march 2016", "2016-03-03", "b")]
    together, one, other = (structure.measure_heads(run, some) for some in (pairs, pairs[:1], pairs[1:]))
    sizes = [len(pair.source) + 1 for pair in pairs]
    for name, shares in together.items():
        first, second = sizes if name.startswith("encoder") else (1, 1)  # targets are as long as each other
        wanted = (first * one[name] + second * other[name]) / (first + second)
        torch.testing.assert_close(shares, wanted)
    assert {"encoder.layers.0.self_attention", "decoder.layers.0.cross_attention"} <= set(together)


def test_shares_are_those_of_the_weights(monkeypatch: pytest.MonkeyPatch):
    """Of a head that attends to the position before, in a text whose last position is its end."""
    weights = torch.diag(torch.ones(3), -1)
    weights[0, 0] = 1.0
    maps = {"encoder.0.self_attention": weights[None, None]}
    monkeypatch.setattr("regard.experiments.structure.record", lambda model: nullcontext(maps))
    monkeypatch.setattr("regard.experiments.structure.encode_pairs", lambda *given: [([5, 6, 7], [5])])
    tokenizers = SimpleNamespace(source_pieces=lambda *given: ["7", "m", "·"], target_pieces=lambda *given: ["7"])
    run: Any = SimpleNamespace(model=lambda *given: None, tokenizers=tokenizers, config=None)
    (shares,) = structure.measure_heads(run, [Pair("7m.", "7", "a")]).values()
    expected = {"letters": 0.25, "digits": 0.5, "marks": 0.25}
    expected |= {"the one before": 0.75, "itself": 0.25, "the one after": 0.0}
    assert dict(zip(structure.KEYS, shares[:, 0].tolist(), strict=True)) == expected


MISSING = {
    "none": {"unique"},
    "fraction of the length": {"same offsets"},
    "integers": {"bounded"},
    "sinusoidal": set(),
    "learned": {"any length"},
}


@pytest.mark.parametrize("name", MISSING)
def test_each_encoding_lacks_what_it_lacks(name: str):
    has = check_properties(list_encodings()[name])
    assert tuple(has) == PROPERTIES
    assert {each for each in PROPERTIES if not has[each]} == MISSING[name]


def test_all_encodings_are_compared():
    assert set(list_encodings()) == set(MISSING)


def test_both_scores_meet_both_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trained = {}

    def train(self: Setting, recipe: str, name: str, given: list[str]) -> dict[str, float]:
        trained[name] = run_file.read(path_of(recipe), given)
        return {"test/exact-match": trained[name].training.steps / 10, "seconds": 1.0}

    monkeypatch.setattr(Setting, "train", train)
    monkeypatch.setattr(Setting, "run", lambda self, name: None)
    finding = languages(Setting(tmp_path))
    assert len(finding.rows) == len(trained) == len(TASKS) * len(COMPARED_SCORES) * 3
    assert {(row[0], row[1]) for row in finding.rows} == {(task, score) for task in TASKS for score in COMPARED_SCORES}
    assert all(row[3] == row[2] / 10 for row in finding.rows)
    models = [config.model for config in trained.values()]
    sizes = {(model.name, model.width, model.embedding, model.layers, model.dropout) for model in models}
    assert sizes == {("luong", 128, 64, 1, 0.0)}
    assert {config.model.score for config in trained.values()} == set(COMPARED_SCORES)


def test_an_exponent_is_the_power_of_the_largest_sizes():
    sizes = [3, 5, 7, 11, 13]
    assert cost.fit_exponent(sizes, [17.0 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert cost.fit_exponent(sizes, [1e9, 1e9, 49, 121, 169]) == pytest.approx(2)


def test_the_peak_is_of_the_tensors_alive_at_once():
    given = torch.ones(1000)

    def call() -> Tensor:
        first = given + 1
        second = first * 2
        del first
        return torch.cat([second, second[:500]])[5:]

    assert peak_bytes(call) == 4 * (1000 + 1500)
    assert peak_bytes(lambda: given[:500].view(5, 100)) == 0
    assert peak_bytes(lambda: given.exp_()) == 0


def test_the_peak_sees_the_backward_pass():
    given = torch.ones(1000, requires_grad=True)
    step = make_step(lambda: given.exp().sin(), torch.nn.Identity(), given)
    assert peak_bytes(step) == 4 * 1000 * 4  # both results, the cosine of one, and the first gradient


@pytest.mark.parametrize(
    ("name", "power"),
    [("dot", 1), ("dot, weights kept", 2), ("additive, plain", 2), ("location", 2)],
)
def test_memory_grows_as_it_should(name: str, power: int):
    sizes = (128, 192, 256)
    peaks = [peak_bytes(MECHANISMS[name][2](size)) for size in sizes]
    assert cost.fit_exponent(sizes, peaks) == pytest.approx(power, abs=0.15)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the first step take a second, the second one two, and so on."""
    durations = itertools.count(1)
    timer = SimpleNamespace(blocked_autorange=lambda min_run_time: SimpleNamespace(median=float(next(durations))))
    monkeypatch.setattr(cost, "Timer", lambda *args, **options: timer)


def test_every_mechanism_has_its_row_and_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: None):
    monkeypatch.setattr(cost, "LENGTHS", (8, 12, 16))
    finding = cost.cost(Setting(tmp_path))
    time, memory = finding.charts
    assert isinstance(time, Chart)
    assert isinstance(memory, Chart)
    assert [row[0] for row in finding.rows] == [*time.lines] == [*memory.lines] == [*MECHANISMS]
    dot = dict(zip(cost.COLUMNS, finding.rows[0], strict=True))
    assert time.lines["dot"] == [(8.0, 1e3), (12.0, 2e3), (16.0, 3e3)]
    assert dot["exponent of time"] == pytest.approx(cost.fit_exponent([8, 12, 16], [1, 2, 3]), abs=0.01)
    assert (dot["at"], dot["ms"], dot["MB"]) == (16, 3e3, memory.lines["dot"][-1][1])


def test_sizes_that_would_not_fit_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: None):
    monkeypatch.setattr(cost, "LENGTHS", (8, 16, 1024, 2**20))
    monkeypatch.setattr(cost, "MECHANISMS", {"additive": MECHANISMS["additive"]})
    [row] = cost.cost(Setting(tmp_path)).rows
    assert dict(zip(cost.COLUMNS, row, strict=True))["at"] == 1024


FEW = [
    *("data.train=60", "data.valid=5", "data.test=5", "metrics=[exact-match]"),
    *("training.steps=2", "training.batch_tokens=300", "training.warmup=1", "training.threads=1", "search.beam=1"),
]
LUONG = "model={{name: luong, embedding: 3, width: {width}, layers: 1}}"
TRANSFORMER = "model={{name: transformer, layers: 1, width: 6, hidden: 5, heads: 2, shared: false{more}}}"


def of_two_rows(run: Seq2SeqRun, order: Order, lengths: Sequence[int]) -> list[float]:
    """For each length, in place of so many as are asked for."""
    return score_lengths(run, order, lengths, 2)


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """One that trains little, and asks of two rows of letters how right they are."""
    train = Setting.train
    monkeypatch.setattr(Setting, "train", lambda self, recipe, name, given: train(self, recipe, name, [*given, *FEW]))
    monkeypatch.setattr(lengths, "score_lengths", of_two_rows)
    return Setting(tmp_path / "new")


def written(finding: Finding, folder: Path) -> None:
    """Each row has every column, shares are between 0 and 100, and the table and the picture are there."""
    for row in finding.rows:
        assert len(row) == len(finding.columns)
        shares = [cell for name, cell in zip(finding.columns, row, strict=True) if name.endswith(", %") and cell != ""]
        assert all(0 <= share <= 100 for share in shares)
    assert all(path.stat().st_size for path in finding.write(folder, "x"))


@pytest.mark.slow
def test_alignment(setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    guided = [TRANSFORMER.format(more=""), "attention_losses.guided=0.3"]
    hard = [LUONG.format(width=5), "model.align=hard", "attention_losses.draw_entropy=0.05"]
    monkeypatch.setattr(structure, "ALIGNERS", {"Luong, hard": hard, "Transformer, guided": guided})
    finding = EXPERIMENTS["alignment"](setting)
    assert [row[:2] for row in finding.rows] == [(name, count) for name in structure.ALIGNERS for count in (200, 600)]
    written(finding, tmp_path)


@pytest.mark.slow
def test_variants(setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(learning, "STEPS", (1, 2))
    for table, names in (("SCORES", ("dot", "location")), ("ALIGNS", ("softmax", "hard"))):
        monkeypatch.setattr(learning, table, {name: getattr(learning, table)[name] for name in names})
    finding = EXPERIMENTS["variants"](setting)
    models = [("score", "dot"), ("score", "location"), ("align", "hard")]
    assert [row[:3] for row in finding.rows] == [(*model, count) for model in models for count in (1, 2)]
    written(finding, tmp_path)


@pytest.mark.slow
def test_positions(setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    models = {
        "learned": [TRANSFORMER.format(more=", positions: learned, max_length: 64")],
        "LSTM, monotonic attention": [LUONG.format(width=5), "model.align=monotonic"],
    }
    monkeypatch.setattr(lengths, "POSITION_MODELS", models)
    finding = EXPERIMENTS["positions"](setting)
    rows = {row[0]: row[1:] for row in finding.rows}
    assert set(models) <= set(rows)
    assert all(rows[name][-1] != "" for name in models)
    written(finding, tmp_path)


@pytest.mark.slow
def test_heads(setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    train = setting.train
    small = [TRANSFORMER.format(more="")]
    monkeypatch.setattr(Setting, "train", lambda self, recipe, name, given: train(recipe, name, [*given, *small]))
    finding = EXPERIMENTS["heads"](setting)
    attentions = "encoder.layers.0.self", "decoder.layers.0.self", "decoder.layers.0.cross"
    assert [row[:2] for row in finding.rows] == [(f"{name}_attention", head) for name in attentions for head in (0, 1)]
    written(finding, tmp_path)


@pytest.mark.slow
def test_teacher_forcing(setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    ways = {"scheduled sampling": (*learning.WAYS["scheduled sampling"], LUONG.format(width=5))}
    monkeypatch.setattr(learning, "WAYS", ways)
    finding = EXPERIMENTS["teacher-forcing"](setting)
    assert [row[:2] for row in finding.rows] == [("scheduled sampling", count) for count in (100, 200, 400, 600)]
    written(finding, tmp_path)


@pytest.mark.slow
def test_bottleneck(setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(lengths, "WIDTHS", (4, 6))
    finding = EXPERIMENTS["bottleneck"](setting)
    assert [row[:2] for row in finding.rows] == [(name, width) for name in lengths.DECODERS for width in (4, 6)]
    written(finding, tmp_path)
