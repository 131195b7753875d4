"""The C++ sources of this package, each compiled on the user's machine when it is used for the first time."""

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

SOURCES = Path(__file__).parent
TORCH = Path(torch.__file__).parent
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared")
LONGEST = 600
"""Seconds that the compiler may take; it needs about three, where it has a core to itself."""

log = logging.getLogger("regard")


def compiler() -> str | None:
    """The C++ compiler of this machine, that of the environment variable CXX before others; None without one, and where
    libraries of this kind are not made."""
    if platform.system() != "Linux":
        return None
    return shutil.which(os.environ.get("CXX", "c++"))


def cache_folder() -> Path:
    """Where the libraries are kept, one for each source, its flags, version of PyTorch and kind of processor."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"


@cache
def compiled(name: str, *flags: str) -> ctypes.CDLL | None:
    """The library made of the source `name`.cpp with these flags besides; None, told in the log, where it cannot be
    made."""
    program = compiler()
    if program is None:
        return None
    source = SOURCES / f"{name}.cpp"
    path = cache_folder() / f"{name}-{_digest(source, flags)}.so"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _compile(program, source, path, flags)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        log.warning("%s cannot be compiled, so this is slower: %s", source.name, reason[0] if reason else error)
        return None


@cache
def threads() -> ctypes.c_void_p:
    """PyTorch's own parallel_for, of its stable interface: its threads, and no second pool beside them."""
    return ctypes.cast(ctypes.CDLL(str(TORCH / "lib" / "libtorch_cpu.so")).torch_parallel_for, ctypes.c_void_p)


def _digest(source: Path, flags: tuple[str, ...]) -> str:
    sources = [file.read_bytes() for file in (source, *sorted(source.parent.glob("*.h")))]
    identity = sources, torch.__version__, str(TORCH), (*FLAGS, *flags), platform.machine()
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]


def _compile(program: str, source: Path, path: Path, flags: tuple[str, ...]) -> None:
    """Raises OSError or SubprocessError."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        places = ["-isystem", str(TORCH / "include"), f"-L{TORCH / 'lib'}", f"-Wl,-rpath,{TORCH / 'lib'}"]
        command = [program, *FLAGS, *flags, str(source), *places, "-lc10", "-o", str(built)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONGEST)
        built.replace(path)
