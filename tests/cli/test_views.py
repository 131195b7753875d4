"""`regard show --view`: each view of each kind of run, its positions, and options that exclude each other."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import InputError
from regard.tasks.options import VIEW_OPTIONS, FigureOptions
from tests.attribution.untrained import TEXT, filling, going_on, seeing, telling, writing
from tests.cli.show import drawn

PAIR = f"{TEXT}\tthe cat"
OUT = "a.svg"


@pytest.mark.parametrize("view", VIEW_OPTIONS)
@pytest.mark.parametrize(("make", "text"), [(writing, TEXT), (going_on, TEXT), (filling, TEXT), (telling, PAIR)])
def test_each_view_of_each_kind_of_run(make, text: str, view, tmp_path: Path):
    run, out = make(), tmp_path / OUT
    if (make, view) == (writing, "rollout"):
        with pytest.raises(InputError, match="the view rollout needs several self-attention layers"):
            drawn(run, text, out, FigureOptions(view=view))
        return
    answer, paths = drawn(run, text, out, FigureOptions(view=view))
    expected = run.attribute(run.parse(text)).prediction.lines()[0]
    assert (answer, paths) == (expected, out)
    found = out.read_text()
    assert "cat" in found or view == "entropy" or make is writing
    drawn(run, text, out, FigureOptions(view=view))
    assert out.read_text() == found


def test_images_have_no_views(tmp_path: Path):
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) * 15).save(tmp_path / "i.png")
    answer, path = drawn(seeing(), str(tmp_path / "i.png"), tmp_path / OUT)
    assert answer.split("\t")[0] in ("left", "right", "none")
    assert path.stat().st_size > 1000
    with pytest.raises(InputError, match="the view lines draws layers of heads"):
        drawn(seeing(), str(tmp_path / "i.png"), tmp_path / OUT, FigureOptions(view="lines"))


WORDS = list(dict.fromkeys(TEXT.split()))


def shown(path: Path) -> list[str]:
    """Which of the words a picture holds as labels."""
    text = path.read_text()
    return [word for word in WORDS if f">{word}<" in text]


def test_words_and_places(tmp_path: Path):
    out = tmp_path / OUT
    drawn(filling(), TEXT, out, FigureOptions())
    assert shown(out) != WORDS
    drawn(filling(), TEXT, out, FigureOptions(words=True))
    assert shown(out) == WORDS
    drawn(filling(), TEXT, out, FigureOptions(view="matrix", words=True, source="2:4", target="6"))
    assert shown(out) == ["cat", "sat", "warm"]
    drawn(filling(), TEXT, out, FigureOptions(view="reading", words=True, target="1:", source=":3"))
    assert shown(out) == ["the", "cat", "sat", "on", "warm", "mat"]


def test_chosen_heads_as_lines(tmp_path: Path):
    drawn(filling(), TEXT, tmp_path / OUT, FigureOptions(view="lines"))
    text = (tmp_path / OUT).read_text()
    assert "layer 1, head 2" in text
    assert "layer 0, head 0" not in text
    drawn(filling(), TEXT, tmp_path / OUT, FigureOptions(view="lines"), maps=[0, 5])
    text = (tmp_path / OUT).read_text()
    assert ("layer 0, head 0" in text, "layer 1, head 1" in text) == (True, False)


def test_a_page_has_no_view(tmp_path: Path):
    for options in (FigureOptions(words=True), FigureOptions(view="lines")):
        with pytest.raises(InputError, match=r"an \.html page shows every map; remove the maps, the view"):
            drawn(filling(), TEXT, tmp_path / "b.html", options)


@pytest.mark.parametrize(
    ("figure", "asked", "said"),
    [
        (FigureOptions(source="3:3"), {}, "source is '3:3'; there are 9 positions, from 0"),
        (FigureOptions(source="9:12"), {}, "there are 9 positions"),
        (FigureOptions(target="-1"), {}, "target is '-1'; expected A:B, A:, :B or A, numbers from 0"),
        (FigureOptions(target=""), {}, "expected A:B"),
        (FigureOptions(view="entropy"), {"maps": [1]}, "the view entropy shows every head"),
        (FigureOptions(view="rollout"), {"maps": [1]}, "a rollout combines all layers and heads"),
        (FigureOptions(view="lines"), {"maps": [6]}, "map 6 is not there; the model has 6, from 0 to 5"),
        (FigureOptions(view="lines"), {"beam": 2}, "the option beam is not supported where"),
    ],
)
def test_what_cannot_be_drawn(figure: FigureOptions, asked: dict, said: str, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        drawn(filling(), TEXT, tmp_path / OUT, FigureOptions(**{**vars(figure), "words": figure.view is None}), **asked)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--view", "circle"], "--view"),
        (
            ["--view", "matrix", "--threshold", "0.2"],
            "the option threshold is not supported by the view matrix, but by lines",
        ),
        (
            ["--view", "entropy", "--words"],
            "the option words is not supported by the view entropy",
        ),
        (["--scale", "nan"], "Must be > 0"),
        (["--view", "lines", "--threshold", "1.5"], "Must be <= 1"),
    ],
)
def test_what_does_not_go_together_is_one_line(regard, arguments: list[str], said: str):
    code, output, errors = regard("show", "nowhere", "text", "--out", "x.png", *arguments)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert said in errors


def test_from_the_command_line(regard, run: Path, tmp_path: Path):
    out = f"{tmp_path}/a.png"
    code, output, errors = regard("show", str(run), "14 July 1989", "--out", out, "--view", "lines", "--width", "9")
    assert (code, errors) == (0, "")
    assert output.endswith(f"The picture is {out}.\n")


def test_what_is_too_large_is_refused_with_the_options_that_help(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("regard.pictures.views.LABELS", 5)
    with pytest.raises(InputError, match="at most 5 per side are drawn: give words, source or target"):
        drawn(filling(), TEXT, tmp_path / "a.svg", FigureOptions(), maps=[0])
    with pytest.raises(InputError, match=r"at most 0\.001 MB are written, unless largest \(--largest\) is set higher"):
        drawn(filling(), TEXT, tmp_path / "a.html", FigureOptions(largest=0.001))
