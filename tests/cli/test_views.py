"""`regard show --view`: each view of each kind of run, its positions, and options that exclude each other."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.errors import InputError
from regard.pictures.style import round_up
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
    assert (answer, paths) == (expected, [out])
    found = out.read_text()
    assert "cat" in found or view == "entropy" or make is writing
    drawn(run, text, out, FigureOptions(view=view))
    assert out.read_text() == found


@pytest.mark.parametrize("view", ["heads", "rollout", "entropy"])
def test_views_of_images(view, tmp_path: Path):
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) * 15).save(tmp_path / "i.png")
    answer, paths = drawn(seeing(), str(tmp_path / "i.png"), tmp_path / OUT, FigureOptions(view=view))
    assert answer.split("\t")[0] in ("left", "right", "none")
    assert paths[0].stat().st_size > 1000
    for figure, said in (
        (
            FigureOptions(view="lines"),
            "or choose heads, rollout, entropy",
        ),
        (FigureOptions(view="heads", words=True), "the option words is not supported by this run's view heads"),
        (FigureOptions(view="rollout", scale=0.5), "the option scale is not supported by this run's view rollout"),
    ):
        with pytest.raises(InputError, match=said):
            drawn(seeing(), str(tmp_path / "i.png"), tmp_path / OUT, figure)


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


def test_pages(tmp_path: Path):
    _, paths = drawn(going_on(), TEXT, tmp_path / OUT, FigureOptions(page=4))
    assert [path.name for path in paths] == ["a-1.svg", "a-2.svg", "a-3.svg", "a-4.svg"]
    assert shown(paths[0]) == ["the", "cat", "sat"]
    assert shown(paths[3]) == ["the", "on", "warm", "mat"]
    assert f">{TEXT}<" in paths[1].read_text()
    assert ", source 4:8, target 0:4<" in paths[1].read_text()
    _, paths = drawn(going_on(), TEXT, tmp_path / "b.png", FigureOptions(view="reading", page=3))
    assert [path.name for path in paths] == ["b-1.png", "b-2.png", "b-3.png"]


def test_pages_share_their_scale(tmp_path: Path):
    _, paths = drawn(going_on(), TEXT, tmp_path / OUT, FigureOptions(view="heads", page=4))
    most = round_up(going_on().attribute(TEXT).lookups[0].weights)
    assert [f">{most:g}<" in path.read_text() for path in paths] == [True] * 4


def test_chosen_heads_as_lines(tmp_path: Path):
    drawn(filling(), TEXT, tmp_path / OUT, FigureOptions(view="lines"))
    text = (tmp_path / OUT).read_text()
    assert "layer 1, head 2" in text
    assert "layer 0, head 0" not in text
    drawn(filling(), TEXT, tmp_path / OUT, FigureOptions(view="lines"), maps=[0, 5])
    text = (tmp_path / OUT).read_text()
    assert ("layer 0, head 0" in text, "layer 1, head 1" in text) == (True, False)


def test_a_page_shows_a_matrix_between_words(tmp_path: Path):
    drawn(filling(), TEXT, tmp_path / "a.html", FigureOptions(words=True))
    assert ">warm<" in (tmp_path / "a.html").read_text()
    with pytest.raises(InputError, match=r"a \.html page shows a matrix of 0 to 1; write \.png, \.svg or \.pdf"):
        drawn(filling(), TEXT, tmp_path / "b.html", FigureOptions(view="lines"))


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
        (["--page", "0"], "page is 0; expected at least 1"),
        (["--scale", "nan"], "scale is nan; expected above 0"),
        (["--view", "lines", "--threshold", "1.5"], "threshold is 1.5; expected"),
    ],
)
def test_what_does_not_go_together_is_one_line(regard, arguments: list[str], said: str):
    code, output, errors = regard("show", "nowhere", "text", "--out", "x.png", *arguments)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert said in errors


def test_from_the_command_line(regard, run: Path, tmp_path: Path):
    code, output, errors = regard(
        "show", str(run), "14 July 1989", "--out", f"{tmp_path}/a.png", "--view", "lines", "--page", "7", "--width", "9"
    )
    assert (code, errors) == (0, "")
    assert output.endswith(
        f"The pictures are {tmp_path}/a-1.png to {tmp_path}/a-{len(list(tmp_path.iterdir()))}.png.\n"
    )


@pytest.mark.parametrize("out", ["a.svg", "a.html"])
def test_what_is_too_large_is_refused_with_the_options_that_help(out: str, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("regard.pictures.views.LABELS", 5)
    with pytest.raises(InputError, match="at most 5 per side are drawn: give page, words, source or target"):
        drawn(filling(), TEXT, tmp_path / out, FigureOptions(), maps=[0])
    with pytest.raises(InputError, match=r"at most 0\.001 MB are written, unless largest \(--largest\) is set higher"):
        drawn(filling(), TEXT, tmp_path / "a.html", FigureOptions(largest=0.001))
    _, paths = drawn(filling(), TEXT, tmp_path / out, FigureOptions(page=5), maps=[0])
    assert len(paths) > 1
