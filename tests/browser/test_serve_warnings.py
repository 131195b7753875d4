"""What a model cannot read is answered with a warning on the page, whatever the form of the answer."""

import re
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.test_serve_page import finished, of, submit
from tests.serve import toys
from tests.serve.serving import serving

LABEL = re.compile(r"^(good|<bad>)\.$")
"""The status of a class; that of a request on its way ends with dots too."""
EMPTY = "the text is empty, so the prediction means nothing"
UNKNOWN = "2 of 2 words of the text are unknown to the model; do not trust it here"


def warnings(page: Any) -> list[str]:
    """Shown with a capital letter."""
    return [each[0].lower() + each[1:] for each in page.locator("#warnings li").all_inner_texts()]


@pytest.mark.parametrize(("text", "warning"), [("", EMPTY), ("\u4e2d\u6587 \u65e5\u672c", UNKNOWN)])
def test_row_83_a_streamed_answer_has_its_warning(visit: Visit, text: str, warning: str):
    """And the next answer to what can be read has none."""
    with serving(of(toys.translator())) as address:
        page = visit(address)
        submit(page, text)
        finished(page)
        assert warnings(page) == [warning]
        assert page.get_by_label("Warnings").is_visible()
        submit(page)
        finished(page)
        assert warnings(page) == []
        assert page.locator("#warnings").is_hidden()


def test_row_83_classes_have_their_warnings(visit: Visit):
    with serving(of(toys.classifier(), "classes")) as address:
        page = visit(address)
        submit(page, "")
        page.locator("#status", has_text=LABEL).wait_for()
        assert warnings(page) == [EMPTY]
