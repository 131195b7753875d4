"""`regard show --compare RUN`, `--compare-text TEXT`: two predictions side by side on one page."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.cli.show import name_differences, write_figures
from regard.errors import InputError
from regard.tasks.options import FigureOptions
from tests.attribution.untrained import TEXT, filling, going_on, writing
from tests.pictures.test_view import Reader

OTHER = "the warm cat"


def compared(runs: tuple[Any, Any], out: Path, other: tuple[Path | None, str | None], **settings: Any) -> tuple:
    """The predictions as they are printed, and the page."""
    first, second = (Path("runs/one"), TEXT), (other[0] or Path("runs/one"), other[1] or TEXT)
    found = [run.attribute(run.parse(text), **settings) for run, (_, text) in zip(runs, (first, second), strict=True)]
    write_figures(found, name_differences(first, second), out, FigureOptions())
    return found, json.loads(Reader(out.read_text()).scripts[0])


@pytest.mark.parametrize(
    ("other", "title", "names"),
    [
        ((None, OTHER), f"{TEXT} | {OTHER}", [TEXT, OTHER]),
        ((Path("runs/two"), None), TEXT, ["one", "two"]),
        ((Path("old/one"), None), TEXT, ["runs/one", "old/one"]),
        ((Path("runs/two"), OTHER), f"{TEXT} | {OTHER}", [f"one: {TEXT}", f"two: {OTHER}"]),
        ((Path("runs/one"), None), TEXT, ["one", "one"]),
    ],
)
def test_two_runs_or_two_texts(other: tuple[Path | None, str | None], title: str, names: list[str], tmp_path: Path):
    one, two = going_on(), filling()
    runs = (one, one) if other[0] is None else (one, two)
    found, page = compared(runs, tmp_path / "a.html", other)
    assert (page["title"], page["compare"]) == (title, 1)
    assert [each["name"] for each in page["lookups"]] == names
    assert [each["source"] for each in page["lookups"]] == [
        [label.replace("</s>", "∎").replace("<s>", "▷") for label in each.lookups[0].source] for each in found
    ]


def test_each_has_the_maps_that_are_asked_for(tmp_path: Path):
    run = writing()
    _, page = compared((run, run), tmp_path / "a.html", (None, OTHER), kinds=["gradient", "weights"])
    assert [[each["name"] for each in one["maps"]] for one in page["lookups"]] == [["weights", "gradient"]] * 2


def test_what_either_cannot_show_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="the option role is not supported where a run of the task masked"):
        compared((writing(), filling()), tmp_path / "a.html", (Path("b"), None), role="encoder")
    found = [run.attribute(TEXT) for run in (writing(), filling())]
    with pytest.raises(InputError, match=r"about .* at most 0\.001 MB"):
        write_figures(found, ("a", "b"), tmp_path / "a.html", FigureOptions(largest=0.001))
    assert not (tmp_path / "a.html").exists()


def test_from_the_command_line(regard, run: Path, tmp_path: Path):
    show = ("show", str(run), "14 July 1989", "--compare-text", "15 July 1989", "--out")
    code, output, errors = regard(*show, f"{tmp_path}/a.html", "--compare", str(run))
    answers = [regard("predict", str(run), text)[1] for text in ("14 July 1989", "15 July 1989")]
    assert (code, errors, output) == (0, "", f"{''.join(answers)}The picture is {tmp_path}/a.html.\n")
    for more in ([f"{tmp_path}/a.png"], [f"{tmp_path}/b.html", "--words"], [f"{tmp_path}/b.html", "--map", "0"]):
        code, output, errors = regard(*show, *more)
        assert (code, output, len(errors.splitlines())) == (2, "", 1)
        assert "a comparison needs a page of everything: write a .html file, without --map" in errors
    code, _, errors = regard(*show, f"{tmp_path}/b.html", "--compare", f"{tmp_path}/none")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert f"{tmp_path}/none" in errors
