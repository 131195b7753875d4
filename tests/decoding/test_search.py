"""The settings of a run's search: their errors, and the searches that they choose."""

import math
from pathlib import Path

import pytest
import torch

from regard.config import loader, yaml_tree
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import DecodingConstraints, Search
from regard.errors import InputError
from tests.decoding.scripted import Language, Scripted, sources

LIMIT = torch.tensor([5, 3, 7])


def searched(search: Search, n_best: int = 1) -> list[list[Hypothesis]]:
    return search(Scripted(11, Language((4, 5, 6), 11, 1).script), sources(3), LIMIT, DecodingConstraints(n_best))


def test_the_penalty_divides_the_score_of_a_sample():
    """Its length counts END, as a beam's does."""
    plain, penalised = (searched(Search(temperature=1.3, length_penalty=alpha), n_best=5) for alpha in (0.0, 1.0))
    for one, other in zip(plain, penalised, strict=True):
        scores = {each.tokens: each.score / ((5 + len(each.tokens) + each.finished) / 6) for each in one}
        assert {each.tokens: each.score for each in other} == pytest.approx(scores, rel=1e-5)


def test_each_row_is_drawn_n_times_and_the_first_stays_first():
    found = searched(Search(temperature=1.5), n_best=17)
    assert [len(row) for row in found] == [17, 17, 17]
    for row in found:
        order = [(not each.finished, -each.score) for each in row[1:]]
        assert order == sorted(order)
        assert len({each.score for each in row[1:]}) > 3
    assert any(row[0].score < row[1].score for row in found)
    for few in (1, 2, 5):
        assert [row[0] for row in searched(Search(temperature=1.5), n_best=few)] == [row[0] for row in found]


@pytest.mark.parametrize(("temperature", "n_best"), [(1.0, 0), (1.0, -1), (0.0, 0), (0.0, 2)])
def test_numbers_of_draws_that_make_no_sense(temperature: float, n_best: int):
    with pytest.raises(ValueError, match=f"n_best is {n_best}; it must be at least 1, and 1 at temperature 0"):
        searched(Search(temperature=temperature), n_best)


def test_a_beam_instead_of_a_draw():
    search = Search(temperature=1.3, top_k=3, top_p=0.9, length_penalty=0.6, length_extra=3)
    assert search.with_beam(beam=5) == Search(beam=5, length_penalty=0.6, length_extra=3)


BAD = [
    ({"temperature": -1.0}, "temperature is -1.0"),
    ({"temperature": math.nan}, "temperature is nan"),
    ({"temperature": math.inf}, "temperature is inf"),
    ({"temperature": 1.0, "top_k": -1}, "top_k is -1"),
    ({"temperature": 1.0, "top_p": 0.0}, "top_p is 0.0"),
    ({"temperature": 1.0, "top_p": 1.5}, "top_p is 1.5"),
    ({"top_p": math.nan}, "top_p is nan"),
    ({"seed": -1}, "seed is -1"),
    ({"seed": 2**63}, "9223372036854775808"),
    ({"top_k": 3}, "top_k is 3 and top_p 1.0, without sampling; set a temperature"),
    ({"top_p": 0.5}, "top_k is 0 and top_p 0.5, without sampling; set a temperature"),
]


@pytest.mark.parametrize(("settings", "said"), BAD)
def test_a_run_file_names_the_line(tmp_path: Path, settings: dict, said: str):
    path = tmp_path / "search.yaml"
    values = {name: {math.nan: ".nan", math.inf: ".inf"}.get(value, value) for name, value in settings.items()}
    path.write_text("# a search\n" + "".join(f"{name}: {value}\n" for name, value in values.items()), encoding="utf-8")
    with pytest.raises(InputError) as error:
        loader.load(path, Search)
    assert str(error.value).startswith(f"{path}:2: ")
    assert said in str(error.value)


def test_a_run_file_draws(tmp_path: Path):
    path = tmp_path / "search.yaml"
    wanted = Search(temperature=0.7, top_k=10, top_p=0.9, seed=3)
    path.write_text(yaml_tree.dump(wanted), encoding="utf-8")
    assert loader.load(path, Search) == wanted
    assert loader.load(path, Search, ["temperature=null", "top_k=0", "top_p=1"]) == Search(seed=3)
    assert loader.load(path, Search, ["temperature=1"]).temperature == 1.0
