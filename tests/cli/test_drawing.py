"""Sampled predictions: `regard predict --temperature ...`."""

import json
from pathlib import Path

import pytest

from tests.cli.command import finish, start

DRAW = ("--temperature", "1.5", "--top-k", "11", "--top-p", "0.9", "--seed", "3")
TEXT = "14 July 1989"


def test_the_same_seed_draws_the_same(regard, run: Path):
    first, again, other = (
        regard("predict", str(run), TEXT, TEXT, *DRAW[:-1], seed, "--json")[:2] for seed in ("3", "3", "5")
    )
    assert first == again
    assert first != other
    assert (first[0], other[0]) == (0, 0)
    drawn = [json.loads(line)["tokens"] for line in first[1].splitlines()]
    assert drawn[0] != drawn[1]


def test_of_n_draws_the_first_stays_first_and_the_others_come_best_first(regard, run: Path):
    code, output, _ = regard("predict", str(run), TEXT, "--n-best", "5", *DRAW)
    alone = json.loads(regard("predict", str(run), TEXT, *DRAW, "--json")[1])
    scores = [float(line.split("\t")[1]) for line in output.splitlines()]
    assert code == 0
    assert scores[0] == pytest.approx(alone["score"], abs=1e-4)
    assert scores[1:] == sorted(scores[1:], reverse=True)
    assert len(set(scores)) == 5


def test_temperature_zero_is_greedy(regard, run: Path):
    """The kernel searches where nothing is sampled, so scores agree but for rounding."""
    searched = regard("predict", str(run), TEXT, "--beam", "1", "--json")
    sampled = regard("predict", str(run), TEXT, "--temperature", "0", "--top-k", "3", "--json")
    greedy, coldest = json.loads(searched[1]), json.loads(sampled[1])
    assert coldest.pop("score") == pytest.approx(greedy.pop("score"), abs=1e-4)
    assert (sampled[0], coldest, sampled[2]) == (0, greedy, searched[2])


def test_lines_are_drawn_the_same_however_they_arrive(run: Path):
    """Each by itself: those that come together are answered as those that come alone."""
    code, together, _ = finish(start("predict", str(run), "-", "--json", *DRAW), f"{TEXT}\n3 May 2018\n")
    assert code == 0
    code, alone, _ = finish(start("predict", str(run), "-", "--json", *DRAW), "3 May 2018\n")
    assert code == 0
    assert together.splitlines()[1:] == alone.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--temperature", "-1"], "for --temperature. Must be >= 0"),
        (["--temperature=-0.5"], "for --temperature. Must be >= 0"),
        (["--temperature", "nan"], "for --temperature. Must be >= 0"),
        (["--temperature", "inf"], "for --temperature. Must be >= 0"),
        (["--temperature", "warm"], "--temperature"),
        (["--temperature", "1", "--top-p", "0"], "for --top-p. Must be > 0"),
        (["--temperature", "1", "--top-p", "1.1"], "for --top-p. Must be <= 1"),
        (["--temperature", "1", "--top-k", "-2"], "for --top-k. Must be >= 0"),
        (["--temperature", "1", "--seed", "-2"], "for --seed. Must be >= 0"),
        (["--temperature", "0", "--n-best", "3"], "n_best is 3; it must be at least 1, and 1 at temperature 0"),
        (["--temperature", "1", "--n-best", "0"], "for --n-best. Must be >= 1"),
        (["--top-k", "3"], "without sampling; set a temperature"),
        (["--seed", "3"], "seed is for sampling; give a temperature too"),
        (["--temperature", "1", "--beam", "3"], "beam and temperature are both given"),
        (["--top-p", "0.5", "--beam", "3"], "beam and top-p are both given"),
    ],
)
def test_what_cannot_be_drawn(regard, run: Path, arguments: list[str], said: str):
    code, output, errors = regard("predict", str(run), TEXT, *arguments)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert said in errors
