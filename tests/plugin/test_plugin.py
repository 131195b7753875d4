"""A package of its own adds a score, a model, a task and a recipe: examples/plugin, installed and used."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import command
from tests.code.tree import ROOT

Regard = Callable[..., tuple[int, str, str]]
SHORT = ("--set", "training.steps=60", "--set", "training.threads=1")
TINY = tuple(command.tiny(model__embedding="8", model__width="14"))
CURVE = "0,0 1.5,1 3,0 at 2"


def package(folder: Path, name: str, files: dict[str, str], points: dict[str, str]) -> None:
    """Write a package as if it had been installed in a folder."""
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    lines = [line for group, point in points.items() for line in (f"[regard.{group}]", point)]
    (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def commands(*paths: Path) -> Regard:
    """Commands that see the packages in these folders too."""
    path = os.pathsep.join([command.environment()["PYTHONPATH"], *map(str, paths)])

    def call(*arguments: str) -> tuple[int, str, str]:
        return command.finish(command.start(*arguments, env=command.environment(PYTHONPATH=path)))

    return call


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the package into."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(ROOT / "examples" / "plugin", tmp_path_factory.mktemp("source") / "plugin")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    done = subprocess.run([*install, str(folder / "site"), str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="session")
def regard(installed: Path) -> Regard:
    return commands(installed)


@pytest.fixture(scope="session")
def run(regard: Regard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the package's recipe."""
    folder = tmp_path_factory.mktemp("runs") / "waves"
    code, output, errors = regard("train", "waves", "--out", str(folder), *SHORT)
    assert code == 0, errors
    assert f"The run is in {folder}" in output
    return folder


def test_its_recipe_is_listed(regard: Regard):
    (line,) = [line for line in regard("recipes")[1].splitlines() if line.startswith("waves ")]
    assert line.endswith("generated [regard-interpolation 0.1.0]")


def test_its_run_does_all_that_a_run_does(regard: Regard, run: Path, tmp_path: Path):
    code, output, _ = regard("evaluate", str(run), "--json")
    assert (code, json.loads(output)["error"] < 0.2) == (0, True)
    code, output, _ = regard("predict", str(run), CURVE, "--json")
    assert (code, 0 < json.loads(output)["height"] < 1) == (0, True)
    code, output, _ = regard("show", str(run), CURVE, "--out", str(tmp_path / "curve.png"))
    assert (code, (tmp_path / "curve.png").stat().st_size > 1000) == (0, True)
    code, _, _ = regard("show", str(run), CURVE, "--out", str(tmp_path / "curve.html"))
    assert (code, "1.5, 1" in (tmp_path / "curve.html").read_text(encoding="utf-8")) == (0, True)


def test_what_it_does_not_support_is_refused_in_one_line(regard: Regard, run: Path):
    for arguments in (["predict", str(run), CURVE, "--beam", "2"], ["predict", str(run), "1 2 3"]):
        code, output, errors = regard(*arguments)
        assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert "expected points and a place" in errors


def test_without_the_package_its_run_names_it(run: Path):
    code, output, errors = commands()("predict", str(run), CURVE)
    assert (code, output) == (2, "")
    assert "task: got 'interpolation', expected one of" in errors


def test_a_package_that_fails_to_import_is_one_line(run: Path, tmp_path: Path):
    points = {"tasks": "interpolation = broken:TASK", "recipes": "waves = broken:waves.yaml"}
    package(tmp_path, "regard-interpolation", {"broken.py": "import nothing_of_this_name"}, points)
    broken = commands(tmp_path)
    code, output, errors = broken("predict", str(run), CURVE)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert "nothing_of_this_name" in errors
    code, output, errors = broken("recipes")
    assert (code, errors) == (0, "")
    assert "dates " in output
    assert (
        "unusable: regard-interpolation 1.0: the recipe 'waves' cannot be found, because broken cannot be imported"
        in output
    )


def test_a_built_in_name_is_never_replaced(run: Path, tmp_path: Path):
    package(tmp_path, "regard-other", {"other.py": "raise SystemExit"}, {"tasks": "seq2seq = other:TASK"})
    code, output, _ = commands(tmp_path)("predict", str(ROOT / "tests" / "data" / "runs" / "dates"), "14 July 1989")
    assert (code, output) == (0, "1989-07-14\n")


def test_its_score_is_named_in_run_files(regard: Regard, tmp_path: Path):
    arguments = ["train", "dates-luong", "--out", str(tmp_path / "run"), *TINY, "--set", "model.score=laplace"]
    code, _, errors = regard(*arguments)
    assert code == 0, errors
    assert regard("predict", str(tmp_path / "run"), "14 July 1989")[0] == 0
    code, _, errors = commands()(*arguments[:3], str(tmp_path / "other"), *arguments[4:])
    assert (code, "got 'laplace', expected dot, general" in errors) == (2, True)


