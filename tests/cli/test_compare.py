"""`regard show --compare RUN`, `--compare-text TEXT`: two predictions side by side on one page."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.errors import InputError
from regard.pictures.write import write_view
from regard.tasks.attribution import compare_attributions
from regard.tasks.options import FigureOptions
from tests.attribution.untrained import TEXT, filling, going_on, writing
from tests.pictures.test_view import Reader

OTHER = "the warm cat"


def compared(first: Any, second: Any, out: Path, **settings: Any) -> dict[str, Any]:
    """The page of two attributions."""
    found = first.attribute(TEXT, **settings), second.attribute(OTHER, **settings)
    write_view(compare_attributions(found, ("one", "two"), FigureOptions()), out)
    return json.loads(Reader(out.read_text()).scripts[0])


def test_two_runs_and_two_texts(tmp_path: Path):
    page = compared(going_on(), filling(), tmp_path / "a.html")
    assert (page["title"], page["compare"]) == (f"{TEXT} | {OTHER}", 1)
    assert [each["name"] for each in page["lookups"]] == ["one", "two"]


def test_each_has_the_maps_that_are_asked_for(tmp_path: Path):
    run = writing()
    page = compared(run, run, tmp_path / "a.html", kinds=["gradient", "weights"])
    assert [[each["name"] for each in one["maps"]] for one in page["lookups"]] == [["weights", "gradient"]] * 2


def test_what_either_cannot_show_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="the option role is not supported where a run of the task masked"):
        compared(writing(), filling(), tmp_path / "a.html", role="encoder")
    found = writing().attribute(TEXT), filling().attribute(TEXT)
    with pytest.raises(InputError, match=r"about .* at most 0\.001 MB"):
        write_view(compare_attributions(found, ("a", "b"), FigureOptions(largest=0.001)), tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()


def test_from_the_command_line(regard, run: Path, tmp_path: Path):
    show = ("show", str(run), "14 July 1989", "--compare-text", "15 July 1989", "--out")
    code, output, errors = regard(*show, f"{tmp_path}/a.html", "--compare", str(run))
    answers = [regard("predict", str(run), text)[1] for text in ("14 July 1989", "15 July 1989")]
    assert (code, errors, output) == (0, "", f"{''.join(answers)}The picture is {tmp_path}/a.html.\n")
    for more in ([f"{tmp_path}/a.png"], [f"{tmp_path}/b.html", "--words"], [f"{tmp_path}/b.html", "--map", "0"]):
        code, output, errors = regard(*show, *more)
        assert (code, output, len(errors.splitlines())) == (2, "", 1)
        assert "only an .html page of everything shows several kinds or a comparison" in errors
    code, _, errors = regard(*show, f"{tmp_path}/b.html", "--compare", f"{tmp_path}/none")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert f"{tmp_path}/none" in errors
