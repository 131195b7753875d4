"""`regard show --view`: each view of each kind of run, the places it is of, and what does not go together."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.cli.figure import Asking
from regard.cli.figure_options import USES, Viewing
from regard.cli.head_figures import draw
from regard.cli.options import Looking
from regard.errors import InputError
from regard.pictures.scale import round_up
from tests.attribution.untrained import TEXT, filling, going_on, seeing, telling, writing

PAIR = f"{TEXT}\tthe cat"
OUT = "a.svg"


def drawn(run, viewing: Viewing, out: Path, text: str = TEXT, **asked) -> tuple[str, list[Path]]:
    return draw(run, Asking(Path("run"), text, out, Looking(**asked)), viewing)


@pytest.mark.parametrize("view", USES)
@pytest.mark.parametrize(("make", "text"), [(writing, TEXT), (going_on, TEXT), (filling, TEXT), (telling, PAIR)])
def test_each_view_of_each_kind_of_run(make, text: str, view, tmp_path: Path):
    run, out = make(), tmp_path / OUT
    if (make, view) == (writing, "rollout"):
        with pytest.raises(InputError, match="--view rollout is of several layers that read themselves"):
            drawn(run, Viewing(view), out, text)
        return
    answer, paths = drawn(run, Viewing(view), out, text)
    looked = run.look(tuple(text.split("\t")) if make is telling else text)
    expected = f"{looked.found.label}\t{looked.found.probability:.4f}" if make is telling else looked.answer
    assert (answer, paths) == (expected, [out])
    found = out.read_text()
    assert "cat" in found or view == "entropy" or make is writing
    drawn(run, Viewing(view), out, text)
    assert out.read_text() == found


@pytest.mark.parametrize("view", ["heads", "rollout", "entropy"])
def test_views_of_images(view, tmp_path: Path):
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) * 15).save(tmp_path / "i.png")
    answer, paths = drawn(seeing(), Viewing(view), tmp_path / OUT, str(tmp_path / "i.png"))
    assert answer.split("\t")[0] in ("left", "right", "none")
    assert paths[0].stat().st_size > 1000
    for viewing, said in (
        (Viewing("lines"), "--view lines is of words, and an image has none; use heads, rollout, entropy"),
        (Viewing("heads", words=True), "--words is given; --view heads of an image takes none"),
        (Viewing("rollout", scale=0.5), "--scale is given; --view rollout of an image takes none"),
    ):
        with pytest.raises(InputError, match=said):
            drawn(seeing(), viewing, tmp_path / OUT, str(tmp_path / "i.png"))


WORDS = list(dict.fromkeys(TEXT.split()))


def shown(path: Path) -> list[str]:
    """Which of the words a picture holds as labels."""
    text = path.read_text()
    return [word for word in WORDS if f">{word}<" in text]


def test_words_and_places(tmp_path: Path):
    out = tmp_path / OUT
    drawn(filling(), Viewing(), out)
    assert shown(out) != WORDS
    drawn(filling(), Viewing(words=True), out)
    assert shown(out) == WORDS
    drawn(filling(), Viewing("matrix", words=True, source="2:4", target="6"), out)
    assert shown(out) == ["cat", "sat", "warm"]
    drawn(filling(), Viewing("reading", words=True, target="1:", source=":3"), out)
    assert shown(out) == ["the", "cat", "sat", "on", "warm", "mat"]


def test_pages(tmp_path: Path):
    _, paths = drawn(going_on(), Viewing(page=4), tmp_path / OUT)
    assert [path.name for path in paths] == ["a-1.svg", "a-2.svg", "a-3.svg", "a-4.svg"]
    assert shown(paths[0]) == ["the", "cat", "sat"]
    assert shown(paths[3]) == ["the", "on", "warm", "mat"]
    assert f"{TEXT}  (source 4:8, target 0:4)" in paths[1].read_text()
    _, paths = drawn(going_on(), Viewing("reading", page=3), tmp_path / "b.png")
    assert [path.name for path in paths] == ["b-1.png", "b-2.png", "b-3.png"]


def test_pages_share_their_scale(tmp_path: Path):
    _, paths = drawn(going_on(), Viewing("heads", page=4), tmp_path / OUT)
    most = round_up(going_on().look(TEXT).lookups.weights)
    assert [f">{most:g}<" in path.read_text() for path in paths] == [True] * 4


def test_chosen_heads_as_lines(tmp_path: Path):
    drawn(filling(), Viewing("lines"), tmp_path / OUT)
    text = (tmp_path / OUT).read_text()
    assert "layer 1, head 2" in text
    assert "layer 0, head 0" not in text
    drawn(filling(), Viewing("lines"), tmp_path / OUT, maps=[0, 5])
    text = (tmp_path / OUT).read_text()
    assert ("layer 0, head 0" in text, "layer 1, head 1" in text) == (True, False)


def test_a_page_shows_a_matrix_between_words(tmp_path: Path):
    drawn(filling(), Viewing(words=True), tmp_path / "a.html")
    assert ">warm<" in (tmp_path / "a.html").read_text()
    with pytest.raises(InputError, match=r"a \.html page shows a matrix of 0 to 1; write \.png or \.svg"):
        drawn(filling(), Viewing("lines"), tmp_path / "b.html")


@pytest.mark.parametrize(
    ("viewing", "asked", "said"),
    [
        (Viewing(source="3:3"), {}, "--source is '3:3'; the source has 9 places, from 0: give some of them"),
        (Viewing(source="9:12"), {}, "the source has 9 places"),
        (Viewing(target="-1"), {}, "--target is '-1'; expected A:B, A:, :B or A, numbers from 0"),
        (Viewing(target=""), {}, "expected A:B"),
        (Viewing("entropy"), {"maps": [1]}, "--map is given; this run is asked for the entropy of every head"),
        (Viewing("rollout"), {"maps": [1]}, "--map is given; a rollout is of all layers and heads"),
        (Viewing("lines"), {"maps": [6]}, "map 6 is not there; the model has 6, from 0 to 5"),
        (Viewing("lines"), {"beam": 2}, "--beam is given; this run tells tokens one by one"),
    ],
)
def test_what_cannot_be_drawn(viewing: Viewing, asked: dict, said: str, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        drawn(filling(), Viewing(**{**vars(viewing), "words": viewing.view is None}), tmp_path / OUT, **asked)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--view", "circle"], "--view"),
        (["--view", "matrix", "--threshold", "0.2"], "--threshold is given; --view matrix takes none, but lines"),
        (["--view", "entropy", "--words"], "--words is given; --view entropy takes none, but matrix, lines, heads"),
        (["--page", "0"], "--page is 0; expected at least 1"),
        (["--scale", "nan"], "--scale is nan; expected more than 0"),
        (["--view", "lines", "--threshold", "1.5"], "--threshold is 1.5; expected 0 to 1"),
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
    for module in ("figure", "head_figures"):
        monkeypatch.setattr(f"regard.cli.{module}.LABELS", 5)
    with pytest.raises(InputError, match="at most 5 a side are drawn: give --page, --words, --source or --target"):
        drawn(filling(), Viewing(), tmp_path / out, maps=[0])
    with pytest.raises(InputError, match=r"at most 0\.001 MB are written, unless largest \(--largest\) is set higher"):
        drawn(filling(), Viewing(), tmp_path / "a.html", largest=0.001)
    _, paths = drawn(filling(), Viewing(page=5), tmp_path / out, maps=[0])
    assert len(paths) > 1
