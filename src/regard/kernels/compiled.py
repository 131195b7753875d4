"""The C++ sources of this package. Each is compiled on the user's machine when it is first used."""

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

SOURCES = Path(__file__).parent
TORCH = Path(torch.__file__).parent
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared")
DIGEST = hashlib.sha256().digest_size
LONGEST = 600
"""Time limit of the compiler in seconds; on an idle core it needs about three."""

log = logging.getLogger("regard")


def compiler() -> str | None:
    """The C++ compiler of this machine: the environment variable CXX, else `c++`. None if there is none or the system
    is not Linux."""
    if platform.system() != "Linux":
        return None
    return shutil.which(os.environ.get("CXX", "c++"))


def cache_folder() -> Path:
    """Folder of compiled libraries: one for each source, its flags, the version of PyTorch and the processor type.

    A process without a home has a folder of its user's in the system's temporary folder. Raises OSError if that is
    somebody else's.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
    except RuntimeError:  # neither HOME nor an entry for the user
        return _private(Path(tempfile.gettempdir()) / f"regard-{os.getuid()}")


def _private(folder: Path) -> Path:
    """The folder, made if it is missing. Raises OSError if others can write to it, since its libraries are executed."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder}: others can write to it; set XDG_CACHE_HOME to a folder of your own")
    return folder


@cache
def compiled(name: str, *flags: str) -> ctypes.CDLL | None:
    """The library compiled from `name`.cpp with these additional flags; None, with a warning in the log, if compilation
    fails."""
    program = compiler()
    if program is None:
        return None
    source = SOURCES / f"{name}.cpp"
    try:
        path = cache_folder() / f"{name}-{_digest(source, flags)}.so"
        if not _whole(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _compile(program, source, path, flags)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        log.warning("%s cannot be compiled, so this is slower: %s", source.name, reason[0] if reason else error)
        return None


@cache
def threads() -> ctypes.c_void_p:
    """PyTorch's parallel_for from its stable interface, so that kernels run on PyTorch's threads without a second
    pool."""
    return ctypes.cast(ctypes.CDLL(str(TORCH / "lib" / "libtorch_cpu.so")).torch_parallel_for, ctypes.c_void_p)


def _digest(source: Path, flags: tuple[str, ...]) -> str:
    sources = [file.read_bytes() for file in (source, *sorted(source.parent.glob("*.h")))]
    identity = sources, torch.__version__, str(TORCH), (*FLAGS, *flags), platform.machine()
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]


def _whole(path: Path) -> bool:
    """Whether the library is there as it was made. A process that maps a cut one would be killed by a signal."""
    if not path.is_file():
        return False
    content = path.read_bytes()
    return hashlib.sha256(content[:-DIGEST]).digest() == content[-DIGEST:]


def _compile(program: str, source: Path, path: Path, flags: tuple[str, ...]) -> None:
    """Compile the source into a library that ends in its own SHA-256, which loaders ignore. Raises OSError or
    SubprocessError."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / path.name
        places = ["-isystem", str(TORCH / "include"), f"-L{TORCH / 'lib'}", f"-Wl,-rpath,{TORCH / 'lib'}"]
        command = [program, *FLAGS, *flags, str(source), *places, "-lc10", "-o", str(built)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONGEST)
        with built.open("r+b") as file:
            file.write(hashlib.sha256(file.read()).digest())
            file.flush()
            os.fsync(file.fileno())
        built.replace(path)
