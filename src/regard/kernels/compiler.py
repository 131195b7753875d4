"""Compilation of the C++ sources beside this file.

Into a wheel by `setup.py`, or on the user's machine at their first use. It needs no
PyTorch.
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
"""The environment variable that asks for libraries, 1, or for none, 0."""
NO_COMPILER = "there is no C++ compiler; install one, or name yours in CXX"
FLAGS = ("-std=c++20", "-O3", "-ffp-contract=fast", "-fPIC", "-shared", "-s")
LONGEST = 600
"""Time limit of the compiler in seconds; on an idle core it needs about six."""


class Instructions(NamedTuple):
    """Instructions of a processor that libraries are compiled for.

    Their name in files and in messages, the machine as `platform.machine` names it, and
    the compiler's flags.
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
    """Return the C++ compiler: the environment variable CXX, else `c++`.

    None if there is none or the system is not Linux.
    """
    if platform.system() != "Linux":
        return None
    return shutil.which(os.environ.get("CXX", "c++"))


def find_instructions(program: str) -> tuple[Instructions, ...]:
    """Return the instructions that a compiler, perhaps a cross compiler, compiles for.

    None if its C library is not glibc. Raises OSError or SubprocessError.
    """
    machine, _, system = _run(program, "-dumpmachine").strip().partition("-")
    return tuple(
        instructions
        for instructions in INSTRUCTIONS
        if instructions.machine == machine and system.endswith("linux-gnu")
    )


def _run(*command: str) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        lines.append(f"{command[0]} ended with exit code {done.returncode}")
        raise OSError(lines[0])
    return done.stdout


def names() -> list[str]:
    """Return the names of the sources, each of which becomes a library."""
    return sorted(source.stem for source in SOURCES.glob("*.cpp"))


def compile_library(
    program: str,
    name: str,
    instructions: Instructions,
    path: Path,
) -> None:
    """Compile a source into a library that ends in its own SHA-256, which loaders ignore.

    Raises OSError or SubprocessError.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        source = SOURCES / f"{name}.cpp"
        _run(
            program,
            *FLAGS,
            *instructions.flags,
            str(source),
            "-o",
            str(built),
        )
        with built.open("r+b") as file:
            file.write(hashlib.sha256(file.read()).digest())
            file.flush()
            os.fsync(file.fileno())
        built.replace(path)
