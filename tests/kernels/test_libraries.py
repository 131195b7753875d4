"""Libraries of the C++ sources: those of an installation, and those that are compiled on the user's machine."""

import ctypes
import logging
import os
import subprocess
from pathlib import Path

import pytest
import torch

from regard.kernels import compiler, cpu
from regard.kernels.compiler import AVX2, AVX512, INSTRUCTIONS, NEON
from regard.kernels.cpu import find

CONTENT = b"\x7fELF" + bytes(range(256)) * 8


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("REGARD_COMPILE", raising=False)
    monkeypatch.setattr(cpu, "widest_instructions", lambda: AVX2)
    cpu._warn.cache_clear()
    find.cache_clear()
    yield
    find.cache_clear()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The contents of the libraries that are loaded. A compiler stands in that copies nothing but `CONTENT`."""
    found: list[bytes] = []

    genuine = ctypes.CDLL

    def load(path: str) -> ctypes.CDLL:
        found.append(Path(path).read_bytes())
        return genuine(None)

    def run(command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        Path(command[-1]).write_bytes(CONTENT)
        return subprocess.CompletedProcess(command, 0, "")

    monkeypatch.setattr(compiler.subprocess, "run", run)
    monkeypatch.setattr(compiler, "compiler", lambda: "/usr/bin/c++")
    monkeypatch.setattr(cpu, "threads", lambda: None)
    monkeypatch.setattr(cpu.ctypes, "CDLL", load)
    return found


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of sources in an installation, without additive."""
    folder = tmp_path / "lib" / "regard" / "kernels"
    folder.mkdir(parents=True)
    (folder / "additive.cpp").write_bytes((compiler.SOURCES / "additive.cpp").read_bytes())
    monkeypatch.setattr(compiler, "SOURCES", folder)
    return folder


def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "regard" / "kernels"


def test_a_source_tree_compiles_a_library_once(tmp_path: Path, opened: list, monkeypatch: pytest.MonkeyPatch):
    assert find("additive").description == "a kernel for AVX2 that was compiled on this machine"
    [made] = folder(tmp_path).iterdir()
    assert made.name.startswith("additive-avx2-")
    find.cache_clear()
    monkeypatch.setattr(compiler, "compile_library", pytest.fail)
    find("additive")
    assert [content[: -cpu.DIGEST] for content in opened] == [CONTENT, CONTENT]


def test_an_installation_loads_what_it_carries(installed: Path, opened: list, tmp_path: Path):
    compiler.compile_library("c++", "additive", AVX2, installed / "additive-avx2.so")
    assert find("additive").description == "a kernel for AVX2 that this installation carries"
    assert len(opened) == 1
    assert not folder(tmp_path).exists()


