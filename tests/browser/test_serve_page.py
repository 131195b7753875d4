"""The served page in a real browser: streaming, pointing and changing words, by mouse and by keyboard only."""

import json
import math
import re
import threading
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest
from PIL import Image

from regard.attribution.effects import MapCut
from regard.audio import Sound, encode_audio
from regard.serve.worker import IsActive, ResponsePart, ServedRun
from regard.tasks.options import AttributionOptions
from tests.browser.conftest import PATIENCE, Visit
from tests.browser.view import cell
from tests.serve import toys
from tests.serve.serving import serving
from tests.serve.test_runs import of
from tests.tasks.test_kinds import classes
from tests.tasks.test_speech import untrained

QUESTION = {"Question": "ein Haus", "Context": "das Haus ist alt"}
SOURCE = "das Haus ist alt"


def tokens(page: Any) -> list[str]:
    return page.locator("#tokens button").all_inner_texts()


def finished(page: Any, text: Any = "log-probability") -> None:
    page.locator("#status", has_text=text).wait_for()


def submit(page: Any, text: str = SOURCE) -> None:
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Predict", exact=True).click()


def held(one: ServedRun, gate: threading.Semaphore) -> ServedRun:
    """Tells a token of a stream whenever the gate is opened once more."""
    stream = one.operations["stream"]

    def answer(requests: Sequence[Any], active: IsActive) -> Iterator[ResponsePart]:
        for part in stream.respond(requests, active):
            if part.data["event"] == "token":
                assert gate.acquire(timeout=PATIENCE / 1000)
            yield part

    return replace(one, operations={**one.operations, "stream": replace(stream, respond=answer)})


def test_spans_are_marked_in_the_text(visit: Visit):
    run, text = toys.tagger(), f"{SOURCE} \U0001f600 ist das"
    (expected,) = run.predict([text])
    assert expected.spans
    with serving(of(run)) as address:
        page = visit(address)
        submit(page, text)
        finished(page, "Done")
        marks = [f"{each.text} {each.label}" for each in expected.spans]
        assert page.locator("#plain mark").all_inner_texts() == marks
        assert page.locator("#plain").inner_text() == expected.text.replace("[", "").replace("]", "")


def test_a_translation_streams_with_its_attention(visit: Visit):
    gate, run = threading.Semaphore(0), toys.translator("transformer")
    (expected,) = run.predict([SOURCE], beam=1)
    with serving(held(of(run), gate)) as address:
        page = visit(address)
        submit(page)
        for count in (1, 2, 3):
            gate.release()
            page.locator(f"#tokens button:nth-child({count})").wait_for()
            assert tokens(page) == list(expected.tokens[:count])
            assert page.locator("#status").inner_text() == "Generating ..."
        gate.release(99)
        finished(page)
        assert tokens(page) == list(expected.tokens)
        assert page.locator("#plain").inner_text() == expected.text
        page.locator("#view .regard-panel").wait_for()


def test_other_maps_are_chosen_in_the_page(visit: Visit):
    with serving(of(toys.translator("transformer")), of(toys.language_model(), "writer")) as address:
        page = visit(address)
        shown, view = page.get_by_label("Method", exact=True), page.locator("#view .regard-place")
        submit(page)
        finished(page)
        assert shown.count() == 0
        page.get_by_label("gradient × input").check()  # the same is asked again
        shown.wait_for()
        page.get_by_label("rollout").check()
        page.locator("#view option", has_text="rollout").wait_for(state="attached")
        assert shown.locator("option").all_inner_texts() == ["weights", "gradient", "rollout"]
        finished(page)
        pictures = []
        for name in ("weights", "gradient", "rollout"):
            shown.select_option(label=name)
            page.mouse.move(0, 0)
            pictures.append(view.screenshot())
        assert len(set(pictures)) == 3
        page.locator("#tokens button").nth(1).click()
        page.locator("#editor li button:enabled").nth(2).click()
        page.locator("#tokens .forced").nth(1).wait_for()
        finished(page)
        assert shown.locator("option:checked").inner_text() == "rollout"
        page.get_by_label("Run", exact=True).select_option("writer")
        assert page.get_by_label("rollout").is_checked()
        page.get_by_label("Beginning of the text").fill("the house")
        page.get_by_label("gradient × input").uncheck()
        page.get_by_role("button", name="Predict", exact=True).click()
        finished(page)
        assert shown.locator("option").all_inner_texts() == ["weights", "rollout"]


