"""`regard show --top`, and tables in place of pictures, of runs of every kind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.cli.show import tabulate
from regard.errors import InputError
from regard.maps.heads import COLUMNS, GreatestWeights
from regard.maps.lookups import Lookups
from regard.maps.reductions import mean_entropies
from regard.pictures.write import write_table
from regard.tasks.options import AttributionOptions, FigureOptions
from tests.attribution.untrained import TEXT, filling, going_on, telling, writing
from tests.cli.show import PLAIN

OWN = AttributionOptions()


def tabled(run: Any, text: str, out: Path, top: int | None, figure: FigureOptions = PLAIN) -> list[dict[str, Any]]:
    assert tabulate(run, text, out, OWN, top, figure).endswith(f"The table is {out}.")
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize(
    ("make", "text"), [(writing, TEXT), (going_on, TEXT), (filling, TEXT), (telling, f"{TEXT}\tthe cat")]
)
def test_the_greatest_weights_of_each_kind_of_run(make, text: str, tmp_path: Path):
    run = make()
    whole = run.attribute(run.parse(text)).lookups[0]
    rows = tabled(run, text, tmp_path / "a.jsonl", 2)
    for (layer, head, query), weights in np.ndenumerate(np.sort(whole.weights, -1)[..., -1]):
        first = next(row for row in rows if [row["layer"], row["head"], row["query"]] == [layer, head, query])
        assert first["weight"] == pytest.approx(weights, rel=1e-5)
        assert first["key_token"] == whole.source[first["key"]]
        assert first["query_token"] == whole.target[query]
    assert len(rows) <= 2 * whole.weights[..., 0].size


def test_without_a_number_a_table_has_all_weights_or_entropies(tmp_path: Path):
    run = filling()
    whole = run.attribute(TEXT).lookups[0].weights
    rows = tabled(run, TEXT, tmp_path / "a.jsonl", None)
    np.testing.assert_allclose([row["weight"] for row in rows], whole.ravel(), rtol=1e-5)
    bits = tabled(run, TEXT, tmp_path / "b.jsonl", None, FigureOptions(view="entropy"))
    np.testing.assert_allclose([row["entropy"] for row in bits], mean_entropies(whole).ravel(), rtol=1e-5)


def test_signed_weights_are_ordered_by_magnitude_and_none_of_zero_is_a_row():
    weights = np.array([[[[0.5, -0.7, 0.0], [0.0, 0.0, 0.1]]]])
    found = GreatestWeights(Lookups(weights, ("a", "b", "c"), ("d", "e"), signed=True), 2)
    assert [row[2:6] for row in found.rows()] == [(0, "d", 1, "b"), (0, "d", 0, "a"), (1, "e", 2, "c")]
    assert [round(row[6], 6) for row in found.rows()] == [-0.7, 0.5, 0.1]


def test_a_table_has_a_line_for_each_row_whatever_its_tokens_are(tmp_path: Path):
    rows = [(0, "a\tb\\", 0.123456789), (1, "\n\udc80", 1e-9)]
    path = write_table(tmp_path / "a.tsv", ("key", "token", "weight"), rows)
    assert path.read_text().splitlines() == [
        "key\ttoken\tweight",
        r"0	a\tb\\	0.123457",
        r"1	\n\udc80	1e-09",
    ]
    path = write_table(tmp_path / "a.jsonl", ("key", "token", "weight"), rows)
    assert [[*json.loads(line).values()] for line in path.read_text().splitlines()][1] == [1, "\n\udc80", 1e-9]


def test_a_table_appears_whole_or_not_at_all(tmp_path: Path):
    def broken():
        yield (1,)
        raise InputError("no")

    for out, message in (
        (tmp_path / "a.tsv", "no"),
        (tmp_path / "a.csv", r"expected a name ending in \.tsv"),
        (tmp_path / "b" / "a.tsv", "no directory"),
    ):
        with pytest.raises(InputError, match=message):
            write_table(out, ("a",), broken())
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "x.png", "--top", "3"], "x.png: --top writes a table of weights. Name a .tsv or .jsonl file"),
        (["--out", "x.html", "--top", "3"], "x.html: --top writes a table"),
        (["--out", "x.tsv", "--top", "0"], 'Invalid value "0" for --top. Must be >= 1'),
        (["--out", "x.tsv", "--view", "heads"], "no options of pictures. It has --top, --map"),
        (["--top", "2", "--view", "entropy"], "no options of pictures"),
        (["--out", "x.jsonl", "--words"], "no options of pictures"),
        (
            ["--out", "x.tsv", "--kind", "norms", "--kind", "weights"],
            "a table has the weights of one text and one --kind",
        ),
        (["--out", "x.tsv", "--compare-text", "b"], "a table has the weights of one text"),
        (["--map", "3:3"], "3:3: there are the maps A to B-1 in A:B"),
        (["--map", "-1"], "-1: expected a number from 0"),
        (["--map", "1:x"], "1:x: expected"),
    ],
)
def test_what_is_no_table_is_one_line(regard, arguments: list[str], message: str):
    code, output, errors = regard("show", "nowhere", "text", *arguments)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert message in errors


def test_from_the_command_line(regard, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    name = f"{run.name}-attention.tsv"
    assert regard("show", str(run), "14 July 1989", "--top", "1") == (0, f"The table is {name}.\n", "")
    header, *rows = Path(name).read_text(encoding="utf-8").splitlines()
    assert header == "\t".join(COLUMNS)
    assert len(rows) > 1
