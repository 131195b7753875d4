"""What is made by code, or said of code, on pages: the live page, the API, flows, one text, formulas, combinations."""

import inspect
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from docutils import nodes
from sphinx.errors import ExtensionError

import regard
from docs.making import aims, combinations, experiments, live, results
from docs.making.formulas import drawn as draw_formula
from regard.attention import align, history, scores
from regard.experiments import EXPERIMENTS
from regard.models.catalog import CAPTIONERS, CLASSIFIERS, LANGUAGE_MODELS, MODELS
from tests.code import travel
from tests.code.tree import ROOT, SOURCE


def test_the_live_page_loads_nothing_from_elsewhere():
    page = live.page()
    assert "Saturday 09 May 2018" in page
    assert re.findall(r"(?:src|href)\s*=\s*[\"'](?!#|data:)", page) == []


def test_every_public_name_is_on_a_page_of_the_api_and_exists():
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md"))
    listed = re.findall(r"auto(?:function|class):: (\S+)", pages)
    for place in listed:
        module, _, name = place.rpartition(".")
        assert getattr(import_module(module), name), place
    assert {f"regard.{name}" for name in regard.__all__ if name[0] != "_"} <= set(listed)
    assert [
        each for each in (*combinations.SCORES, *combinations.ALIGNMENTS) if f".{each.__name__}\n" not in pages
    ] == []


def test_the_page_of_speed_has_every_aim():
    results = aims.read_results()
    lines = aims.tables(results).splitlines()
    heads = [line for line in lines if line.startswith("## ")]
    assert len(set(heads)) == len(heads) > 4
    rows = {(row["what"], row["peer"]) for result in results for row in result["rows"]}
    assert sum(line.startswith("| ") for line in lines) == len(rows) + 2 * len(heads)
    met = sum(row["met"] for row in results[0]["rows"])
    assert lines[0].startswith(f"{met} of {len(results[0]['rows'])} aims are met on ")


def test_the_citation_has_the_version_of_the_package():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["version"] == project["version"]
    assert cited["license"] == project["license"]


