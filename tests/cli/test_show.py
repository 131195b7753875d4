"""`regard show`: views, tables, comparisons and several kinds of maps, of every kind of run."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image

from regard.attribution.kinds import GRADIENTS, Kind
from regard.errors import InputError
from regard.maps.heads import COLUMNS, GreatestWeights
from regard.maps.lookups import ATTENDS_TO, Lookups
from regard.pictures.text import show_invisible
from regard.pictures.write import write_table, write_view
from regard.tasks.attribution import compare_attributions
from regard.tasks.options import VIEW_OPTIONS, FigureOptions
from tests.attribution.untrained import TEXT, filling, going_on, seeing, telling, writing
from tests.cli.show import drawn
from tests.pictures.test_view import Reader, numbers
from tests.tasks.test_kinds import classes, spans

OUT = "a.svg"
PAIR = f"{TEXT}\tthe cat"


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What integrated gradients add up to is tested with all of their steps in `attribution/test_kinds`."""
    monkeypatch.setitem(GRADIENTS, "integrated", 3)


@pytest.mark.parametrize("view", VIEW_OPTIONS)
@pytest.mark.parametrize(("make", "text"), [(writing, TEXT), (going_on, TEXT), (filling, TEXT), (telling, PAIR)])
def test_each_view_of_each_kind_of_run(make, text: str, view, tmp_path: Path):
    run, out = make(), tmp_path / OUT
    refused = {"similarity": "is of two texts", "contrast": "is of maps over an image"} | (
        {"rollout": "needs several self-attention layers"} if make is writing else {}
    )
    if view in refused:
        with pytest.raises(InputError, match=f"the view {view} {refused[view]}"):
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
    _, contrast = drawn(seeing(), str(tmp_path / "i.png"), tmp_path / "b.svg", FigureOptions(view="contrast"))
    assert "the least weight of an image" in contrast.read_text()
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


def test_a_page_has_some_views_and_none_of_their_options(tmp_path: Path):
    for options in (FigureOptions(words=True), FigureOptions(view="entropy")):
        with pytest.raises(InputError, match=r"an \.html page shows every map in the views matrix, lines"):
            drawn(filling(), TEXT, tmp_path / "b.html", options)
    drawn(filling(), TEXT, tmp_path / "b.html", FigureOptions(view="lines"))
    assert json.loads(Reader((tmp_path / "b.html").read_text()).scripts[0])["view"] == "lines"


@pytest.mark.parametrize(
    ("figure", "asked", "said"),
    [
        (FigureOptions(source="3:3"), {}, "source is '3:3'; there are 9 positions, from 0"),
        (FigureOptions(target="-1"), {}, "target is '-1'; expected A:B or A, numbers from 0"),
        (FigureOptions(view="entropy"), {"maps": [1]}, "the view entropy shows every head"),
        (FigureOptions(view="lines"), {"beam": 2}, "the option beam is not supported by"),
    ],
)
def test_what_cannot_be_drawn(figure: FigureOptions, asked: dict, said: str, tmp_path: Path):
    with pytest.raises(InputError, match=said):
        drawn(filling(), TEXT, tmp_path / OUT, FigureOptions(**{**vars(figure), "words": figure.view is None}), **asked)
    assert not list(tmp_path.iterdir())


