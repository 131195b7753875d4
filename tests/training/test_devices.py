"""The device and the precision of each setting; freed memory stays in a process that trains."""

import subprocess
import sys

import pytest
import torch

from regard.training import settings
from regard.training.settings import choose_device, choose_precision, supports_bf16_products
from tests.cli.command import environment


def test_what_is_named_is_taken():
    assert choose_device("cpu") == "cpu"
    assert [choose_precision(name, "cpu") for name in ("fp32", "bf16")] == ["fp32", "bf16"]


@pytest.mark.parametrize(("able", "precision"), [(False, "fp32"), (True, "bf16")])
def test_auto_is_bf16_where_the_processor_multiplies_it(able: bool, precision: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: able)
    assert choose_precision("auto", "cpu") == precision


def test_no_bf16_on_a_device_that_nobody_knows():
    assert not supports_bf16_products("mps")


PROGRAM = """
import sys, torch
from regard.training.settings import keep_freed_memory
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


@pytest.mark.skipif(settings.platform.libc_ver()[0] != "glibc", reason="glibc only")
@pytest.mark.slow
def test_memory_of_freed_tensors_stays_in_the_process():
    assert freed("kept") < 1_000_000
    assert freed("returned") > 30_000_000


@pytest.mark.slow
def test_other_systems_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(settings.platform, "libc_ver", lambda: ("", ""))
    assert not settings.keep_freed_memory()
