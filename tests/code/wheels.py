"""Build each wheel twice, in two copies of the sources, and compare their SHA-256 (`make wheels-twice`)."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.code.tree import ROOT


def build(folder: Path, compiles: str) -> Path:
    """Return the wheel of a fresh copy of the sources in a folder."""
    source = shutil.copytree(
        ROOT, folder / "source", ignore=shutil.ignore_patterns(".*", "*.egg-info", "build", "tests")
    )
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source]
    subprocess.run(
        command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600", "REGARD_COMPILE": compiles}
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> int:
    """Print the digests of the pure wheel and of the one with kernels, and return 1 if two differ."""
    differs = False
    for compiles in "01":
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            wheels = [build(Path(folder), compiles) for folder in (one, other)]
            digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
            print(*digests, wheels[0].name)
            differs |= digests[0] != digests[1]
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