def test_what_is_too_large_is_refused_with_the_options_that_help(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(import_module("regard.pictures.heatmap"), "LABELS", 5)
    with pytest.raises(InputError, match="at most 5 per side are drawn: give words, source or target"):
        drawn(filling(), TEXT, tmp_path / "a.svg", FigureOptions(), maps=[0])
    with pytest.raises(InputError, match=r"at most 0\.001 MB are written, unless largest \(--largest\) is set higher"):
        drawn(filling(), TEXT, tmp_path / "a.html", FigureOptions(largest=0.001))


@pytest.fixture
def tabled(regard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The rows of the table that a command writes of a run in memory."""

    def write(run: Any, text: str, *options: str) -> list[dict[str, Any]]:
        monkeypatch.setattr("regard.hub.open_run.open_run", lambda path, **options: run)
        out = tmp_path / "a.jsonl"
        code, output, _ = regard("show", "run", text, "--out", str(out), *options)
        assert (code, output.splitlines()[-1]) == (0, f"The table is {out}.")
        return [json.loads(line) for line in out.read_text().splitlines()]

    return write


@pytest.mark.parametrize(
    ("make", "text"), [(writing, TEXT), (going_on, TEXT), (filling, TEXT), (telling, f"{TEXT}\tthe cat")]
)
def test_the_greatest_weights_of_each_kind_of_run(make, text: str, tabled):
    run = make()
    whole = run.attribute(run.parse(text)).lookups[0]
    rows = tabled(run, text, "--top", "2")
    for (layer, head, query), weights in np.ndenumerate(np.sort(whole.weights, -1)[..., -1]):
        first = next(row for row in rows if [row["layer"], row["head"], row["query"]] == [layer, head, query])
        assert first["weight"] == pytest.approx(weights, rel=1e-5)
        assert first["key_token"] == whole.source[first["key"]]
        assert first["query_token"] == whole.target[query]
    assert len(rows) <= 2 * whole.weights[..., 0].size


def test_without_a_number_a_table_has_all_weights(tabled):
    run = filling()
    whole = run.attribute(TEXT).lookups[0].weights
    rows = tabled(run, TEXT)
    np.testing.assert_allclose([row["weight"] for row in rows], whole.ravel(), rtol=1e-5)


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
        (["--out", "x.tsv", "--top", "0"], 'Invalid value "0" for --top. Must be >= 1'),
        (["--out", "x.tsv", "--view", "heads"], "no options of pictures. It has --top, --map"),
        (
            ["--out", "x.tsv", "--kind", "norms", "--kind", "weights"],
            "a table holds the weights of one text and one --kind",
        ),
        (["--map", "-1"], 'Invalid value "(-1,)" for --map. Must be >= 0'),
        (["--out", "x.png", "--view", "circle"], "--view"),
        (
            ["--out", "x.png", "--view", "matrix", "--threshold", "0.2"],
            "the option threshold is not supported by the view matrix, but by lines",
        ),
        (["--out", "x.png", "--view", "entropy", "--words"], "option words is not supported by the view entropy"),
        (["--out", "x.png", "--scale", "nan"], "scale is nan; expected above 0"),
    ],
)
def test_what_is_no_picture_and_no_table_is_one_line(regard, arguments: list[str], message: str):
    code, output, errors = regard("show", "nowhere", "text", *arguments)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert message in errors


def test_a_table_from_the_command_line(regard, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    name = f"{run.name}-attention.tsv"
    assert regard("show", str(run), "14 July 1989", "--top", "1") == (0, f"The table is {name}.\n", "")
    header, *rows = Path(name).read_text(encoding="utf-8").splitlines()
    assert header == "\t".join(COLUMNS)
    assert len(rows) > 1


COMPARED_TEXT = "the warm cat"
KINDS_ASKED = ("--kind", "norms", "--kind", "weights")


def compared(first: Any, second: Any, out: Path, **settings: Any) -> dict[str, Any]:
    """The page of two attributions."""
    found = first.attribute(TEXT, **settings), second.attribute(COMPARED_TEXT, **settings)
    write_view(compare_attributions(found, ("one", "two"), FigureOptions()), out)
    return json.loads(Reader(out.read_text()).scripts[0])


def test_two_runs_and_two_texts(tmp_path: Path):
    page = compared(going_on(), filling(), tmp_path / "a.html")
    assert (page["title"], page["compare"]) == (f"{TEXT} | {COMPARED_TEXT}", 1)
    assert [each["name"] for each in page["lookups"]] == ["one", "two"]


def test_each_has_the_maps_that_are_asked_for(tmp_path: Path):
    run = writing()
    page = compared(run, run, tmp_path / "a.html", kinds=["gradient", "weights"])
    assert [[each["name"] for each in one["maps"]] for one in page["lookups"]] == [["weights", "gradient"]] * 2


def test_what_either_cannot_show_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="the option role is not supported by attribute for a run of the task masked"):
        compared(writing(), filling(), tmp_path / "a.html", role="encoder")
    found = writing().attribute(TEXT), filling().attribute(TEXT)
    with pytest.raises(InputError, match=r"about .* at most 0\.001 MB"):
        write_view(compare_attributions(found, ("a", "b"), FigureOptions(largest=0.001)), tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()


def test_a_comparison_from_the_command_line(regard, run: Path, tmp_path: Path):
    show = ("show", str(run), "14 July 1989", "--compare-text", "15 July 1989", "--out")
    code, output, errors = regard(*show, f"{tmp_path}/a.html", "--compare", str(run))
    answers = [regard("predict", str(run), text)[1] for text in ("14 July 1989", "15 July 1989")]
    assert (code, errors, output) == (0, "", f"{''.join(answers)}The page is {tmp_path}/a.html.\n")
    for more in (
        [f"{tmp_path}/a.png"],
        [f"{tmp_path}/b.html", "--words"],
        [f"{tmp_path}/b.html", "--map", "0", *KINDS_ASKED],
    ):
        code, output, errors = regard(*show, *more)
        assert (code, output, len(errors.splitlines())) == (2, "", 1)
        assert "only an .html page of everything shows several kinds or a comparison" in errors
    code, _, errors = regard(*show, f"{tmp_path}/b.html", "--compare", f"{tmp_path}/none")
    assert (code, len(errors.splitlines())) == (2, 1)
    assert f"{tmp_path}/none" in errors


KINDS: list[Kind] = list(get_args(Kind))
BLANK = "the cat [MASK] on"
RUNS: dict[str, tuple[Any, str, Any]] = {
    "translation": (writing, TEXT, TEXT),
    "language model": (going_on, TEXT, TEXT),
    "blanks": (filling, BLANK, BLANK),
    "classes": (telling, PAIR, tuple(PAIR.split("\t"))),
    "spans": (spans, json.dumps({"question": "the cat", "context": TEXT}), ("the cat", TEXT)),
}


def page_of(run: Any, text: str, out: Path, kinds: list[Kind], **asked: Any) -> tuple[str, dict[str, Any]]:
    """The answer, and the one lookups of the page."""
    answer, _ = drawn(run, text, out, kinds=kinds, **asked)
    shown = json.loads(Reader(out.read_text()).scripts[0])
    (one,) = shown["lookups"]
    return answer, one | {"title": shown["title"], "details": shown.get("details")}


def lookups_of(run: Any, example: Any, kind: Kind) -> Lookups:
    return run.attribute(example, kinds=[kind]).lookups[0]


def same(packed: dict[str, Any], page: dict[str, Any], wanted: Lookups) -> None:
    """Whether a map of a page is that of lookups, with its labels."""
    np.testing.assert_allclose(numbers(packed), wanted.weights.ravel(), atol=1e-6)
    sides = {side: packed.get(side, page[side]) for side in ("source", "target")}
    assert sides == {"source": [*map(show_invisible, wanted.source)], "target": [*map(show_invisible, wanted.target)]}
    assert packed.get("layers", page["layers"]) == list(wanted.layers)
    assert packed.get("heads", page["heads"]) == wanted.weights.shape[1]
    assert (packed.get("amounts", False), tuple(packed.get("verbs", ATTENDS_TO))) == (wanted.amounts, wanted.verbs)


@pytest.mark.parametrize("name", RUNS)
def test_a_page_has_the_maps_of_each_kind(name: str, tmp_path: Path):
    make, text, given = RUNS[name]
    run = make()
    _, page = page_of(run, text, tmp_path / "a.html", KINDS[::-1])
    maps = [each for each in page["maps"] if "of the class" not in each["name"]]
    assert [each["name"] for each in maps] == KINDS  # the weights first, however they are named
    for kind, packed in zip(KINDS, maps, strict=True):
        if (name, kind) == ("classes", "rollout"):  # what the class reads
            text = run.attribute(given).weights
            np.testing.assert_allclose(numbers(packed), text.weights, atol=1e-6)
            assert (packed["source"], packed["target"]) == (list(text.labels), ["the class"])
            continue
        same(packed, page, lookups_of(run, given, kind))
    assert [each.get("heads") for each in maps] == [None, 1, 1, 3, 1, 1]
    assert page.get("first") == ("weights of the class" if name == "classes" else None)


@pytest.mark.parametrize(
    ("name", "text"),
    [("han", "the cat sat. the mat."), ("rocktaschel", "the cat\tthe mat"), ("esim", "the cat\tthe mat")],
)
def test_runs_of_one_map(name: str, text: str, tmp_path: Path):
    run, given = classes(name), tuple(text.split("\t")) if "\t" in text else text
    _, page = page_of(run, text, tmp_path / "a.html", ["weights", "gradient", "norms"])
    for kind, packed in zip(("weights", "gradient", "norms"), page["maps"], strict=True):
        same(packed, page, lookups_of(run, given, kind))
    assert ("sentences" in page) == (name == "han")
    with pytest.raises(InputError, match="has no rollout; it has weights, gradient, integrated, norms"):
        page_of(run, text, tmp_path / "b.html", ["weights", "rollout"])


def test_images(tmp_path: Path):
    image = tmp_path / "i.png"
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) * 15).save(image)
    run = seeing()
    _, page = page_of(run, str(image), tmp_path / "a.html", ["rollout", "weights"])
    assert [each["name"] for each in page["maps"]] == ["weights", "rollout"]
    wanted = run.attribute(image, kinds=["rollout"]).weights.ravel()
    np.testing.assert_allclose(numbers(page["maps"][1]), wanted, atol=1e-6)
    with pytest.raises(InputError, match="this run's model has no norms; it has weights, rollout"):
        run.attribute(image, kinds=["norms"])


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_each_side_of_a_transformer(role: Any, tmp_path: Path):
    run = writing()
    _, page = page_of(run, TEXT, tmp_path / "a.html", ["norms", "weights"], role=role)
    assert [each["name"] for each in page["maps"]] == ["weights", "norms"]
    for packed in page["maps"]:
        same(packed, page, run.attribute(TEXT, role=role, kinds=[packed["name"]]).lookups[0])


def test_the_title_names_one_kind_alone(tmp_path: Path):
    one: list[Kind] = ["norms"]
    for kinds, details in ((one, ["norms of weight × value"]), (2 * one, ["norms of weight × value"]), (KINDS, None)):
        _, page = page_of(going_on(), TEXT, tmp_path / "a.html", kinds)
        assert (page["title"], page["details"]) == (TEXT, [*(details or []), "Output: <pad>"])
