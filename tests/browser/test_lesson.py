"""The lesson in a browser: its numbers against this library, its figures and tasks, and the page without JavaScript."""

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from regard.attention import Attend
from regard.attention.align import Hard, LocalMonotonic, LocalPredictive, Softmax
from regard.attention.masks import as_mask
from regard.attention.memory import Memory
from regard.attention.scores import Cosine, Dot, General, Location, Product, ScaledDot
from regard.lesson import EXAMPLES, build_page, check_run, find_texts, slice_score, write_output
from tests.browser.conftest import Visit

TEXTS = EXAMPLES["dates"]
STATES: dict[str, list[dict[str, Any]]] = {
    "bottleneck": [{"last": 1}, {"last": 7}],
    "mixture": [{"step": 2, "cut": [3, 17], "forced": None}, {"step": 1, "forced": "evenly"}],
    "scores": [{"name": name} for name in ("additive", "general", "dot", "scaled", "cosine", "location")],
    "local": [{"kind": kind, "window": 3, "sharpness": 2.5} for kind in ("soft", "hard", "monotonic", "predictive")],
    "masks": [{"mask": "strict"}, {"mask": "none"}],
    "padding": [{"count": 9, "masked": True}, {"masked": False}],
    "heads": [{"heads": count, "off": []} for count in (1, 4)] + [{"heads": 2, "off": [1]}],
    "order": [{"what": "states"}, {"what": "text"}],
    "positions": [{"encoding": name, "offset": 2} for name in ("none", "share", "number", "sinusoidal")],
}
"""What a reader sets in each figure."""
AS_LISTS = "(_, value) => ArrayBuffer.isView(value) ? Array.from(value) : value"


SMALL = {"name": "bahdanau", "embedding": 16, "width": 24, "attention": 16, "maxout": 8}
MODELS: dict[str, Any] = {
    "dates": {},
    "dates with PyTorch's unit": {"model": {**SMALL, "cell": "gru"}},
    "bitext": {"model": SMALL},  # words between blanks
}


def train(folder: Path, name: str = "dates", **training: Any) -> Any:
    data = {"train": 1000, "valid": 11, "test": 60} if "steps" in training else {}
    return regard.train(name.split()[0], folder / "run", data=data, training=training, **MODELS[name])


def train_little(folder: Path, name: str = "dates") -> Any:
    """A run that hardly trained, with weights so large that its outputs depend on what it reads."""
    run = train(folder, name, steps=30, warmup=0)
    for parameter in run.model.parameters():
        parameter.data *= 1.5
    check_run(run, "run")
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train_little(tmp_path_factory.mktemp("lesson"))


@pytest.fixture(scope="module")
def content(run: Any) -> str:
    return build_page(run, TEXTS, [pair.source for pair in run.config.data.tests()])


@pytest.fixture
def lesson(watched: Visit, tmp_path: Path, content: str) -> Callable[..., Any]:
    """Opens the lesson, which asks for nothing but itself."""

    def open_(text: str = content, before: str = "", **options: Any) -> Any:
        path = tmp_path / "lesson.html"
        path.write_text(text, encoding="utf-8")
        page = watched(lambda url: url.split("#")[0] == path.as_uri(), **options)
        page.add_init_script(before)
        page.goto(path.as_uri())
        return page

    return open_


def read(page: Any, expression: str) -> Any:
    return json.loads(page.evaluate(f"JSON.stringify({expression}, {AS_LISTS})"))


