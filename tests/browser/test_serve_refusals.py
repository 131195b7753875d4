"""What the server refuses, asked for by a browser as far as one can: other sites' pages, names that lead here by a
trick, huge and slow bodies, a hundred requests at a time."""

from typing import Any

import pytest

from tests.browser.conftest import REBOUND
from tests.browser.elsewhere import elsewhere
from tests.serve.serving import run, serving
from tests.serve.test_requests import PREDICT, Gate

FETCH = """async ([address, type, options]) => {
  const body = options.body || JSON.stringify({ text: "a" });
  try {
    const response = await fetch(address, { method: "POST", headers: { "content-type": type }, ...options, body });
    return [response.status, await response.text()];
  } catch (error) {
    return [0, error.message];
  }
}"""
JSON = "application/json"


@pytest.fixture
def page(browser: Any) -> Any:
    opened = browser.new_page()
    opened.set_default_timeout(60_000)
    yield opened
    opened.close()


def fetched(page: Any, address: str, type: str = JSON, **options: Any) -> tuple[int, str]:
    status, text = page.evaluate(FETCH, [address, type, options])
    return status, text


def test_row_59_a_page_of_another_origin_gets_nothing_and_changes_nothing(page: Any):
    """Neither openly, where the browser asks first and is told no, nor as a form would, where the server sees it."""
    gate, statuses = Gate(), []
    gate.open.set()
    with serving(run(predict=gate.operation)) as address, elsewhere() as (other, _):
        page.goto(other)
        network = page.context.new_cdp_session(page)
        network.on("Network.responseReceivedExtraInfo", lambda response: statuses.append(response["statusCode"]))
        network.send("Network.enable")
        assert fetched(page, address + PREDICT)[0] == 0
        assert fetched(page, address + PREDICT, "text/plain", mode="no-cors")[0] == 0
        assert statuses.count(403) == 2
        assert gate.batches == []
        page.goto(address)
        assert fetched(page, PREDICT)[0] == 200
        assert gate.batches == [["a"]]


def test_row_59_another_origin_can_neither_frame_the_page_nor_run_its_scripts(page: Any):
    show = """(address) => new Promise((done) => {
        const tag = document.createElement("TAG");
        Object.assign(tag, { onload: () => done("came"), onerror: () => done("refused"), src: address });
        document.body.append(tag);
    })"""
    with serving() as address, elsewhere() as (other, _):
        page.goto(other)
        assert page.evaluate(show.replace("TAG", "script"), address + "/view.js") == "refused"
        assert page.evaluate("typeof regard") == "undefined"
        page.evaluate(show.replace("TAG", "iframe"), address + "/")
        assert all("Answer" not in frame.content() for frame in page.frames)


def test_row_59_a_rebound_host_name_is_refused(page: Any):
    """As after a DNS rebinding: to the browser it is one site, page and all."""
    gate = Gate()
    gate.open.set()
    with serving(run(predict=gate.operation)) as address:
        there = address.replace("127.0.0.1", REBOUND)
        answer = page.goto(there + "/")
        assert (answer.status, "host" in answer.text()) == (400, True)
        status, text = fetched(page, PREDICT)
        assert (status, "host" in text) == (400, True)
    assert gate.batches == []
