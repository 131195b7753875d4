"""Options of the search and of sampling: prefixes, given targets, temperature."""

import json
import shutil
from pathlib import Path

import pytest

from regard.runs.run_file import load
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.text.kinds import END
from tests.cli.command import finish, start

WARNINGS = ("text 1: the prediction is empty", "text 1: the prediction has \ufffd", "unfinished")
"""What models that have learned little may be warned of."""


def answers(regard, run: Path, *arguments: str) -> list[dict]:
    code, output, errors = regard("predict", str(run), TEXT, "--json", *arguments)
    assert code == 0
    assert all(any(what in line for what in WARNINGS) for line in errors.splitlines()), errors
    return [json.loads(line) for line in output.splitlines()]


def test_prefix(regard, run: Path):
    (answer,) = answers(regard, run, "--prefix", "19")
    assert answer["text"].startswith("19")


@pytest.fixture
def hasty(run: Path, tmp_path: Path) -> Path:
    """The run with weights that would end every text at once."""
    copy = Path(shutil.copytree(run, tmp_path / "hasty"))
    tensors = RunDirectory.open(copy).load_tensors(WEIGHTS)
    tensors["decoder.output.bias"][END] += 9
    with RunDirectory.create(copy, resume=True) as directory:
        directory.save_tensors(WEIGHTS, tensors)
    return copy


def test_a_prefix(regard, hasty: Path):
    assert answers(regard, hasty)[0]["text"] == ""
    (answer,) = answers(regard, hasty, "--prefix", "20", "--beam", "3")
    assert answer["finished"]
    assert answer["text"].startswith("20")


@pytest.mark.parametrize("search", [["--beam", "5"], ["--temperature", "1.5", "--seed", "3"]])
@pytest.mark.parametrize("n_best", ["2", "5"])
def test_more_answers_never_change_the_best(regard, run: Path, search: list[str], n_best: str):
    (best,) = answers(regard, run, *search)
    (more,) = answers(regard, run, *search, "--n-best", n_best)
    assert more["text"] == best["text"]
    assert more["score"] == best["score"]
    assert len(more["alternatives"]) == int(n_best) - 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--prefix", "ß"], "'ß' has pieces that are not in the target's vocabulary, so no output has it"),
        (["--n-best", "99"], "n_best 99"),
        (["--length-penalty", "nan"], "length_penalty is nan; expected at least 0"),
        (["--temperature", "warm"], "--temperature"),
        (["--temperature", "0", "--n-best", "3"], "n_best is 3; it must be at least 1, and 1 at temperature 0"),
        (["--temperature", "1", "--beam", "3"], "beam and temperature are both given"),
    ],
)
def test_what_cannot_be_met(regard, run: Path, arguments: list[str], said: str):
    code, output, errors = regard("predict", str(run), TEXT, *arguments)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert said in errors


def test_scores_of_given_targets(regard, run: Path, tmp_path: Path):
    """What a greedy answer scored is what it scores when it is given."""
    (answer,) = load(run).predict([TEXT], beam=1)
    for name, text in (("source.txt", TEXT), ("target.txt", answer.text)):
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    files = ["--source", str(tmp_path / "source.txt"), "--target", str(tmp_path / "target.txt")]
    code, output, _ = regard("score", str(run), *files)
    assert code == 0
    _, records, _ = regard("score", str(run), *files, "--json")
    record = json.loads(records)
    assert float(output) == pytest.approx(record["score"], abs=1e-4)
    spoken = record["tokens"] if answer.finished else record["tokens"][:-1]
    assert sum(spoken) == pytest.approx(answer.score, rel=1e-4)
    assert len(record["tokens"]) == len(answer.text) + 1


def test_settings_of_the_search_on_the_command_line(regard, run: Path, hasty: Path):
    """Minimal length, penalties and ends at the limit, of a search and of samples."""
    assert answers(regard, hasty)[0]["text"] == ""
    for kind in ([], ["--beam", "3"], ["--temperature", "1"]):
        (answer,) = answers(regard, hasty, "--min-length", "5", *kind)
        assert len(answer["tokens"]) >= 4
    (whole,) = answers(regard, run, "--min-length", "200", "--end-at-limit")
    assert whole["finished"]
    assert not answers(regard, run, "--min-length", "200")[0]["finished"]
    (varied,) = answers(regard, run, "--min-length", "8", "--no-repeat", "1")
    assert len(set(varied["tokens"])) == len(varied["tokens"])
    repeated = answers(regard, run, "--min-length", "30")[0]["tokens"]
    penalised = answers(regard, run, "--min-length", "30", "--repetition-penalty", "50")[0]["tokens"]
    assert len(set(penalised)) > len(set(repeated))
    plain, divided = (answers(regard, run, "--beam", "4", "--length-penalty", each)[0]["score"] for each in ("0", "9"))
    assert plain < divided < 0


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
