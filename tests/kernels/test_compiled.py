"""Libraries that are compiled on the user's machine."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.kernels import compiled as module
from regard.kernels.compiled import compiled, compiler
from tests.code.tree import SOURCE


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


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_row_78_a_damaged_library_is_made_again(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = b"\x7fELF" + bytes(range(256)) * 8
    monkeypatch.setattr(module.subprocess, "run", lambda command, **_: Path(command[-1]).write_bytes(content))
    opened: list[bytes] = []
    monkeypatch.setattr(module.ctypes, "CDLL", lambda path: opened.append(Path(path).read_bytes()))
    compiled("additive")
    [made] = (tmp_path / "cache" / "regard").iterdir()
    whole = made.read_bytes()
    made.write_bytes({"cut": whole[:1000], "flipped": b"\x7fELG" + whole[4:], "empty": b""}[damage])
    compiled.cache_clear()
    compiled("additive")
    assert opened == [whole, whole]
    assert whole.startswith(content)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_row_78_a_cut_library_ends_nothing(tmp_path: Path):
    code = "from regard.kernels.additive import library; assert library() is not None"
    command = [sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "XDG_CACHE_HOME": str(tmp_path)}
    assert subprocess.run(command, env=env, check=False).returncode == 0
    [made] = (tmp_path / "regard").iterdir()
    os.truncate(made, 1000)
    assert subprocess.run(command, env=env, check=False).returncode == 0
    assert made.stat().st_size > 1000


def test_row_77_without_a_home_libraries_are_in_a_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = module.cache_folder()
    assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path, 0o700)
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="others can write to it"):
        module.cache_folder()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="others can write to it"):
        module.cache_folder()
    assert compiled("additive") is None
