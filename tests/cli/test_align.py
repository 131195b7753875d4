"""Word alignment through the commands."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.attribution.attention import record_source_attention
from regard.data.pairs import Pair, read_parallel
from regard.runs.run_file import load
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.training.objectives import AttentionLosses
from tests.runs.test_load import SETTINGS, make


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    """Two sentences of three words and their translations of one, as options."""
    (tmp_path / "a").write_text("14 July 1989\n3 May 2018\n", encoding="utf-8")
    (tmp_path / "b").write_text("1989-07-14\n2018-05-03\n", encoding="utf-8")
    return ["--source", str(tmp_path / "a"), "--target", str(tmp_path / "b")]


def test_align_prints_links_between_words(regard, run: Path, texts: list[str]):
    code, output, _ = regard("align", str(run), *texts)
    assert code == 0
    assert [line.split("-")[1] for line in output.splitlines()] == ["0", "0"]
    assert all(0 <= int(line.split("-")[0]) <= 2 for line in output.splitlines())
    assert regard("align", str(run), *texts, "--map", "0")[1] == output
    code, _, errors = regard("align", str(run), *texts, "--map", "1")
    assert (code, errors) == (2, "regard: map 1 is not there; the model has 1, from 0 to 0\n")


@pytest.mark.parametrize("is_input", [False, True])
def test_a_word_reads_what_its_characters_read(run: Path, is_input: bool):
    loaded = load(run)
    loaded.config = replace(loaded.config, attention_losses=AttentionLosses(guided_input=is_input))
    (alignment,) = loaded.align([Pair("14 July 1989", "1989-07-14", "x:1")])
    tokenizers = loaded.tokenizers
    ids = tokenizers.source.encode("14 July 1989"), tokenizers.target.encode("1989-07-14")
    (pieces,) = record_source_attention(loaded.model, [ids])
    means = pieces.mean(0)[1:, :-1].mean(0) if is_input else pieces.mean(0)[:-1, :-1].mean(0)
    expected = [means[:2].sum(), means[2:7].sum(), means[7:].sum()]
    assert alignment.weights[0].tolist() == pytest.approx([float(each) for each in expected])
    assert (alignment.source, alignment.target) == (("14", "July", "1989"), ("1989-07-14",))


class Links(Seq2SeqRun):
    """A run that reads fixed words: for each target word the source words of its maps."""

    config: Any = None

    def __init__(self, *read: Sequence[int]) -> None:
        self.maps = np.eye(max(map(max, read)) + 1)[np.array(read)]

    def pair_warnings(self, pair: Pair) -> list[str]:
        return []

    def word_maps(self, pairs: Sequence[Pair]) -> list[np.ndarray]:
        return [self.maps[:, : len(pair.target.split()), : len(pair.source.split())] for pair in pairs]


@pytest.mark.parametrize(
    ("join", "links"),
    [
        ("intersection", "0-0 1-1 2-2\n0-0 1-1\n"),
        ("union", "0-0 0-3 1-1 2-2 3-3\n0-0 1-1\n"),
        ("agreement", "0-0 1-1 2-2\n0-0 1-1\n"),
        ("grow-diag-final-and", "0-0 1-1 2-2 3-3\n0-0 1-1\n"),
        (None, "0-0 1-1 2-2 3-3\n0-0 1-1\n"),
    ],
)
def test_align_in_both_directions(
    regard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, join: str | None, links: str
):
    """The last target word reads the first source word, but the last source word the last target word: that link is a
    neighbour of one that both say, and the other is none. Map 0 of the run is not taken; all of the other are."""
    runs = {"there": Links([3, 2, 1, 0], [0, 1, 2, 0]), "back": Links([0, 1, 2, 3])}
    monkeypatch.setattr("regard.runs.run_file.load", lambda path, **options: runs[path.name])
    (tmp_path / "a").write_text("a b c d\ne f\n", encoding="utf-8")
    (tmp_path / "b").write_text("A B C D\nE F\n", encoding="utf-8")
    files = ["--source", str(tmp_path / "a"), "--target", str(tmp_path / "b")]
    how = [] if join is None else ["--join", join]
    assert regard("align", "there", *files, "--map", "1", "--reverse", "back", *how) == (0, links, "")


@pytest.fixture
def transformer(tmp_path: Path) -> Path:
    """Of two layers with two heads each, as it begins."""
    model = "{name: transformer, layers: 2, heads: 2, width: 8, hidden: 7, shared: false}"
    return make(tmp_path, settings=SETTINGS.replace("{name: luong, embedding: 5, width: 7}", model))[0]


@pytest.fixture
def many(tmp_path: Path) -> list[str]:
    """Five pairs of several words, as options."""
    words = ["abc", "de", "gaf", "bb", "f", "dce", "a", "ggg"]
    for name, start in (("a", 0), ("b", 3)):
        lines = (" ".join(words[(start + line) % 3 :][: 3 + line]) for line in range(5))
        (tmp_path / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ["--source", str(tmp_path / "a.txt"), "--target", str(tmp_path / "b.txt")]


def test_align_ranks_maps_by_gold(regard, transformer: Path, many: list[str], tmp_path: Path):
    """The one whose links are the gold comes first, with its own number; the error of each is that of its links."""
    gold, errors = tmp_path / "gold", {}
    gold.write_text(regard("align", str(transformer), *many, "--map", "2")[1], encoding="utf-8")
    for number in range(4):
        (tmp_path / "found").write_text(regard("align", str(transformer), *many, "--map", str(number))[1])
        errors[f"map {number}"] = regard("aer", str(tmp_path / "found"), str(gold))[1].split()[1]
    assert len(set(errors.values())) > 2
    code, output, _ = regard("align", str(transformer), *many, "--pick", str(gold))
    ranked = [tuple(line.split("  ")) for line in output.splitlines()]
    assert (code, ranked[0]) == (0, ("map 2", "0.00"))
    assert dict(ranked) == errors
    assert [float(error) for _, error in ranked] == sorted(map(float, errors.values()))


def test_align_takes_the_mean_of_the_maps_that_are_chosen(regard, transformer: Path, many: list[str]):
    pairs = list(read_parallel(many[1], many[3]))
    loaded = load(transformer, task=Seq2SeqRun)
    maps = loaded.word_maps(pairs)
    sides = [(pair.source, pair.target) for pair in pairs]
    assert (loaded.align(sides)[0].weights == loaded.align(pairs)[0].weights).all()
    assert loaded.score(sides[:1]) == loaded.score(pairs[:1])
    links = [[f"{source}-{target}" for target, source in enumerate(each[[1, 3]].mean(0).argmax(-1))] for each in maps]
    code, output, _ = regard("align", str(transformer), *many, "--map", "1", "--map", "3")
    assert (code, [sorted(line.split()) for line in output.splitlines()]) == (0, [sorted(each) for each in links])
    assert output != regard("align", str(transformer), *many)[1]


@pytest.mark.parametrize(
    ("links", "said"),
    [("3-0", "3-0 lies outside the 3 words of the source"), ("0-0 2?1", "2-1 lies outside the 1 words of the target")],
)
def test_gold_links_outside_the_sentence(regard, run: Path, texts: list[str], tmp_path: Path, links: str, said: str):
    (tmp_path / "gold").write_text(f"0-0\n{links}\n", encoding="utf-8")
    code, output, errors = regard("align", str(run), *texts, "--pick", str(tmp_path / "gold"))
    assert (code, output) == (2, "")
    assert errors == f"regard: {tmp_path / 'gold'}:2: link {said}; words count from 0\n"


@pytest.mark.parametrize("option", [["--map", "0"], ["--reverse", "x"]])
def test_pick_refuses_what_it_would_not_use(regard, run: Path, texts: list[str], tmp_path: Path, option: list[str]):
    (tmp_path / "gold").write_text("0-0\n0-0\n", encoding="utf-8")
    code, output, errors = regard("align", str(run), *texts, "--pick", str(tmp_path / "gold"), *option)
    said = "--pick ranks every map of one run. Remove --map and --reverse, or --pick."
    assert (code, output, errors) == (2, "", f"regard: {said}\n")


def test_align_without_a_run(regard, tmp_path: Path):
    lines = [
        "the house ||| das Haus",
        " ||| leer",
        "a book ||| ein Buch",
        "the book ||| das Buch",
        "a house ||| ein Haus",
    ]
    file = tmp_path / "both.txt"
    file.write_text("".join(f"{line}\n" for line in 5 * lines), encoding="utf-8")
    code, output, errors = regard("align", "--source", str(file))
    assert (code, output) == (0, 5 * "0-0 1-1\n\n0-0 1-1\n0-0 1-1\n0-0 1-1\n")
    assert errors == f"regard: {file}: no RUN; a statistical aligner learns from these 20 pairs\n"
    for option in (["--map", "0"], ["--reverse", "x"], ["--pick", "x"]):
        code, output, errors = regard("align", "--source", str(file), *option)
        assert (code, output, "Name a RUN" in errors) == (2, "", True)


def test_join_needs_two_directions(regard, run: Path, texts: list[str]):
    code, output, errors = regard("align", str(run), *texts, "--join", "union")
    assert (code, output) == (2, "")
    assert errors == "regard: --join joins the links of two runs. Set --reverse too.\n"


def test_aer(regard, tmp_path: Path):
    (tmp_path / "found").write_text("0-0 1-1 1-2\n0-0\n", encoding="utf-8")
    (tmp_path / "gold").write_text("0-0 1-1 1?2\n2-2\n", encoding="utf-8")
    code, output, _ = regard("aer", str(tmp_path / "found"), str(tmp_path / "gold"))
    assert code == 0
    assert output.split() == ["aer", "28.57", "precision", "75.00", "recall", "66.67"]
    (tmp_path / "gold").write_text("0-0\n", encoding="utf-8")
    code, _, errors = regard("aer", str(tmp_path / "found"), str(tmp_path / "gold"))
    assert code == 2
    assert "has 2 lines" in errors


def test_gold_links_may_count_from_one(regard, tmp_path: Path):
    found, gold = tmp_path / "found", tmp_path / "gold"
    found.write_text("0-0 1-1\n", encoding="utf-8")
    gold.write_text("1-1 2p2\n", encoding="utf-8")
    code, _, errors = regard("aer", str(found), str(gold))
    advice = f"no link has a word 0, but some of {found} do; if its words are counted from 1, add --one-based"
    assert (code, errors) == (0, f"regard: {gold}: {advice}\n")
    code, output, errors = regard("aer", str(found), str(gold), "--one-based")
    assert (code, output.split()[1], errors) == (0, "0.00", "")
    gold.write_text("0-1\n", encoding="utf-8")
    code, _, errors = regard("aer", str(found), str(gold), "--one-based")
    assert (code, errors) == (2, f"regard: {gold}:1: a link has the word 0, but --one-based counts from 1\n")


@pytest.mark.parametrize("command", ["align", "score"])
def test_both_sides_of_a_line_and_a_column_of_numbers(
    regard, run: Path, texts: list[str], tmp_path: Path, command: str
):
    file = tmp_path / "both.txt"
    file.write_text("14 July 1989 ||| 1989-07-14\n ||| a\n3 May 2018 ||| 2018-05-03\n", encoding="utf-8")
    first, last = regard(command, str(run), *texts)[1].splitlines()
    code, output, errors = regard(command, str(run), "--source", str(file))
    assert (code, output.splitlines(), errors) == (0, [first, "", last], "")
    code, _, errors = regard(command, str(run), *texts[:2])
    assert (code, "a:1: expected one ||| between two texts; or set --target" in errors) == (2, True)
    for name in "ab":
        (tmp_path / name).write_text("0\t5 May\n1\t6 May\n")
    errors = regard(command, str(run), *texts)[2]
    assert f"{tmp_path / 'a'}:1: both sides begin with 0 and a tab, which is read as text" in errors


def test_a_pair_with_a_blank_side_has_a_blank_line(regard, run: Path, texts: list[str], tmp_path: Path):
    links, scores = (regard(command, str(run), *texts)[1].splitlines() for command in ("align", "score"))
    for name in "ab":
        file = tmp_path / name
        file.write_text(file.read_text(encoding="utf-8").replace("\n", "\n\n", 1), encoding="utf-8")
    for command, (first, last) in {"align": links, "score": scores}.items():
        code, output, errors = regard(command, str(run), *texts)
        assert (code, output.splitlines(), errors) == (0, [first, "", last], "")
    (tmp_path / "gold").write_text("0-0\n\n0-0\n", encoding="utf-8")
    assert regard("align", str(run), *texts, "--pick", str(tmp_path / "gold"))[0] == 0
