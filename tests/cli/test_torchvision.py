"""No module of regard imports torchvision, so a version that does not fit torch breaks nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, finish, start, tiny

EVERYTHING = """
import importlib, pkgutil, regard
for module in pkgutil.walk_packages(regard.__path__, "regard."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        assert error.name == "triton", error  # which comes with builds of torch for GPUs
"""


@pytest.fixture
def tried(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """An environment with such a torchvision before any other, and a file that is there once somebody has tried it."""
    package, told = tmp_path / "other" / "torchvision", tmp_path / "tried"
    package.mkdir(parents=True)
    about = package.with_name("torchvision-0.1.0.dist-info")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.1.0\n")
    why = "operator torchvision::nms does not exist"
    (package / "__init__.py").write_text(f"open({str(told)!r}, 'w').close()\nraise RuntimeError({why!r})\n")
    given = environment()
    return given | {"PYTHONPATH": f"{package.parent}{os.pathsep}{given['PYTHONPATH']}"}, told


def test_the_broken_one_would_be_noticed(tried: tuple[dict[str, str], Path]):
    given, told = tried
    done = subprocess.run([sys.executable, "-c", "import torchvision"], env=given, capture_output=True, text=True)
    assert (done.returncode, "nms does not exist" in done.stderr, told.exists()) == (1, True, True)


@pytest.mark.slow
def test_no_module_of_ours_imports_it(tried: tuple[dict[str, str], Path]):
    given, told = tried
    done = subprocess.run([sys.executable, "-c", EVERYTHING], env=given, capture_output=True, text=True)
    assert (done.returncode, told.exists()) == (0, False), done.stderr


@pytest.mark.slow
def test_training_and_answering_do_without_it(tried: tuple[dict[str, str], Path], tmp_path: Path):
    given, told = tried
    for arguments in (["train", "dates", *tiny(), "--out", "run"], ["predict", "run", "9 May 2018"]):
        code, _, errors = finish(start(*arguments, env=given, cwd=tmp_path))
        assert code == 0, errors
    assert not told.exists()
