"""Experiments that train, from the recipe to the picture: of tiny models, after two updates."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from regard.data.generated.pairs import Order
from regard.experiments import EXPERIMENTS, learning, lengths, structure
from regard.experiments.lengths import score_lengths
from regard.experiments.sweep import Finding, Setting
from regard.tasks.seq2seq.run import Seq2SeqRun

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
    names = [row[0] for row in finding.rows]
    assert sorted(set(names)) == ["Luong, hard", "Transformer, guided"]
    assert names == sorted(names)
    assert len(names) == len({row[:2] for row in finding.rows}) >= 4
    written(finding, tmp_path)


@pytest.mark.slow
def test_variants(setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(learning, "STEPS", (1, 2))
    for table, names in (("SCORES", ("dot", "location")), ("ALIGNS", ("softmax", "hard"))):
        monkeypatch.setattr(learning, table, {name: getattr(learning, table)[name] for name in names})
    finding = EXPERIMENTS["variants"](setting)
    wanted = [("score", "dot"), ("score", "location"), ("align", "hard")]
    assert [row[:3] for row in finding.rows] == [(*each, count) for each in wanted for count in (1, 2)]
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
