"""Compilation of the C++ sources in this folder.

They are compiled into a wheel by `setup.py`, or on the user's machine at their first
use. This module must not import PyTorch, which the build of a wheel lacks.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent
VARIABLE = "REGARD_COMPILE"
"""The environment variable that turns compilation on (1) or off (0)."""
NO_COMPILER = "there is no C++ compiler; install one, or name yours in CXX"
FLAGS = ("-std=c++20", "-O3", "-ffp-contract=fast", "-fPIC", "-shared", "-s")
TIMEOUT = 600
"""Time limit of the compiler in seconds; on an idle core it needs about six."""


class Instructions(NamedTuple):
    """An instruction set of processors that libraries are compiled for.

    Attributes:
        name: The name in the names of files.
        title: The name in messages.
        machine: The architecture, as in the compiler's target triple.
        flags: The compiler's flags.
    """

    name: str
    title: str
    machine: str
    flags: tuple[str, ...]


AVX512 = Instructions(
    "avx512",
    "AVX-512",
    "x86_64",
    ("-mavx512f", "-mfma"),
)
AVX2 = Instructions(
    "avx2",
    "AVX2",
    "x86_64",
    ("-mavx2", "-mfma"),
)
NEON = Instructions(
    "neon",
    "NEON",
    "aarch64",
    (),
)
INSTRUCTIONS = (AVX512, AVX2, NEON)


def compiler() -> str | None:
    """Return the path of the C++ compiler: the environment variable CXX, else `c++`.

    It is None if there is no compiler, or the system is not Linux.
    """
    if platform.system() != "Linux":
        return None
    return shutil.which(os.environ.get("CXX", "c++"))


def find_instructions(program: str) -> tuple[Instructions, ...]:
    """Return the instruction sets that a compiler, or a cross compiler, compiles for.

    There are none if its C library is not glibc.

    Raises:
        OSError: The compiler cannot be run, or fails.
        SubprocessError: It takes too long.
    """
    machine, _, system = _run(program, "-dumpmachine").strip().partition("-")
    return tuple(
        instructions
        for instructions in INSTRUCTIONS
        if instructions.machine == machine and system.endswith("linux-gnu")
    )


def _run(*command: str) -> str:
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if process.returncode:
        lines = process.stderr.strip().splitlines()
        lines.append(f"{command[0]} ended with exit code {process.returncode}")
        raise OSError(lines[0])
    return process.stdout


def names() -> list[str]:
    """Return the names of the sources, each of which becomes a library."""
    return sorted(source.stem for source in SOURCES.glob("*.cpp"))


def compile_library(
    program: str,
    name: str,
    instructions: Instructions,
    path: Path,
) -> None:
    """Compile a source into a library, and append the SHA-256 of the library's bytes.

    The digest shows a reader whether the file is complete; the system's loader ignores
    it.

    Args:
        program: The compiler.
        name: The name of the source, without its ending.
        instructions: The instruction set.
        path: The library to write. It is replaced as a whole.

    Raises:
        OSError: The compiler fails, or the library cannot be written.
        SubprocessError: The compiler takes too long.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        library = Path(folder) / path.name
        source = SOURCES / f"{name}.cpp"
        _run(
            program,
            *FLAGS,
            *instructions.flags,
            str(source),
            "-o",
            str(library),
        )
        with library.open("r+b") as file:
            file.write(hashlib.sha256(file.read()).digest())
            file.flush()
            os.fsync(file.fileno())
        library.replace(path)
