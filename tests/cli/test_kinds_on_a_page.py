"""`regard show --kind ... --kind ... --out x.html`: several kinds of maps on one page, of each kind of run."""

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image

from regard.attribution.kinds import Kind
from regard.cli.show import check_output
from regard.errors import InputError
from regard.maps.lookups import ATTENDS_TO, Lookups
from regard.pictures.text import show_invisible
from regard.tasks.options import AttributionOptions, FigureOptions
from tests.attribution.untrained import TEXT, filling, going_on, seeing, telling, writing
from tests.cli import show
from tests.pictures.test_view import Reader, numbers
from tests.tasks.test_kinds import classes, spans

KINDS: list[Kind] = list(get_args(Kind))
BLANK, PAIR = "the cat [MASK] on", f"{TEXT}\tthe cat"
RUNS: dict[str, tuple[Any, str, Any]] = {
    "translation": (writing, TEXT, TEXT),
    "language model": (going_on, TEXT, TEXT),
    "blanks": (filling, BLANK, BLANK),
    "classes": (telling, PAIR, tuple(PAIR.split("\t"))),
    "spans": (spans, json.dumps({"question": "the cat", "context": TEXT}), ("the cat", TEXT)),
}


def drawn(run: Any, text: str, out: Path, kinds: list[Kind], **asked: Any) -> tuple[str, dict[str, Any]]:
    """The answer, and the one lookups of the page."""
    answer, _ = show.drawn(run, text, out, kinds=kinds, **asked)
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
    _, page = drawn(run, text, tmp_path / "a.html", KINDS[::-1])
    maps = [each for each in page["maps"] if "of the class" not in each["name"]]
    assert [each["name"] for each in maps] == KINDS  # the weights first, however they are named
    for kind, packed in zip(KINDS, maps, strict=True):
        if (name, kind) == ("classes", "rollout"):  # what the class reads
            text = run.attribute(given).weights
            np.testing.assert_allclose(numbers(packed), text.weights, atol=1e-6)
            assert (packed["source"], packed["target"]) == (list(text.labels), ["the class"])
            continue
        same(packed, page, lookups_of(run, given, kind))
    assert [each.get("heads") for each in maps] == [None, 1, 3, 1]
    assert page.get("first") == ("weights of the class" if name == "classes" else None)


@pytest.mark.parametrize(
    ("name", "text"),
    [("han", "the cat sat. the mat."), ("rocktaschel", "the cat\tthe mat"), ("esim", "the cat\tthe mat")],
)
def test_runs_of_one_map(name: str, text: str, tmp_path: Path):
    run, given = classes(name), tuple(text.split("\t")) if "\t" in text else text
    _, page = drawn(run, text, tmp_path / "a.html", ["weights", "gradient", "norms"])
    for kind, packed in zip(("weights", "gradient", "norms"), page["maps"], strict=True):
        same(packed, page, lookups_of(run, given, kind))
    assert ("sentences" in page) == (name == "han")
    with pytest.raises(InputError, match="this run's model has no rollout; it has weights, gradient, norms"):
        drawn(run, text, tmp_path / "b.html", ["weights", "rollout"])


def test_images(tmp_path: Path):
    image = tmp_path / "i.png"
    Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) * 15).save(image)
    run = seeing()
    _, page = drawn(run, str(image), tmp_path / "a.html", ["rollout", "weights"])
    assert [each["name"] for each in page["maps"]] == ["weights", "rollout"]
    wanted = run.attribute(image, kinds=["rollout"]).weights.weights.ravel()
    np.testing.assert_allclose(numbers(page["maps"][1]), wanted, atol=1e-6)
    with pytest.raises(InputError, match="this run's model has no norms; it has weights, rollout"):
        run.attribute(image, kinds=["norms"])


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_each_side_of_a_transformer(role: Any, tmp_path: Path):
    run = writing()
    _, page = drawn(run, TEXT, tmp_path / "a.html", ["norms", "weights"], role=role)
    assert [each["name"] for each in page["maps"]] == ["weights", "norms"]
    for packed in page["maps"]:
        same(packed, page, run.attribute(TEXT, role=role, kinds=[packed["name"]]).lookups[0])


def test_the_title_names_one_kind_alone(tmp_path: Path):
    one: list[Kind] = ["norms"]
    for kinds, details in ((one, ["norms of weight × value"]), (2 * one, ["norms of weight × value"]), (KINDS, None)):
        _, page = drawn(going_on(), TEXT, tmp_path / "a.html", kinds)
        assert (page["title"], page["details"]) == (TEXT, details)


@pytest.mark.parametrize(
    ("out", "figure", "maps"),
    [("a.png", FigureOptions(), ()), ("a.html", FigureOptions(words=True), ()), ("a.html", FigureOptions(), (0,))],
)
def test_several_kinds_are_for_whole_pages(out: str, figure: FigureOptions, maps: tuple[int, ...]):
    check_output(Path(out), AttributionOptions(kinds=("norms",), maps=maps or None), figure)
    several = AttributionOptions(kinds=("norms", "weights"), maps=maps or None)
    with pytest.raises(InputError, match=r"only an \.html page of everything shows several kinds"):
        check_output(Path(out), several, figure)


def test_from_the_command_line(regard, run: Path, tmp_path: Path):
    show = ("show", str(run), "14 July 1989", "--kind", "gradient", "--kind", "weights", "--out")
    code, output, errors = regard(*show, f"{tmp_path}/a.html")
    assert (code, errors, output.splitlines()[-1]) == (0, "", f"The picture is {tmp_path}/a.html.")
    shown = json.loads(Reader((tmp_path / "a.html").read_text()).scripts[0])["lookups"]
    assert [each["name"] for each in shown[0]["maps"]] == ["weights", "gradient"]
    code, output, errors = regard(*show, f"{tmp_path}/a.svg")
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert "page of everything shows several kinds" in errors
    code, output, errors = regard(*show[:-1], "--kind", "map", "--out", f"{tmp_path}/a.html")
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
