"""Freed memory stays in a process that trains."""

import subprocess
import sys

import pytest

from regard.training import devices
from tests.cli.command import environment

PROGRAM = """
import sys, torch
from regard.training.devices import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
first = torch.ones(8_000_000)  # 32 MB: a block of its own, which a fresh process returns whole
before = resident()
del first
print(before - resident())
"""


def freed(way: str) -> int:
    """Bytes that a process returns to the kernel when it frees 32 MB."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(devices.platform.libc_ver()[0] != "glibc", reason="glibc only")
@pytest.mark.slow
def test_memory_of_freed_tensors_stays_in_the_process():
    assert freed("kept") < 1_000_000
    assert freed("returned") > 30_000_000


@pytest.mark.slow
def test_other_systems_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices.platform, "libc_ver", lambda: ("", ""))
    assert not devices.keep_freed_memory()
