"""The central function of the project stays readable at a glance."""

import ast

from tests.code.tree import modules

LINES = 15


def test_attend_has_at_most_fifteen_lines():
    (attend,) = [f for f in modules()["regard.attention.attend"].functions() if f.name == "attend"]
    body = attend.body[1:] if ast.get_docstring(attend) is not None else attend.body
    signature = attend.body[0].lineno - attend.lineno
    code = (attend.end_lineno or 0) - body[0].lineno + 1
    assert signature + code <= LINES, f"{signature} lines of signature and {code} of body"