@pytest.mark.usefixtures("installed")
def test_an_installation_without_libraries_compiles_when_the_user_says_so(
    opened: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    assert find("additive") == (
        None,
        "this installation carries no kernel for AVX2; REGARD_COMPILE=1 has a C++ compiler make it at its first use",
    )
    assert not folder(tmp_path).exists()
    assert not opened
    assert not caplog.text
    monkeypatch.setenv("REGARD_COMPILE", "1")
    find.cache_clear()
    assert find("additive").description == "a kernel for AVX2 that was compiled on this machine"


def test_a_source_tree_compiles_nothing_if_the_user_says_so(opened: list, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGARD_COMPILE", "0")
    assert find("additive").library is None
    assert not opened


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another machine's"])
@pytest.mark.usefixtures("opened")
def test_a_damaged_library_of_an_installation_is_not_loaded(
    damage: str, installed: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    path = installed / "additive-avx2.so"
    compiler.compile_library("c++", "additive", AVX2, path)
    whole = path.read_bytes()
    if damage == "another machine's":
        monkeypatch.undo()
        monkeypatch.setattr(compiler, "SOURCES", installed)
        monkeypatch.setattr(cpu, "widest_instructions", lambda: AVX2)
        reason = f"{path}: "
    else:
        path.write_bytes({"cut": whole[:1000], "flipped": b"\x7fELG" + whole[4:], "empty": b""}[damage])
        reason = f"{path} is damaged; install regard again"
    assert find("additive").library is None
    [message] = caplog.messages
    assert message.startswith(f"kernels cannot be used, so this is slower: {reason}")


@pytest.mark.parametrize(
    ("machine", "capability", "expected"),
    [
        ("x86_64", "AVX512", AVX512),
        ("x86_64", "AVX2", AVX2),
        ("x86_64", "DEFAULT", None),
        ("aarch64", "DEFAULT", NEON),
        ("aarch64", "SVE256", NEON),
        ("riscv64", "DEFAULT", None),
    ],
)
def test_the_processor_decides(machine: str, capability: str, expected, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    monkeypatch.setattr(cpu.platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert cpu.widest_instructions() is expected
    if expected is None:
        assert find("additive") == (None, "this processor has neither AVX2 nor NEON")


@pytest.mark.parametrize("stated", [{}, {"CXX": "no-such-compiler"}, {"REGARD_COMPILE": "1"}], ids=str)
def test_without_a_compiler_there_is_none(
    stated: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    for name, value in {"CXX": "c++", "PATH": "", **stated}.items():
        monkeypatch.setenv(name, value)
    if "CXX" not in stated:
        monkeypatch.delenv("CXX")
    reason = "there is no C++ compiler; install one, or name yours in CXX"
    assert find("additive").library is None
    assert find("additive").description.endswith(reason)
    assert caplog.messages == ([f"kernels cannot be used, so this is slower: {reason}"] if stated else [])


def test_a_compiler_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setenv("CXX", "false")
    program = compiler.compiler()
    reason = f"{program} ended with exit code 1"
    assert find("additive") == (None, f"the kernel cannot be used: {reason}")
    assert caplog.messages == [f"kernels cannot be used, so this is slower: {reason}"]


@pytest.mark.skipif(compiler.compiler() is None, reason="no C++ compiler")
@pytest.mark.usefixtures("installed")
def test_a_source_that_is_not_c_plus_plus_is_one_line(
    installed: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    (installed / "additive.cpp").write_text("this is not C++")
    monkeypatch.setenv("REGARD_COMPILE", "1")
    with caplog.at_level(logging.WARNING, "regard"):
        assert find("additive").library is None
    assert "additive.cpp:1:1: error" in caplog.text
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("owned", ["folder", "folder's mode", "library"])
def test_what_somebody_else_may_have_made_is_not_loaded(
    owned: str, tmp_path: Path, opened: list, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    find("additive")
    [made] = folder(tmp_path).iterdir()
    find.cache_clear()
    if owned == "folder's mode":
        folder(tmp_path).chmod(0o777)
    elif os.getuid():
        pytest.skip("only root gives files away")
    else:
        os.chown(made if owned == "library" else folder(tmp_path), 12345, 12345)
    assert find("additive").library is None
    assert len(opened) == 1
    reason = {
        "folder": f"{folder(tmp_path)}: others can write to it; set XDG_CACHE_HOME to a folder of your own",
        "library": f"{made} is somebody else's; remove it",
    }[owned.removesuffix("'s mode")]
    assert caplog.messages == [f"kernels cannot be used, so this is slower: {reason}"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_library_is_made_again(damage: str, tmp_path: Path, opened: list):
    find("additive")
    [made] = folder(tmp_path).iterdir()
    whole = made.read_bytes()
    made.write_bytes({"cut": whole[:1000], "flipped": b"\x7fELG" + whole[4:], "empty": b""}[damage])
    find.cache_clear()
    find("additive")
    assert opened == [whole, whole]


def test_without_a_home_libraries_are_in_a_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(cpu.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = cpu.cache_folder()
    assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path, 0o700)
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="others can write to it"):
        cpu.cache_folder()


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("x86_64-linux-gnu", INSTRUCTIONS[:2]),
        ("x86_64-pc-linux-gnu", INSTRUCTIONS[:2]),
        ("aarch64-linux-gnu", (NEON,)),
        ("x86_64-alpine-linux-musl", ()),
        ("riscv64-linux-gnu", ()),
    ],
)
def test_the_compiler_names_its_machine(machine: str, expected: tuple, monkeypatch: pytest.MonkeyPatch):
    done = subprocess.CompletedProcess([], 0, machine + "\n")
    monkeypatch.setattr(compiler.subprocess, "run", lambda *_, **__: done)
    assert compiler.find_instructions("c++") == expected