def test_the_glossary_is_in_the_order_of_the_alphabet():
    words = re.findall(r"(?m)^:([^:]+):", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"))
    assert words == sorted(words, key=str.lower)
    assert len(words) > 50


@pytest.mark.parametrize("path", sorted(experiments.FOLDER.glob("*.csv")), ids=lambda path: path.stem)
def test_the_page_of_experiments_shows_each_picture_command_and_table(path: Path):
    page = (ROOT / "docs/guide/experiments.md").read_text(encoding="utf-8")
    name = path.stem.removesuffix("-full")
    assert path.with_suffix(".png").is_file()
    assert name in EXPERIMENTS
    for part in (f"({'../gallery/experiments/' + path.stem}.png)", f"regard experiment {name}", f"/{path.name}\n"):
        assert part in page


def test_tables_of_experiments_are_kept_with_four_figures(tmp_path: Path):
    (tmp_path / "new").mkdir()
    (tmp_path / "a.json").write_text('{"claim": "", "rows": [{"x": "one", "y": 0.123456}]}', encoding="utf-8")
    (tmp_path / "a.png").touch()
    assert experiments.keep(tmp_path, tmp_path / "new") == ["a"]
    assert (tmp_path / "new" / "a.csv").read_text(encoding="utf-8") == "x,y\none,0.1235\n"


def test_the_summary_of_results_is_short_and_leads_to_pages_and_runs():
    rows, runs = results.read_rows("summary"), results.make_runs(results.read_rows("all"))
    assert 0 < len(rows) <= 20
    assert [row["task"] for row in rows if not (ROOT / "docs" / f"{row['page']}.md").is_file()] == []
    assert [row["recipe"] for row in rows if f"## {row['recipe']}\n" not in runs] == []


ELSEWHERE = dict.fromkeys(
    ("PretrainedConfig", "PretrainedLanguageModel", "PretrainedSeq2Seq", "PretrainedClassifier"),
    "a model of transformers has the flow of its own architecture",
)
ELSEWHERE |= dict.fromkeys(("ConvolutionalConfig", "TowerConfig"), "an encoder alone")
ELSEWHERE |= {"BertPointerConfig": "as `BertTagger`, with a head as output"}
"""Models without a picture, and why."""
NAMED = re.compile(r'^class (\w+Config)\b[^\n]*\n(?:(?!^class ).*\n)*?    name: Literal\["', re.MULTILINE)
"""What tasks with one model, or with models of their own, have: a class of sizes with a name."""


def test_the_page_of_flows_has_every_model():
    code = (ROOT / "docs/guide/model_flows.py").read_text(encoding="utf-8")
    tables = (MODELS, CAPTIONERS, LANGUAGE_MODELS, CLASSIFIERS)
    models = {home.partition(":")[2] for table in tables for home in map(str, table.locations.values())}
    sources = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/regard/models").glob("*.py")))
    models |= {name for source in sources for name in NAMED.findall(source)} | {"BertSpans", "OneToMany"}
    assert {"Transformer", "BertClassifier", "FlatConfig", "ActingSnailConfig", "VitConfig"} <= models
    assert {name for name in models if f"{name}(" not in code} == set(ELSEWHERE)


FOLLOWED = ROOT / "docs" / "guide" / "one-text.md"
ROW = re.compile(r"^\| `([\w/]+\.py)` \|", re.M)


def test_the_page_names_what_is_entered():
    named = ROW.findall(FOLLOWED.read_text(encoding="utf-8"))
    entered = travel.predict().files
    assert len(named) > 20
    assert [name for name in named if name not in entered] == []
    assert len(named) == len(set(named))


def test_other_paths_exist():
    paths = re.findall(r"`([\w/]+\.py)`", FOLLOWED.read_text(encoding="utf-8"))
    assert [path for path in paths if not (SOURCE / path).is_file()] == []


def test_a_formula_is_mathml():
    line = draw_formula(nodes.math("", r"\frac{q \cdot k}{\sqrt d}"), block=False)
    assert line.startswith("<math")
    assert "<mfrac>" in line
    assert 'display="block"' not in line
    assert 'display="block"' in draw_formula(nodes.math_block("", "a_i"), block=True)


def test_every_formula_of_the_pages_is_known():
    for path in (ROOT / "docs").rglob("*.md"):
        text = re.sub(r"(?ms)^```.*?^```|``?[^`\n]+``?", "", path.read_text(encoding="utf-8"))
        for formula in re.findall(r"\$\$([^$]+)\$\$|\$([^$\n]+)\$", text):
            draw_formula(nodes.math("", "".join(formula), source=str(path)), block=False)


def test_an_unknown_command_names_its_place():
    node = nodes.math("", r"\unheardof x")
    node.source, node.line = "page.md", 7
    with pytest.raises(ExtensionError, match=r"page\.md:7: .*unheardof"):
        draw_formula(node, block=False)


MEMORY = (ROOT / "docs/guide/memory-and-lookup.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("made", [combinations.combinations, combinations.run_files])
@pytest.mark.slow
def test_the_page_has_the_table(made):
    assert f"\n\n{made()}\n\n" in MEMORY, "put what `python -m docs.making.combinations` prints into the page"


@pytest.mark.parametrize(
    ("module", "base", "tried"),
    [
        (scores, scores.Score, combinations.SCORES),
        (align, align.Align, combinations.ALIGNMENTS),
        (history, history.History, combinations.HISTORIES),
    ],
)
def test_all_that_there_are_are_tried(module, base: type, tried: dict):
    classes = [each for _, each in inspect.getmembers(module, inspect.isclass) if issubclass(each, base)]
    missing = {each.__name__ for each in classes if not inspect.isabstract(each) and each not in tried}
    assert not missing, f"docs/making/combinations.py has no row for {missing}"
    assert set(tried) <= set(classes)


def test_every_model_of_a_run_file_is_named_with_a_reason():
    missing = {*MODELS, *CAPTIONERS, "pointer-network"} - {*combinations.REASONS, "pair", "pretrained"}
    assert not missing, f"docs/making/combinations.py has no reason for {missing}"
    rows = combinations.run_files().splitlines()[2:]
    assert {row.split("`")[1] for row in rows} == set(combinations.REASONS)