def test_another_token_is_forced_and_changes_are_marked(visit: Visit):
    run = toys.translator()
    with serving(of(run)) as address:
        page = visit(address)
        submit(page)
        finished(page)
        before, answered = tokens(page), page.locator("#plain").inner_text()
        page.locator("#tokens button").nth(1).click()
        choices = page.locator("#editor li button:enabled")
        chosen = choices.nth(2).locator("bdi").inner_text()
        assert chosen != before[1]
        choices.nth(2).click()
        page.locator("#tokens .forced.changed").wait_for()
        finished(page)
        (expected,) = run.predict([SOURCE], beam=1, prefix=f"{before[0]} {chosen}")
        assert tokens(page) == list(expected.tokens)
        assert page.locator("#plain").inner_text() == expected.text
        assert page.locator("#tokens .forced").count() == 2
        assert page.locator("#before").inner_text() == f"Before: {answered}"
        changed = [old != new for old, new in zip_longest(before, expected.tokens)][: len(expected.tokens)]
        marked = page.locator("#tokens button").evaluate_all("all => all.map(each => each.matches('.changed'))")
        assert (marked, any(changed[2:])) == (changed, True)  # what follows the forced word too
        page.locator("#tokens button").nth(0).click()
        page.get_by_label("Force prefix").first.fill("the old tree")
        page.get_by_role("button", name="Regenerate").click()
        page.locator("#plain", has_text="the old tree").wait_for()
        finished(page)
        assert tokens(page)[:3] == ["the", "old", "tree"]


def test_the_keyboard_alone_is_enough(visit: Visit):
    """From the field to an answer, to one of its tokens, to another in its place, and back."""
    with serving(of(toys.translator())) as address:
        page = visit(address)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "run"
        page.keyboard.press("Tab")
        page.keyboard.type(SOURCE)
        page.keyboard.press("Enter")
        finished(page)
        for _ in range(9):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.className").startswith("token"):
                break
        first = page.evaluate("document.activeElement.textContent")
        assert first == tokens(page)[0]
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert page.locator("#editor h3").inner_text() == f"Alternatives for {tokens(page)[1]}"
        page.keyboard.press("Escape")
        assert page.locator("#editor").is_hidden()
        assert page.evaluate("document.activeElement.textContent") == tokens(page)[1]
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.locator("#tokens .forced").nth(1).wait_for()
        finished(page)


def test_attention_is_cut_by_mouse_and_keyboard(visit: Visit):
    """A cell, several, a label, a head; back again; and the link to it opens the same in another page."""
    run = toys.translator("transformer")
    with serving(of(run), of(toys.translator(), "other")) as address:
        page = visit(address)
        submit(page)
        finished(page)
        page.get_by_role("button", name="Cut attention").click()
        canvas = page.locator(".regard-extent canvas").first
        ends = [dict(zip("xy", cell(page, *at), strict=True)) for at in ((1, 2), (0, 1))]
        canvas.hover(position=ends[0])
        page.mouse.down()
        canvas.hover(position=ends[1])
        page.mouse.up()
        finished(page, "1 cut:")
        outputs = [page.locator("#cut-output").inner_text()]
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Shift+ArrowLeft")
        page.keyboard.press("Enter")
        finished(page, "2 cuts:")
        page.get_by_role("button", name="Lines").click()
        page.locator('.regard-token[data-side="source"]').nth(3).click()
        finished(page, "3 cuts:")
        assert page.locator(".regard-cut").count() == 1
        page.get_by_role("button", name="All heads").click()
        page.get_by_role("button", name="layer 1, head 2", exact=True).focus()
        page.keyboard.press("Enter")
        finished(page, "4 cuts:")
        assert page.evaluate("document.activeElement.ariaLabel") == "layer 1, head 2, off"
        page.keyboard.press("Escape")
        assert page.get_by_role("button", name="Cut attention").get_attribute("aria-pressed") == "false"
        stored = json.loads(parse_qs(page.evaluate("location.hash").removeprefix("#"))["cuts"][0])
        assert stored == [
            {"maps": None, "queries": [0, 1], "keys": [1, 2]},
            {"maps": None, "queries": [1], "keys": [0, 1]},
            {"maps": [3, 4, 5], "queries": None, "keys": [3]},
            {"maps": [5], "queries": None, "keys": None},
        ]
        texts = [page.locator(each).inner_text() for each in ("#cut-output", "#cut-list", "#cut-tokens", "#status")]
        other = visit(address)
        link = page.locator("#cut-link").evaluate("each => each.href")
        other.goto(link)
        other.reload()
        finished(other, "4 cuts:")
        assert [other.locator(e).inner_text() for e in ("#cut-output", "#cut-list", "#cut-tokens", "#status")] == texts
        for _ in range(3):
            page.get_by_role("button", name="Undo").click()
        finished(page, "1 cut:")
        assert [page.locator("#cut-output").inner_text()] == outputs
        page.get_by_role("button", name="Undo").click()
        finished(page, "All cuts are undone.")
        assert page.locator("#cut-result").is_hidden()
        assert page.evaluate("location.hash") == ""
        for part, message in (
            ("cuts=%5B%7B%22keys%22%3A%5B99%5D%7D%5D", "keys [99] do not exist"),
            ("run=nobody", "this server has no run nobody"),
            ("output=another", "not the one of the link"),
        ):
            name = part.split("=")[0]
            other.goto(re.sub(f"{name}=[^&]*", part, link))
            finished(other, message)


