"""Libraries that are compiled on the user's machine."""

import logging
from pathlib import Path

import pytest

from regard.kernels import compiled as module
from regard.kernels.compiled import compiled, compiler


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compiled.cache_clear()
    yield
    compiled.cache_clear()


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_a_library_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert compiled("additive") is not None
    [made] = (tmp_path / "cache" / "regard").iterdir()
    compiled.cache_clear()
    monkeypatch.setattr(module, "_compile", pytest.fail)
    assert compiled("additive") is not None
    monkeypatch.undo()
    assert made.name.startswith("additive-")


def test_without_a_compiler_there_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compiler() is None
    assert compiled("additive") is None


def test_elsewhere_than_on_linux_there_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module.platform, "system", lambda: "Windows")
    assert compiled("additive") is None


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("cause", ["source", "folder"])
def test_one_that_cannot_be_made_is_told(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    if cause == "source":
        (tmp_path / "additive.cpp").write_text("this is not C++")
        monkeypatch.setattr(module, "SOURCES", tmp_path)
    else:
        (tmp_path / "cache").write_text("a file where the folder would be")
    with caplog.at_level(logging.WARNING, "regard"):
        assert compiled("additive") is None
    assert "additive.cpp cannot be compiled, so this is slower" in caplog.text
    assert len(caplog.text.splitlines()) == 1
