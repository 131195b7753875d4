"""SIGHUP: whenever it comes, the server lives, and its runs become those on the disk; no request is dropped."""

import itertools
import re
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from regard.serve import hangup
from regard.storage.run_folder import WEIGHTS, RunDirectory
from tests.cli.command import fresh
from tests.runs.test_load import make
from tests.serve.serving import until

TEXT = "abcdefg"


class Client(threading.Thread):
    """Requests one after the other on one connection until it may stop: the statuses and the different predictions, in
    their order."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.url, self.stop = f"{address}/api/runs/run/predict", threading.Event()
        self.statuses, self.predictions = set[int](), list[Any]()
        self.start()

    def run(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self.stop.is_set():
                response = client.post(self.url, json={"text": TEXT, "beam": 1})
                self.statuses.add(response.status_code)
                prediction = response.json()["tokens"]
                if not self.predictions or prediction != self.predictions[-1]:
                    self.predictions.append(prediction)


def test_hangups_reload_from_the_start_of_the_command_on(tmp_path: Path):
    """One before the runs are loaded is followed once they are; one with other weights on the disk changes the answers
    of all clients for good, and none of them loses a request."""
    folder, model = make(tmp_path)
    dice = torch.Generator().manual_seed(17)
    state = {name: torch.randn(value.shape, generator=dice) for name, value in model.state_dict().items()}
    with fresh("serve", str(folder), "--port", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        maps = Path(f"/proc/{process.pid}/maps")
        until(lambda: "libtorch" in maps.read_text(encoding="utf-8"))
        process.send_signal(signal.SIGHUP)
        address = re.search(r"\S+://\S+:\d+", process.stdout.readline())
        assert address is not None
        assert process.stderr.readline() == "regard: reloaded: run\n"
        clients = [Client(address.group()) for _ in range(3)]
        until(lambda: all(client.predictions for client in clients))
        with RunDirectory.create(folder, resume=True) as run:
            run.save_tensors(WEIGHTS, state)
        process.send_signal(signal.SIGHUP)
        assert process.stderr.readline() == "regard: reloaded: run\n"
        until(lambda: all(len(client.predictions) > 1 for client in clients))
        for client in clients:
            client.stop.set()
            client.join(60)
        process.terminate()
        assert process.wait(60) == 143
    assert [client.statuses for client in clients] == [{200}] * 3
    assert all(client.predictions == clients[0].predictions and len(client.predictions) == 2 for client in clients)


def test_a_terminal_that_is_closed_ends_the_command_except_under_nohup(monkeypatch: pytest.MonkeyPatch):
    """Whether its terminal is there is only checked by opening it."""
    before = signal.getsignal(signal.SIGHUP)
    for handler, ends in ((signal.SIG_DFL, True), (signal.SIG_IGN, False)):
        answers = itertools.chain([True] if ends else [], itertools.repeat(False))
        monkeypatch.setattr(hangup, "has_terminal", lambda answers=answers: next(answers))
        signal.signal(signal.SIGHUP, handler)
        with hangup.noting_hangups() as noted:
            assert noted.closed is ends
            if not ends:
                signal.raise_signal(signal.SIGHUP)
                assert noted.came
        assert signal.getsignal(signal.SIGHUP) == handler
    signal.signal(signal.SIGHUP, before)