@pytest.mark.parametrize("name", ["classifier", "writer", "reader", "tagger", "pair", "document"])
def test_every_output_of_a_text_is_cut(visit: Visit, name: str):
    """A class, a continuation, an answer and tags: a head, a word; back again, and the same by the link."""
    models = {"classifier": lambda: classes("bert"), "writer": toys.language_model, "reader": toys.reader}
    models |= {"pair": lambda: classes("rocktaschel"), "document": toys.classifier}
    texts = {"classifier": {"Text": "the cat"}, "writer": {"Beginning of the text": "the house"}, "reader": QUESTION}
    texts |= {"pair": {"First text": "the cat", "Second text": "the mat sat"}}
    with serving(of(models.get(name, toys.tagger)()), of(toys.translator(), "other")) as address:
        page = visit(address)
        for label, text in texts.get(name, {"Text": SOURCE}).items():
            page.get_by_label(label, exact=True).fill(text)
        page.get_by_role("button", name="Predict", exact=True).click()
        page.locator("#cutting").wait_for()
        page.get_by_role("button", name="Cut attention").click()
        if name == "classifier":  # words shaded by a rollout are no positions of the model
            assert page.get_by_label("Method", exact=True).locator("option:checked").inner_text() == "weights"
            page.locator(".regard-token").nth(1).click()
        elif name == "document":
            page.locator(".regard-sentences .regard-token").nth(1).click()
        else:
            page.get_by_role("button", name="Lines").click()
            page.locator('.regard-token[data-side="source"]').nth(1).click()
        finished(page, "1 cut:")
        assert page.locator(".regard-cut").count() == 1
        page.get_by_role("button", name="Switch off the visible heads").click()
        finished(page, "2 cuts:")
        parts = ("#cut-output", "#cut-list", "#cut-tokens", "#status")
        shown = [page.locator(part).inner_text() for part in parts]
        assert len(page.locator("#cut-tokens li").all()) > 1
        other = visit(address)
        other.goto(page.locator("#cut-link").evaluate("each => each.href"))
        other.reload()
        finished(other, "2 cuts:")
        assert [other.locator(part).inner_text() for part in parts] == shown
        page.get_by_role("button", name="Restore all").click()
        finished(page, "All cuts are undone.")


