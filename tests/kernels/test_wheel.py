"""What `setup.py` builds: wheels with libraries for one machine, or pure ones."""

import io
import platform
import re
from contextlib import redirect_stderr
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest

from regard.kernels import compiler, cpu
from regard.kernels.compiler import INSTRUCTIONS, NEON, Instructions
from tests.code.tree import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:.*setup.py install is deprecated")  # by setuptools' own bdist_wheel
setuptools = pytest.importorskip("setuptools", "77")
SYMBOLS = b"\0GLIBC_2.2.5\0GLIBCXX_3.4\0CXXABI_1.3.11\0GLIBC_2.14\0"


@pytest.fixture
def build() -> ModuleType:
    spec = spec_from_file_location("setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with kernels, in the current folder, with a compiler that stands in."""
    folder = tmp_path / "regard" / "kernels"
    folder.mkdir(parents=True)
    for each in (folder.parent, folder):
        (each / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_COMPILE", raising=False)
    monkeypatch.setattr(compiler, "compiler", lambda: "c++")
    monkeypatch.setattr(compiler, "names", lambda: ["additive", "other"])
    return tmp_path


def wheel(build: ModuleType, package: Path) -> tuple[str, list[str]]:
    """Its tag and its libraries."""
    commands = {"build_py": build.BuildWithKernels, "bdist_wheel": build.Wheel}
    named = {"name": "toy", "version": "1", "packages": ["regard", "regard.kernels"], "script_name": "setup.py"}
    made = setuptools.Distribution({**named, "cmdclass": commands})
    made.run_command("bdist_wheel")
    [path] = (package / "dist").iterdir()
    with ZipFile(path) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
    path.unlink()
    return path.stem.removeprefix("toy-1-"), libraries


def compiles(monkeypatch: pytest.MonkeyPatch, machine: tuple[Instructions, ...], symbols: bytes = SYMBOLS) -> None:
    monkeypatch.setattr(compiler, "find_instructions", lambda program: machine)
    monkeypatch.setattr(compiler, "compile_library", lambda program, name, each, path: path.write_bytes(symbols))


@pytest.mark.parametrize(("machine", "tag"), [(INSTRUCTIONS[:2], "x86_64"), ((NEON,), "aarch64")])
def test_a_wheel_carries_a_library_for_each_source_and_instructions(
    machine: tuple[Instructions, ...], tag: str, build: ModuleType, package: Path, monkeypatch: pytest.MonkeyPatch
):
    compiles(monkeypatch, machine)
    expected = [f"regard/kernels/{name}-{each.name}.so" for name in ("additive", "other") for each in machine]
    found, libraries = wheel(build, package)
    assert (found, libraries) == (f"py3-none-manylinux_2_28_{tag}", sorted(expected))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc here")
@pytest.mark.parametrize("name", compiler.names())
def test_a_kernel_needs_no_newer_library_than_the_tag_names(name: str, build: ModuleType):
    library = cpu.find(name).library
    if library is None:
        pytest.skip("no kernel here")
    assert build.is_manylinux(Path(library._name))


def test_a_wheel_is_pure_if_the_user_says_so(build: ModuleType, package: Path, monkeypatch: pytest.MonkeyPatch):
    old = package / "build" / "lib" / "regard" / "kernels"
    old.mkdir(parents=True)
    (old / "additive-neon.so").touch()  # of an earlier build
    monkeypatch.setenv("REGARD_COMPILE", "0")
    assert wheel(build, package) == ("py3-none-any", [])


@pytest.mark.parametrize("symbol", [b"GLIBC_2.34", b"GLIBCXX_3.4.32", b"CXXABI_1.3.15"])
def test_a_library_for_newer_systems_has_their_tag(
    symbol: bytes, build: ModuleType, package: Path, monkeypatch: pytest.MonkeyPatch
):
    compiles(monkeypatch, (NEON,), SYMBOLS + symbol + b"\0")
    assert wheel(build, package)[0] == "py3-none-linux_aarch64"


def test_a_wheel_for_another_machine_is_pure(build: ModuleType, package: Path, monkeypatch: pytest.MonkeyPatch):
    compiles(monkeypatch, ())
    assert wheel(build, package) == ("py3-none-any", [])


@pytest.mark.parametrize("stated", ["", "1"])
@pytest.mark.parametrize("cause", ["no compiler", "failure"])
def test_what_cannot_be_compiled_is_left_out_in_one_line(
    cause: str, stated: str, build: ModuleType, package: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(program: str, name: str, each: Instructions, path: Path) -> None:
        path.touch()
        raise OSError("no space left")

    compiles(monkeypatch, (NEON,))
    monkeypatch.setattr(compiler, "compile_library", fail)
    reason = "the kernels are not compiled: no space left"
    if cause == "no compiler":
        monkeypatch.setattr(compiler, "compiler", lambda: None)
        reason = "the kernels are not compiled: there is no C++ compiler; install one, or name yours in CXX"
    monkeypatch.setenv("REGARD_COMPILE", stated)
    if stated:
        with pytest.raises(SystemExit, match=f"^{re.escape(reason)}$"):
            wheel(build, package)
        return
    lines = io.StringIO()
    with redirect_stderr(lines):
        assert wheel(build, package) == ("py3-none-any", [])
    ours = [line for line in lines.getvalue().splitlines() if "pure" in line]  # setuptools logs lines of its own
    assert ours == [f"{reason}; the wheel is pure"]
