"""The language of pages and messages: phrases to avoid, long sentences and words, with counts that may only fall."""

import ast
import re

from tests.code.tree import ROOT, modules

AVOIDED = re.compile(
    r"\breads?\b|\b(?:what|which) (?:is|it|the \w+) (?:reads?|drawn|written|seen)|\b(?:that|those) of\b"
    r"|(?:^|[.;:] )Of (?:a|an|the|what|its|these)\b|, as (?:of|in|does|do)\b|\bso (?:many|much)\b"
    r"|\bstands?\b(?! for)|\bgo(?:es)? on\b|\b(?:beside|behind|alone|anew|likewise|whoever)\b|in place of|says so"
    r"|\b(?:page|file|folder|table|row|picture|bar|run) has\b|\bblanks?\b|of (?:its|their|your) own|has none"
    r"|\b(?:is|are) no \w+"
)
CODE = re.compile(r"(?ms)^```.*?^```|^(?:\||#|:::|    ).*?$|`[^`]*`|\$[^$]*\$")
FOUND = [*(ROOT / "docs").rglob("*.md"), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG"))]
PAGES = [path for path in FOUND if not {"_build", "reference"} & {*path.parts}]
PROSE = [CODE.sub("", path.read_text(encoding="utf-8")) for path in PAGES]


def test_phrases_to_avoid_get_fewer():
    constants = [node for module in modules().values() for node in module.nodes if isinstance(node, ast.Constant)]
    strings = [node.value for node in constants if isinstance(node.value, str) and " " in node.value]
    for texts, most in ((PROSE, 12), (strings, 983)):
        assert sum(len(AVOIDED.findall(text)) for text in texts) <= most


def test_pages_and_sentences_are_short():
    assert sum(len(re.findall(r"\S*\w\S*", path.read_text(encoding="utf-8"))) for path in PAGES) <= 45_000
    sentences = [part for text in PROSE for part in re.split(r"(?<=[.!?:])\s|\n\n|\n- ", text)]
    assert sum(len(sentence.split()) > 30 for sentence in sentences) <= 9