@pytest.mark.parametrize("name", ["class", "caption"])
def test_patches_of_an_image_are_cut(visit: Visit, tmp_path: Path, name: str):
    """By mouse and keyboard; of a class from all queries, of a caption from the word in focus."""
    run = toys.vit() if name == "class" else toys.captioner()
    shape = (12, 12, 3) if name == "class" else (16, 16)
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    with serving(of(run)) as address:
        page = visit(address)
        page.get_by_label("Image").set_input_files(tmp_path / "picture.png")
        page.get_by_role("button", name="Predict", exact=True).click()
        page.locator("#cutting").wait_for()
        page.get_by_role("button", name="Cut attention").click()
        page.locator(".regard-picture").click(position={"x": 1, "y": 1})
        finished(page, "1 cut:")
        page.locator(".regard-place").focus()
        for key in ("ArrowDown", "ArrowRight", "Enter"):
            page.keyboard.press(key)
        finished(page, "2 cuts:")
        stored = json.loads(parse_qs(page.evaluate("location.hash").removeprefix("#"))["cuts"][0])
        patch = (3 if name == "class" else 4) + 1
        assert stored == [{"maps": None, "queries": None if name == "class" else [0], "keys": [k]} for k in (0, patch)]
        shown = page.locator("#cut-result").inner_text()
        other = visit(address)
        other.goto(page.locator("#cut-link").evaluate("each => each.href"))
        other.reload()
        finished(other, "2 cuts:")
        assert other.locator("#cut-result").inner_text() == shown


def test_an_alternative_has_its_own_search_and_link(visit: Visit):
    run = toys.translator("transformer")
    run.config = replace(run.config, search=replace(run.config.search, beam=2))
    with serving(of(run)) as address:
        page = visit(address)
        submit(page)
        finished(page)
        page.get_by_role("button", name="Run beam search").click()
        page.locator("#list button").nth(1).click()
        finished(page, "Attention of the alternative.")
        page.get_by_role("button", name="Switch off the visible heads").click()
        finished(page, "1 cut:")
        shown = page.locator("#cut-result").inner_text()
        assert "Output with the cuts (beam of 2):" in shown
        other = visit(address)
        other.goto(page.locator("#cut-link").evaluate("each => each.href"))
        other.reload()
        finished(other, "1 cut:")
        assert other.locator("#cut-result").inner_text() == shown


def test_tokens_that_change_under_cuts_are_marked(visit: Visit):
    run = toys.translator()
    expected = run.compare_cuts(SOURCE, [MapCut()], AttributionOptions(beam=1))
    texts = list(expected["prediction"]["tokens"])
    changed = [old != new for old, new in zip(expected["tokens"], expected["prediction"]["tokens"], strict=True)]
    assert any(changed)
    with serving(of(run)) as address:
        page = visit(address)
        submit(page)
        finished(page)
        page.get_by_role("button", name="Switch off the visible heads").click()
        finished(page, f"1 cut: {sum(changed)} of {len(changed)} tokens changed.")
        pieces = page.locator("#cut-output > *")
        assert pieces.all_inner_texts() == texts
        assert pieces.evaluate_all("all => all.map(each => each.matches('mark'))") == changed
        (first, *_) = page.locator("#cut-tokens li span").all_inner_texts()
        before, after = (f"{100 * math.exp(expected[each][0]):.0f} %" for each in ("before", "after"))
        assert first == f"{before} → {after}"
        page.get_by_role("button", name="Restore all").click()
        page.locator("#cut-result").wait_for(state="hidden")


def test_tokens_are_always_text(visit: Visit):
    with serving(of(toys.translator(), "<b>run")) as address:
        page = visit(address)
        submit(page, f"kein {toys.SCRIPT} Haus")
        finished(page)
        page.locator("#tokens button").nth(0).click()
        page.get_by_label("Force prefix").first.fill(f"no {toys.SCRIPT}")
        page.get_by_role("button", name="Regenerate").click()
        page.locator("#tokens .forced").nth(1).wait_for()
        finished(page)
        assert tokens(page)[1] == toys.SCRIPT
        assert page.locator("#plain").inner_text().startswith(f"no {toys.SCRIPT}")
        assert page.locator("main script, #run b").count() == 0
        assert page.title() == "regard"


def test_an_error_is_displayed_and_a_stream_stopped(visit: Visit):
    gate = threading.Semaphore(0)
    with serving(held(of(toys.translator()), gate)) as address:
        page = visit(address)
        submit(page, "a" * 5001)
        page.locator("#status.bad", has_text="5001 characters").wait_for()
        submit(page)
        gate.release(1)
        page.locator("#tokens button").first.wait_for()
        page.get_by_role("button", name="Stop").click()
        finished(page, "Stopped.")
        gate.release(99)
        assert len(tokens(page)) == 1