def test_a_model_is_named_in_run_files(tmp_path: Path):
    model = """
    from dataclasses import dataclass
    from typing import Literal

    from regard.models.luong import Luong, LuongConfig

    @dataclass(frozen=True, kw_only=True)
    class OwnConfig(LuongConfig):
        name: Literal["own"] = "own"

    class Own(Luong):
        config_class = OwnConfig
    """
    package(tmp_path, "regard-own", {"own_model.py": textwrap.dedent(model)}, {"models": "own = own_model:Own"})
    own, run = commands(tmp_path), str(tmp_path / "run")
    code, _, errors = own("train", "dates-luong", "--out", run, *TINY, "--set", "model.name=own")
    assert code == 0, errors
    assert own("evaluate", run, "--json")[0] == 0


def test_a_reader_is_found_by_the_end_of_a_name(tmp_path: Path):
    reader = """
    from regard.data.rows import RowCollector

    def read(path, columns, *, skip_bad=False):
        collector = RowCollector(path, skip_bad)
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            yield collector.row(number, line.rstrip().split(";"))
    """
    files = {"semicolons.py": textwrap.dedent(reader)}
    package(tmp_path, "regard-semicolons", files, {"readers": "scsv = semicolons:read"})
    (tmp_path / "dates.scsv").write_text("14 July 1989;1989-07-14\n", encoding="utf-8")
    arguments = ["evaluate", str(ROOT / "tests" / "data" / "runs" / "dates"), str(tmp_path / "dates.scsv"), "--json"]
    code, output, errors = commands(tmp_path)(*arguments)
    assert code == 0, errors
    assert json.loads(output)["exact-match"] == 100.0
    code, _, errors = commands()(*arguments)
    assert (
        code,
        "expected a source and a target file, or one table (.arrow, .csv, " in errors,
    ) == (2, True)


def test_the_package_passes_its_own_tests(installed: Path):
    path = os.pathsep.join([command.environment()["PYTHONPATH"], str(installed)])
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest"]
    done = subprocess.run(
        [*tests, "-c", os.devnull, "--rootdir", str(ROOT / "examples" / "plugin"), str(ROOT / "examples" / "plugin")],
        env=command.environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


CLASSIFIER = """
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import Dot
from regard.models.classifier import Classifier
from regard.nn.layers import TokenEmbedding
from regard.tasks.classification.inputs import Form

@dataclass(frozen=True, kw_only=True)
class OwnConfig:
    name: Literal["own"] = "own"
    width: int = 8

class Own(Classifier):
    config_class = OwnConfig
    form = {form!r}

    def __init__(self, vocabulary, classes, config):
        super().__init__()
        self.embedding = TokenEmbedding(vocabulary, config.width)
        self.query = nn.Parameter(torch.randn(config.width))
        self.summary = Attend(Dot())
        self.output = nn.Linear(config.width, classes)

    def forward(self, tokens, lengths):
        memory = Memory.of(self.embedding(tokens), lengths)
        return self.output(self.summary(self.query.expand(len(tokens), 1, -1), memory)[:, 0])

class OwnForm(Form):
    attention_modules = "summary"

    def attention(self, example, maps):
        return self.shade(example, maps["summary"][0, 0].double().numpy(), "the query")
"""


def classifier(folder: Path, form: str) -> list[str]:
    """Install a package with a classifier of some form; the command that trains it for two updates."""
    points = {"classifiers": "own = own_classifier:Own", "forms": "own-form = own_classifier:OwnForm"}
    package(folder, "regard-own", {"own_classifier.py": CLASSIFIER.format(form=form)}, points)
    rows = [f"{word} of film {number}\t{word}" for number in range(20) for word in ("good", "bad")]
    (folder / "films.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    settings = {
        "model": "{name: own}",
        "data.train": str(folder / "films.tsv"),
        "tokenizer": "{kind: space}",
        "training.steps": "2",
        "training.warmup": "0",
        "training.batch_tokens": "64",
        "training.threads": "1",
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return ["train", "reviews", "--out", str(folder / "run"), *options]


@pytest.mark.parametrize(("form", "kind"), [("own-form", "weights"), ("text", "gradient")])
def test_a_classifier_has_a_form_of_ours_or_of_its_own(tmp_path: Path, form: str, kind: str):
    arguments, own = classifier(tmp_path, form), commands(tmp_path)
    code, _, errors = own(*arguments)
    assert code == 0, errors
    code, output, errors = own("predict", str(tmp_path / "run"), "good film", "--json")
    assert (code, set(json.loads(output)["probabilities"])) == (0, {"good", "bad"}), errors
    code, output, errors = own("evaluate", str(tmp_path / "run"), str(tmp_path / "films.tsv"), "--json")
    assert (code, set(json.loads(output))) == (0, {"accuracy", "macro-f1"}), errors
    out = tmp_path / "picture.svg"
    code, _, errors = own("show", str(tmp_path / "run"), "good film", "--kind", kind, "--out", str(out))
    assert (code, "film" in out.read_text(encoding="utf-8")) == (0, True), errors
