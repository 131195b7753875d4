"""Before anything of regard is imported: shapes in signatures become checked, the hub unreachable, sums repeatable."""

import gc
import os
import random
import signal

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
import torch

from tests import checked, selection

checked.install("regard")
gc.disable()  # until all tests are collected: what they import stays, and need not be gone through time and again
gc.set_threshold(100_000, 50, 100)
torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in the background, and in commands started from there
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # under nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves out, before the marker is read."""
    selection.mark_thorough(items)


def pytest_collection_finish() -> None:
    """The tests and what they import stay, and are not gone through again, nor when the process ends."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from the same random state and on one thread, whatever ran before it."""
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def regard(capsys: pytest.CaptureFixture[str]):
    """One command in this process: exit code, standard output, standard error."""
    from regard.cli.main import main  # only now, behind the hook above

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call