def test_every_run_has_its_own_form(visit: Visit, tmp_path: Path):
    pixels = np.random.default_rng(1).integers(0, 256, (19, 23, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    runs = [
        of(toys.language_model(), "writer"),
        of(toys.classifier(), "classifier"),
        of(toys.vit(), "vit"),
        of(toys.reader(), "reader"),
    ]
    with serving(*runs) as address:
        page = visit(address, color_scheme="dark")
        page.get_by_label("Beginning of the text").fill("the house")
        page.get_by_text("Decoding options").click()
        page.get_by_label("Temperature").fill("")
        page.get_by_label("Tokens", exact=True).fill("5")
        page.get_by_role("button", name="Predict", exact=True).click()
        finished(page)
        assert 1 <= len(tokens(page)) <= 5
        page.get_by_label("Run", exact=True).select_option("classifier")
        submit(page, "das Haus ist alt . ein Baum")
        page.locator("#plain meter").nth(1).wait_for()
        page.locator("#view .regard-panel").wait_for()
        page.get_by_label("Run", exact=True).select_option("vit")
        page.get_by_label("Image").set_input_files(tmp_path / "picture.png")
        page.get_by_role("button", name="Predict", exact=True).click()
        page.locator("#plain meter").nth(1).wait_for()
        page.get_by_label("Run", exact=True).select_option("reader")
        page.get_by_label("Question").fill("ein Haus")
        page.get_by_label("Context").fill(SOURCE)
        page.get_by_role("button", name="Predict", exact=True).click()
        finished(page, "Done.")
        page.locator("#view .regard-panel").wait_for()


def test_every_control_has_a_name(visit: Visit):
    with serving(of(toys.translator())) as address:
        page = visit(address)
        submit(page)
        finished(page)
        page.locator("#tokens button").nth(0).click()
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, input, select, textarea')].filter((each) => !(each.innerText || "
            "each.ariaLabel || each.labels && each.labels.length)).map((each) => each.outerHTML)"
        )
        assert unnamed == []
        assert page.locator("#status").get_attribute("role") == "status"


def test_a_page_begins_with_an_example_to_click(visit: Visit):
    one = of(toys.translator("transformer"))
    with serving(replace(one, about={**one.about, "example": {"text": SOURCE}})) as address:
        page = visit(address)
        page.get_by_role("button", name=SOURCE).click()
        finished(page)
        assert page.get_by_label("Text", exact=True).input_value() == SOURCE


def test_the_example_of_a_recording_is_played_and_sent(visit: Visit):
    sound = Sound(np.sin(np.arange(8000, dtype=np.float32) / 9) / 2, 8000)
    content = b64encode(encode_audio(sound)).decode()
    one = of(untrained())
    with serving(replace(one, about={**one.about, "example": {"audio": content}})) as address:
        page = visit(address)
        page.wait_for_function("document.querySelector('#example audio').duration === 1")
        page.get_by_role("button", name="the first training recording").click()
        finished(page)
        assert page.get_by_label("Recording", exact=True).evaluate("(input) => input.files.length") == 1
        player = page.locator(".regard-panel audio")  # of the answer: a click plays what a letter attends to
        assert player.evaluate("(audio) => audio.duration") == 1
        page.locator(".regard-thumbs button").nth(1).click()
        page.wait_for_function("() => document.querySelector('.regard-panel audio').currentTime > 0")
        page.wait_for_function("() => document.querySelector('.regard-panel audio').paused")


@pytest.mark.parametrize(
    ("make", "text", "warning", "status"),
    [
        (toys.translator, "", "The text is empty, so the prediction means nothing", "log-probability"),
        (toys.translator, "\u4e2d\u6587 \u65e5\u672c", "2 of 2 words of the text are unknown", "log-probability"),
        (toys.classifier, "", "The text is empty, so the prediction means nothing", re.compile(r"^(good|<bad>)\.$")),
    ],
)
def test_an_answer_to_what_cannot_be_read_has_a_warning(visit: Visit, make: Any, text: str, warning: str, status: Any):
    """And the next answer, to what can be read, has none."""
    with serving(of(make())) as address:
        page = visit(address)
        submit(page, text)
        finished(page, status)
        (shown,) = page.locator("#warnings li").all_inner_texts()
        assert shown.startswith(warning)
        assert page.get_by_label("Warnings").is_visible()
        submit(page)
        page.locator("#warnings").wait_for(state="hidden")
        assert page.locator("#warnings li").count() == 0
