"""The shares of what heads read, by kind of key, against a count by hand."""

from pathlib import Path

import pytest
import torch

from regard.data.pairs import Pair
from regard.experiments.structure import CHARACTER_KINDS, character_kind, characters, measure_heads, neighbors
from regard.runs.load import load
from regard.tasks.seq2seq.run import Seq2SeqRun
from tests.cli.command import finish, start, tiny


def test_neighbours_and_characters():
    near = neighbors(4)
    assert near["the one before"][0].nonzero().tolist() == [[1, 0], [2, 1], [3, 2]]
    assert near["itself"][0].equal(torch.eye(4, dtype=torch.bool))
    assert near["the one after"][0].nonzero().tolist() == [[0, 1], [1, 2], [2, 3]]
    kinds = characters([["digits", "marks", "letters", "start or end"], ["digits", "start or end"]])
    assert {name: on[:, 0].int().tolist() for name, on in kinds.items()} == {
        "letters": [[0, 0, 1, 0], [0, 0, 0, 0]],
        "digits": [[1, 0, 0, 0], [1, 0, 0, 0]],
        "marks": [[0, 1, 0, 0], [0, 0, 0, 0]],
        "start or end": [[0, 0, 0, 1], [0, 1, 0, 0]],
    }
    assert [character_kind(piece) for piece in ("7", "m", "·", "-")] == ["digits", "letters", "marks", "marks"]


def test_shares_of_sentences_together_are_those_of_each_alone(tmp_path: Path):
    folder = tmp_path / "run"
    options = tiny(model__width="16", model__hidden="8", model__heads="2", training__steps="2")
    code, _, errors = finish(start("train", "dates-transformer", "--out", str(folder), *options))
    assert code == 0, errors
    run = load(folder, task=Seq2SeqRun)
    pairs = [Pair("May 9, 2018", "2018-05-09", "a"), Pair("thu 3 march 2016", "2016-03-03", "b")]
    together, one, other = measure_heads(run, pairs), measure_heads(run, pairs[:1]), measure_heads(run, pairs[1:])
    sizes = [len(pair.source) + 1 for pair in pairs]
    for name, per_head in together.items():
        first, second = sizes if name.startswith("encoder") else (1, 1)  # targets are as long as each other
        for head, shares in enumerate(per_head):
            assert sum(shares[each] for each in CHARACTER_KINDS) == pytest.approx(1, abs=1e-5)
            assert ("itself" in shares) == name.endswith("self_attention")
            wanted = {
                each: (first * one[name][head][each] + second * other[name][head][each]) / (first + second)
                for each in shares
            }
            assert shares == pytest.approx(wanted, abs=1e-5)
    assert {"encoder.layers.0.self_attention", "decoder.layers.0.cross_attention"} <= set(together)
