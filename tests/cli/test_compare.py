"""`regard show --compare RUN`, `--compare-text TEXT`: two answers side by side on one page."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.cli.comparison import compare
from regard.cli.figure import Asking
from regard.cli.options import Comparing, Looking
from regard.errors import InputError
from tests.attribution.untrained import TEXT, filling, going_on, writing
from tests.pictures.test_view import Reader

OTHER = "the warm cat"


def compared(runs: tuple[Any, Any], out: Path, comparing: Comparing, **asked: Any) -> tuple[str, dict[str, Any]]:
    answer = compare(runs, Asking(Path("runs/one"), TEXT, out, Looking(**asked)), comparing)
    return answer, json.loads(Reader(out.read_text()).scripts[0])


@pytest.mark.parametrize(
    ("comparing", "title", "names"),
    [
        (Comparing(text=OTHER), f"{TEXT} | {OTHER}", [TEXT, OTHER]),
        (Comparing(Path("runs/two")), TEXT, ["one", "two"]),
        (Comparing(Path("old/one")), TEXT, ["runs/one", "old/one"]),
        (Comparing(Path("runs/two"), OTHER), f"{TEXT} | {OTHER}", [f"one: {TEXT}", f"two: {OTHER}"]),
        (Comparing(Path("runs/one")), TEXT, ["one", "one"]),
    ],
)
def test_two_runs_or_two_texts(comparing: Comparing, title: str, names: list[str], tmp_path: Path):
    one, other = going_on(), filling()
    runs = (one, one) if comparing.run is None else (one, other)
    text = comparing.text or TEXT
    answer, page = compared(runs, tmp_path / "a.html", comparing)
    readings = [one.look(TEXT), runs[1].look(text)]
    assert answer == "\n".join(each.answer for each in readings)
    assert (page["title"], page["compare"]) == (title, 1)
    assert [each["name"] for each in page["lookups"]] == names
    assert [each["source"] for each in page["lookups"]] == [list(each.lookups.source) for each in readings]


def test_each_has_the_maps_that_are_asked_for(tmp_path: Path):
    run = writing()
    _, page = compared((run, run), tmp_path / "a.html", Comparing(text=OTHER), kinds=["gradient", "weights"])
    assert [[each["name"] for each in one["maps"]] for one in page["lookups"]] == [["weights", "gradient"]] * 2


def test_what_either_cannot_show_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="--role is given"):
        compared((writing(), filling()), tmp_path / "a.html", Comparing(Path("b")), role="encoder")
    with pytest.raises(InputError, match=r"about .* at most 0\.001 MB"):
        compared((writing(), filling()), tmp_path / "a.html", Comparing(Path("b")), largest=0.001)
    assert not (tmp_path / "a.html").exists()


def test_from_the_command_line(regard, run: Path, tmp_path: Path):
    show = ("show", str(run), "14 July 1989", "--compare-text", "15 July 1989", "--out")
    code, output, errors = regard(*show, f"{tmp_path}/a.html", "--compare", str(run))
    answers = [regard("predict", str(run), text)[1] for text in ("14 July 1989", "15 July 1989")]
    assert (code, errors, output) == (0, "", f"{''.join(answers)}The picture is {tmp_path}/a.html.\n")
    for more in ([f"{tmp_path}/a.png"], [f"{tmp_path}/b.html", "--words"], [f"{tmp_path}/b.html", "--map", "0"]):
        code, output, errors = regard(*show, *more)
        assert (code, output, len(errors.splitlines())) == (2, "", 1)
        assert "two predictions are compared on a page of everything: write a .html file, without --map" in errors
    code, _, errors = regard(*show, f"{tmp_path}/b.html", "--compare", f"{tmp_path}/none")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert f"{tmp_path}/none" in errors
