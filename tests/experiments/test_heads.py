"""The shares of what heads read, by kind of key, against a count by hand."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.data.pairs import Pair
from regard.experiments.structure import CHARACTER_KINDS, measure_heads
from regard.runs.load import load
from regard.tasks.seq2seq.run import Seq2SeqRun
from tests.cli.command import finish, start, tiny


def test_shares_of_sentences_together_are_those_of_each_alone(tmp_path: Path):
    folder = tmp_path / "run"
    options = tiny(model__width="16", model__hidden="8", model__heads="2", training__steps="2")
    code, _, errors = finish(start("train", "dates-transformer", "--out", str(folder), *options))
    assert code == 0, errors
    run = load(folder, task=Seq2SeqRun)
    pairs = [Pair("May 9, 2018", "2018-05-09", "a"), Pair("thu 3 march 2016", "2016-03-03", "b")]
    together, one, other = measure_heads(run, pairs), measure_heads(run, pairs[:1]), measure_heads(run, pairs[1:])
    sizes = [len(pair.source) + 1 for pair in pairs]
    for (name, kind), shares in together.items():
        first, second = sizes if name.startswith("encoder") else (1, 1)  # targets are as long as each other
        wanted = (first * one[name, kind] + second * other[name, kind]) / (first + second)
        torch.testing.assert_close(shares, wanted)
    names = {name for name, _ in together}
    assert {"encoder.layers.0.self_attention", "decoder.layers.0.cross_attention"} <= names
    for name in names:
        torch.testing.assert_close(sum(together[name, kind] for kind in CHARACTER_KINDS), torch.ones(2))
        assert ((name, "itself") in together) == name.endswith("self_attention")


def test_shares_are_those_of_the_weights(monkeypatch: pytest.MonkeyPatch):
    """Of a head that attends to the position before, in a text whose last position is its end."""
    weights = torch.diag(torch.ones(3), -1)
    weights[0, 0] = 1.0
    maps = {"encoder.0.self_attention": weights[None, None]}
    monkeypatch.setattr("regard.experiments.structure.record", lambda model: nullcontext(maps))
    monkeypatch.setattr("regard.experiments.structure.encode_pairs", lambda *given: [([5, 6, 7], [5])])
    tokenizers = SimpleNamespace(source_pieces=lambda *given: ["7", "m", "·"], target_pieces=lambda *given: ["7"])
    run: Any = SimpleNamespace(model=lambda *given: None, tokenizers=tokenizers, config=None)
    shares = {kind: float(share) for (_, kind), share in measure_heads(run, [Pair("7m.", "7", "a")]).items()}
    expected = {"letters": 0.25, "digits": 0.5, "marks": 0.25, "start or end": 0.0}
    assert shares == expected | {"the one before": 0.75, "itself": 0.25, "the one after": 0.0}
