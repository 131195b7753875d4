"""The packages that are installed for `.[all,docs,test]`, with their versions and hashes.

`python -m tests.code.constraints` writes constraints.txt, with the versions for any machine, and hashes.txt, with the
SHA-256 of each file for Linux on x86-64 with Python 3.11, as pip resolves them; versions that constraints.txt has stay.
With `--check` it only compares the two files with what is installed."""

import importlib.metadata
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.code.tree import ROOT

EXTRAS = ("all", "docs", "test")
VERSIONS, HASHES = ROOT / "constraints.txt", ROOT / "hashes.txt"
BUILD = "setuptools"
"""What builds the package itself, which pip would fetch on its own."""
LINE = re.compile(r"([a-z0-9-]+)==(\S+?)(?: --hash=sha256:([0-9a-f]{64}))?")


def listed(path: Path) -> dict[str, tuple[str, str | None]]:
    """Version and hash of each package in a file."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    found = {}
    for line in lines:
        parts = LINE.fullmatch(line)
        if parts is None:
            raise ValueError(f"{path}: {line!r}; expected name==version, and --hash=sha256:... in {HASHES.name}")
        found[parts[1]] = (parts[2], parts[3])
    return found


def installed() -> dict[str, str]:
    """The versions of all packages that regard's extras bring into this environment."""
    found: dict[str, str] = {}
    waiting: list[tuple[Requirement, frozenset[str]]] = [(Requirement("regard"), frozenset(EXTRAS))]
    seen = set()
    while waiting:
        requirement, extras = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        package = importlib.metadata.distribution(name)
        found[name] = package.version.partition("+")[0]
        for text in package.requires or ():
            needed = Requirement(text)
            marker = needed.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""})):
                waiting.append((needed, frozenset(needed.extras)))
    del found["regard"]
    return found


def here() -> bool:
    """Whether hashes.txt is for this machine; others install some packages more."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.version_info[:2] == (3, 11)


def faults() -> list[str]:
    """What the two files lack or have otherwise than this environment, and each other."""
    versions, hashes = listed(VERSIONS), listed(HASHES)
    lines = [f"{name}: {HASHES.name} has no hash" for name, (_, digest) in hashes.items() if digest is None]
    for name in sorted(versions.keys() | hashes.keys()):
        one, other = versions.get(name, ("none", None))[0], hashes.get(name, ("none", None))[0]
        if one != other:
            lines.append(f"{name}: {one} in {VERSIONS.name}, {other} in {HASHES.name}")
    for name, version in installed().items():
        if (name in versions or here()) and versions.get(name, ("none", None))[0] != version:
            lines.append(f"{name}: {version} is installed, {versions.get(name, ('none', None))[0]} listed")
    return lines


def resolved() -> list[tuple[str, str, str]]:
    """Name, version and SHA-256 of every package, as pip would install them here."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--report", report]
        target = f"{ROOT}[{','.join(EXTRAS)}]"
        subprocess.run([*command, "-c", VERSIONS, target, BUILD], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    packages = []
    for each in found:
        name, version = canonicalize_name(each["metadata"]["name"]), each["metadata"]["version"].partition("+")[0]
        if name != "regard":
            packages.append((name, version, each["download_info"]["archive_info"]["hashes"]["sha256"]))
    return sorted(packages)


def write() -> None:
    """Write both files."""
    packages = resolved()
    head = (
        "# All that `make` and CI install, made by `make constraints`; the library itself asks for lower bounds only."
    )
    plain = "".join(f"{name}=={version}\n" for name, version, _ in packages)
    VERSIONS.write_text(f"{head}\n{plain}", encoding="utf-8")
    head = "# The same with the SHA-256 of each file on Linux, x86-64, Python 3.11, with PyTorch's build for CPUs."
    hashed = "".join(f"{name}=={version} --hash=sha256:{digest}\n" for name, version, digest in packages)
    HASHES.write_text(f"{head}\n{hashed}", encoding="utf-8")
    print(f"{len(packages)} packages in {VERSIONS.name} and {HASHES.name}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        wrong = faults()
        print("\n".join(wrong) or f"{len(listed(HASHES))} packages, each with its version and hash")
        sys.exit(bool(wrong))
    write()
