"""The parts of the site that are made by code: the live page, the public names; and the citation's version."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from benchmarks.report import RESULTS
from docs.making import aims, experiments, live, names
from regard.experiments import EXPERIMENTS
from tests.code.tree import ROOT


def test_the_live_page_loads_nothing_from_elsewhere():
    page = live.page()
    assert "Saturday 09 May 2018" in page
    assert re.findall(r"(?:src|href)\s*=\s*[\"'](?!#|data:)", page) == []


@pytest.mark.parametrize("package", names.PACKAGES)
def test_a_public_package_has_names_with_a_sentence_each(package: str):
    rows = names.section(package, "about").splitlines()[6:]
    assert len(rows) == len(names.public(package)) > 0
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_name_of_regard_is_on_the_page():
    assert {"attend", "fit", "load", "record", "train"} <= set(names.public("regard"))


def test_the_page_of_speed_has_every_aim():
    results = json.loads((RESULTS / "aims.json").read_text(encoding="utf-8"))
    lines = aims.tables(results).splitlines()
    heads = [line for line in lines if line.startswith("## ")]
    assert len(set(heads)) == len(heads) > 4
    assert sum(line.startswith("| ") for line in lines) == len(results["rows"]) + 2 * len(heads)
    met = sum(row["met"] for row in results["rows"])
    assert lines[0].startswith(f"{met} of {len(results['rows'])} aims are met on ")


def test_the_citation_has_the_version_of_the_package():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["version"] == project["version"]
    assert cited["license"] == project["license"]


def test_the_glossary_is_in_the_order_of_the_alphabet():
    words = re.findall(r"(?m)^:([^:]+):", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"))
    assert words == sorted(words, key=str.lower)
    assert len(words) > 50


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / experiments.FOLDER).glob("*.md")), ids=lambda path: path.stem)
def test_the_page_of_an_experiment_shows_its_picture_and_command(path: Path):
    text = experiments.illustrated(path.read_text(encoding="utf-8"), path.stem)
    (picture,) = re.findall(r"\]\((.+\.png)\)", text)
    assert path.with_name(picture).is_file()
    name = path.stem.removesuffix("-full")
    assert f"regard experiment {name}" in text
    assert name in EXPERIMENTS
    assert text.startswith(f"# {name[0].upper()}")
