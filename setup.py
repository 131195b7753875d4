"""Wheels that carry the compiled kernels. Everything else about the package is in pyproject.toml.

With a C++ compiler for Linux (CXX, else `c++`; a cross compiler makes a wheel for its machine) a wheel carries
libraries and has the tag of that machine; without one, or with REGARD_COMPILE=0, it is pure. With REGARD_COMPILE=1 a
compiler that is missing or fails ends the build.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent / "src"))
from regard.kernels import compiler

MANYLINUX = (2, 28)  # PyTorch's own, so that no machine with PyTorch lacks it
NEWEST = {"GLIBC": MANYLINUX, "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11)}  # symbols that it has (PEP 600)


class BuildWithKernels(build_py):
    """Copies the package and compiles its kernels beside it."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # a source tree compiles its kernels when they are first used
        folder = Path(self.build_lib) / "regard" / "kernels"
        for old in folder.glob("*.so"):
            old.unlink()
        stated = os.environ.get(compiler.VARIABLE, "")
        if stated == "0":
            return
        try:
            compile_all(folder)
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"the kernels are not compiled: {getattr(error, 'stderr', '') or error}".strip()
            if stated == "1":
                raise SystemExit(reason) from error
            print(f"{reason}; the wheel is pure", file=sys.stderr)


def compile_all(folder: Path) -> None:
    """Compile every source for all instructions of the compiler's machine.

    Raises:
        OSError: There is no compiler; no library is left then.
        SubprocessError: The compiler fails; no library is left then.
    """
    program = compiler.compiler()
    if program is None:
        raise OSError(compiler.NO_COMPILER)
    tasks = [(name, each) for each in compiler.find_instructions(program) for name in compiler.names()]
    paths = [folder / f"{name}-{each.name}.so" for name, each in tasks]

    def compile_one(task: tuple[str, compiler.Instructions], path: Path) -> None:
        compiler.compile_library(program, *task, path)

    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, tasks, paths))
    except (OSError, subprocess.SubprocessError):
        for path in paths:
            path.unlink(missing_ok=True)
        raise


class Wheel(bdist_wheel):
    """A wheel for any Python, and for one machine if it carries libraries."""

    def run(self) -> None:
        self.run_command("build")
        if self.libraries():
            self.root_is_pure = False
            self.distribution.has_ext_modules = lambda: True  # installs into the folder of machine code
        super().run()

    def libraries(self) -> list[Path]:
        return sorted(Path(self.get_finalized_command("build").build_lib).glob("regard/kernels/*.so"))

    def get_tag(self) -> tuple[str, str, str]:
        libraries = self.libraries()
        if not libraries:
            return "py3", "none", "any"
        names = {path.stem.partition("-")[2] for path in libraries}
        [machine] = {each.machine for each in compiler.INSTRUCTIONS if each.name in names}
        system = "manylinux_{}_{}".format(*MANYLINUX) if all(map(is_manylinux, libraries)) else "linux"
        return "py3", "none", f"{system}_{machine}"


def is_manylinux(library: Path) -> bool:
    """Whether every symbol of the C and C++ libraries that this one needs is old enough for the tag."""
    needed = re.findall(rb"\0(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)(?=\0)", library.read_bytes())
    return all(tuple(map(int, version.split(b"."))) <= NEWEST[name.decode()] for name, version in needed)


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithKernels, "bdist_wheel": Wheel})
