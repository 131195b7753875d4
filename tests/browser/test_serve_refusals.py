"""What the server refuses, asked for by a browser as far as one can: other sites' pages, names that lead here by a
trick, huge and slow bodies, a hundred requests at a time."""

from typing import Any

import pytest

from regard.serve.requests import Limits
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


def test_row_60_a_huge_body_is_refused(page: Any):
    with serving(limits=Limits(body=1009)) as address:
        page.goto(address)
        status, text = fetched(page, PREDICT, body="x" * 1010)
        assert (status, "1009 bytes" in text) == (413, True)
        assert fetched(page, PREDICT)[0] == 200


def test_row_60_a_slow_body_is_refused(page: Any):
    with serving(limits=Limits(body_seconds=0.5)) as address:
        page.goto(address)
        network = page.context.new_cdp_session(page)
        slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 40_000}
        network.send("Network.emulateNetworkConditions", slow)
        status, text = fetched(page, PREDICT, body="x" * 500_000)
        assert (status, text) == (408, '{"error":"the body took longer than 0.5 s to arrive"}')
        network.send("Network.emulateNetworkConditions", slow | {"uploadThroughput": -1})
        assert fetched(page, PREDICT)[0] == 200


def test_row_62_a_hundred_fetches_are_answered_or_refused_with_a_time_to_retry(page: Any):
    hundred = """async ([address, patient]) => Promise.all([...Array(100).keys()].map(async (number) => {
        for (;;) {
            const headers = { "content-type": "application/json" }, body = JSON.stringify({ text: `text ${number}` });
            const answer = await fetch(address, { method: "POST", headers, body }), found = await answer.json();
            const again = answer.headers.get("retry-after");
            if (answer.status !== 503 || !patient) return [answer.status, again, found.text];
            await new Promise((done) => setTimeout(done, 10));
        }
    }))"""
    with serving(limits=Limits(requests=2)) as address:
        page.goto(address)
        found = page.evaluate(hundred, [PREDICT, False])
        assert all(each in ([200, None, f"text {n}"], [503, "2", None]) for n, each in enumerate(found))
        assert [200, None] in [each[:2] for each in found]
        again = page.evaluate(hundred, [PREDICT, True])
        assert again == [[200, None, f"text {number}"] for number in range(100)]
        assert page.evaluate("fetch('/api/runs').then((answer) => answer.json())")["active"] == 0
