"""The page of flows has every model."""

import re

from docs.making.pages import blocks
from regard.models.catalog import CAPTIONERS, CLASSIFIERS, LANGUAGE_MODELS, MODELS
from tests.code.tree import ROOT

ELSEWHERE = dict.fromkeys(
    ("PretrainedConfig", "PretrainedLanguageModel", "PretrainedSeq2Seq", "PretrainedClassifier"),
    "a model of transformers has the flow of its own architecture",
)
"""Models without a picture, and why."""
NAMED = re.compile(r'^class (\w+Config)\b[^\n]*\n(?:(?!^class ).*\n)*?    name: Literal\["', re.MULTILINE)
"""What tasks with one model, or with models of their own, have: a class of sizes with a name."""


def test_the_page_of_flows_has_every_model():
    code = "\n".join(block.code for block in blocks((ROOT / "docs/guide/flows.md").read_text(encoding="utf-8")))
    tables = (MODELS, CAPTIONERS, LANGUAGE_MODELS, CLASSIFIERS)
    models = {home.partition(":")[2] for table in tables for home in map(str, table.locations.values())}
    sources = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/regard/models").glob("*.py")))
    models |= {name for source in sources for name in NAMED.findall(source)} | {"BertSpans", "OneToMany"}
    assert {"Transformer", "BertClassifier", "FlatConfig", "ActingSnailConfig", "VitConfig"} <= models
    assert {name for name in models if f"{name}(" not in code} == set(ELSEWHERE)
