"""The instructions that this machine has, one after the other."""

from collections.abc import Iterator

import pytest

from regard.kernels import cpu
from regard.kernels.compiler import INSTRUCTIONS, Instructions

FOUND = cpu.widest_instructions()
NARROW = Instructions("narrow", "four lanes, as NEON has", "x86_64", ())
HERE = [each for each in INSTRUCTIONS[INSTRUCTIONS.index(FOUND) :] if each.machine == FOUND.machine] if FOUND else []
if FOUND and FOUND.machine == NARROW.machine:
    HERE.append(NARROW)


@pytest.fixture(params=HERE, ids=[each.name for each in HERE])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """This machine as if it knew no more instructions than these."""
    monkeypatch.setattr(cpu, "widest_instructions", lambda: request.param)
    caches = cpu.find, cpu.additive_library, cpu.best_tokens_library, cpu.few_rows_library
    for each in caches:
        each.cache_clear()
    try:
        if cpu.find("additive").library is None:
            pytest.skip(cpu.find("additive").description)
        yield request.param.name
    finally:
        for each in caches:
            each.cache_clear()
