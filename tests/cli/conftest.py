"""One tiny run to try the commands on, and commands in this process."""

import sys
from pathlib import Path

import pytest

from tests.cli.command import finish, start, tiny


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, in a folder whose name is not easy."""
    folder = tmp_path_factory.mktemp("runs") / (
        "größe – 日本 run" if sys.getfilesystemencoding() == "utf-8" else "a run"
    )
    code, output, errors = finish(start("train", "dates", "--out", str(folder), *tiny()))
    assert code == 0, errors
    assert "test/exact-match" in output
    assert str(folder) in output
    return folder