def tensor(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def read_tensors(page: Any) -> dict[str, Tensor]:
    data = read(page, "JSON.parse(document.getElementById('data').textContent)")
    numbers = np.frombuffer(base64.b64decode(data["weights"]), "<f4").astype(np.float64)
    places = data["tensors"].items()
    return {name: torch.tensor(numbers[at : at + m * n].reshape(m, n)) for name, (at, m, n) in places}


class Sharpened(Softmax):
    def __init__(self, sharpness: float):
        super().__init__()
        self.sharpness = sharpness

    def forward(self, inputs: Any) -> Any:
        return super().forward(inputs._replace(scores=inputs.scores * self.sharpness))


def repeat(lookup: dict[str, Any], trained: Any, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Weights and contexts of a lookup of the page, by this library."""
    queries, keys, values = (tensor(lookup[name])[None] for name in ("queries", "keys", "values"))
    width, name = queries.shape[-1], lookup["score"]
    score: Any = {"dot": Dot, "scaled": ScaledDot}[name]() if name in ("dot", "scaled") else trained
    if "heads" in lookup:
        score = slice_score(trained, lookup["head"], lookup["heads"])
    if name == "cosine":
        score = Cosine(float(lookup["sharpness"]))
    if name == "general":
        score = General(width, keys.shape[-1])
        score.weight.data = tensors["general"]
    if name == "location":
        score = Location(width, len(tensors["location"]))
        score.weight.data = tensors["location"].mT
    kind, align = lookup.get("align"), Softmax()
    if kind == "hard":
        align = Hard().eval()
    if kind == "monotonic":
        align = LocalMonotonic(lookup["window"])
    if kind == "predictive":
        align = LocalPredictive(width, trained.hidden_width, lookup["window"])
        align.hidden.weight.data, align.place.weight.data = trained.query_weight.mT, tensors["place"]
    if kind == "soft":
        align = Sharpened(lookup["sharpness"])
    attend = Attend(score, align)
    mask = lookup.get("mask")
    memory = attend.prepare(Memory(keys, values, None if mask is None else as_mask(torch.tensor(mask)[None])))
    found = attend.read(queries, memory, weights=True)
    assert isinstance(score, Product) or name in ("additive", "location")
    assert found.weights is not None
    return found.weights[0], found.context[0]


@pytest.mark.parametrize("name", MODELS)
def test_every_number_is_this_librarys(lesson: Callable[..., Any], run: Any, name: str, tmp_path: Path):
    """Log-probabilities of the model, then weights and contexts of each figure as a reader sets it."""
    texts, page = TEXTS, None
    if name != "dates":
        run = train_little(tmp_path, name)
        texts, more = find_texts(run)
        page = lesson(build_page(run, texts, more))
    with torch.no_grad():
        answers = compare(page or lesson(), run, texts)
    assert len(answers) > {"dates": 12}.get(name, 7)


def compare(page: Any, run: Any, texts: Sequence[str]) -> set[str]:
    """Compare all numbers of a page, and return what its figures say."""
    model, sides = run.model, run.tokenizers
    for text in texts:
        steps = read(page, f"readText(lessonPage.lesson.model, {json.dumps(text)}).full.steps")
        ids, tokens = [*sides.source_ids(text), 3], [step["token"] for step in steps]
        target = torch.tensor([[model.decoder.special.start, *tokens[:-1]]])
        expected = model(torch.tensor([ids]), torch.tensor([len(ids)]), target)[0].log_softmax(-1)
        assert (tensor([step["logProbabilities"] for step in steps]) - expected).abs().max() < 1e-6
        assert write_output(run, text).text == run.predict([text])[0].text == sides.target.decode(tokens)
    tensors, answers = read_tensors(page), set()
    for name, states in STATES.items():
        for state in states:
            even = "lessonPage.lesson.source.map((_, i, all) => 1 / all.length)"
            given = json.dumps(state).replace('"evenly"', even)
            page.evaluate(f"lessonPage.figures.{name}.set({given})")
            result = read(page, f"lessonPage.figures.{name}.result")
            assert result["lookups"]
            for lookup in result["lookups"]:
                weights, contexts = repeat(lookup, model.decoder.attend.score, tensors)
                assert (weights - tensor(lookup["weights"])).abs().max() < 1e-6, (name, state)
                assert (contexts - tensor(lookup["contexts"])).abs().max() < 1e-6, (name, state)
            answers.add(page.locator(f"[data-figure={name}] .answer").inner_text())
    for name, state in (("padding", "{count: 9, masked: true}"), ("order", "{what: 'states'}")):  # laws
        assert read(page, f"chapters.{name}.compute(lessonPage.lesson, {state}).answer === lessonPage.lesson.answer")
    return answers


def press_to(page: Any, selector: str) -> Any:
    """Reach a control by the tabulator alone."""
    for _ in range(250):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return page.locator(selector)
    raise AssertionError(selector)


def test_by_keyboard_alone(lesson: Callable[..., Any]):
    page = lesson(viewport={"width": 400, "height": 800}, color_scheme="dark")
    field = press_to(page, "#text")
    page.keyboard.press("Control+a")
    page.keyboard.type("May 9, 2018 ☃")
    page.locator("#note", has_text="never saw ☃").wait_for()
    assert read(page, "lessonPage.lesson.text") == field.input_value() == "May 9, 2018 ☃"
    press_to(page, "[data-figure=bottleneck] input")
    page.keyboard.press("ArrowRight")
    assert read(page, "lessonPage.figures.bottleneck.state") == {"last": 2}
    press_to(page, "[data-figure=mixture] .weights li:nth-child(3) input[type=range]")
    page.keyboard.press("End")
    forced = read(page, "lessonPage.figures.mixture.state.forced")
    assert forced[2] == 1
    assert sum(forced) == pytest.approx(1)
    press_to(page, "[data-figure=scores] input:checked")
    for _ in range(2):  # the choice keeps the focus although the figure is drawn again
        page.keyboard.press("ArrowRight")
    assert read(page, "lessonPage.figures.scores.state.name") == "cosine"
    press_to(page, "[data-bug=swapped] input")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    assert page.locator("[data-bug=swapped] .verdict").inner_text().startswith("Wrong.")
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_nothing_to_read(lesson: Callable[..., Any]):
    page = lesson()
    page.locator("#text").fill("")
    page.locator("#note", has_text="Type a text.").wait_for()
    page.locator("#text").fill("x" * 60)
    page.locator("#note", has_text="Type a text.").wait_for(state="detached")
    assert read(page, "lessonPage.lesson.letters.length") == 60


@pytest.mark.parametrize("way", ["no JavaScript", "an old browser"])
def test_the_page_that_does_not_move(lesson: Callable[..., Any], way: str):
    """The text, a picture in each chapter and the code of the tasks remain."""
    if way == "no JavaScript":
        page = lesson(java_script_enabled=False)
        assert "runs no JavaScript" in page.locator("noscript").inner_text()
    else:
        page = lesson(before="delete Array.prototype.toReversed")
        assert page.locator("#old").is_visible()
    assert page.locator("#bar").is_hidden()
    for chapter in page.locator("main > section").all():
        assert chapter.locator("svg rect").count() > 20
        assert "Task" in chapter.inner_text()
    assert "allowed = [[j <= t for j in steps] for t in steps]" in page.locator("main").inner_text()


def solve(page: Any, name: str, answer: Any) -> str:
    """Answer a question or choose a line, and return the verdict."""
    task = page.locator(f"[data-question={name}], [data-bug={name}]")
    if task.locator("input[type=number]").count():
        task.locator("input[type=number]").fill(str(answer))
    elif answer is not None:
        task.locator(f'input[value="{answer}"]').check()
    task.locator("form button").click()
    return task.locator(".verdict").inner_text().split(".")[0]


BUGS = {"swapped": 3, "scale": 3, "axis": 3, "leak": 4, "padding": 3, "shifted": 2}


@pytest.mark.slow
def test_the_twelve_tasks_solved_and_not(lesson: Callable[..., Any], tmp_path: Path):
    run = train(tmp_path)
    page = lesson(build_page(run, TEXTS, [pair.source for pair in run.config.data.tests()]))
    assert (tmp_path / "lesson.html").stat().st_size < 2e6
    assert page.locator("#note").inner_text() == "2018-05-09"
    least, window = read(page, "['bottleneck', 'local'].map((name) => chapters[name].smallest(lessonPage.lesson))")
    heads = read(page, "questions.heads.options.find((option) => questions.heads.check(lessonPage.lesson, option)[0])")
    wrong = {"bottleneck": 1, "mixture": None, "scores": 0.5, "local": window + 1, "heads": "neither", "order": "both"}
    right = {"bottleneck": least, "scores": 0.88, "local": window, "heads": heads, "order": "shuffling the states"}
    assert least > 4
    assert heads != "neither"
    for name in (*wrong, *BUGS):
        assert solve(page, name, wrong.get(name, 1)) == "Wrong", name
    for name in BUGS:
        assert page.locator(f"[data-bug={name}] .answer.changed").count() == 1
    assert page.locator("#solved").inner_text() == "0 of 12 tasks solved"
    forced = "lessonPage.lesson.source.map((_, i) => Number(i === 18))"
    page.evaluate(f"lessonPage.figures.mixture.set({{step: 0, forced: {forced}}})")
    for name, answer in {**right, "mixture": None, **BUGS}.items():
        assert solve(page, name, answer) == "Right", name
    for name in BUGS:
        assert page.locator(f"[data-bug={name}] .answer.same").count() == 1
        assert page.locator(f"[data-bug={name}] .mended").count() >= 1
    assert page.locator("#solved").inner_text() == "12 of 12 tasks solved"
    good = "Object.values(bugs).map(({run}) => [false, true].map((isFixed) => run(lessonPage.lesson, isFixed).good))"
    assert read(page, good) == [[False, True]] * 6
