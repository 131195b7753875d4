"""A run of four processes with sharded weights, which SIGKILL ends at random moments, in all processes or in one, while
checkpoints are written too: resumed on four processes, its last weights are those of an uninterrupted run, byte for
byte; resumed on two, which accumulate as many batches, they are the same but for rounding.

`python -m benchmarks.sharded_kills [SEED]`. Exit code 1 if any weights differ.
"""

import hashlib
import json
import multiprocessing
import os
import random
import shutil
import socket
import sys
import tempfile
import time
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import report
from regard.errors import RunError
from regard.storage.run_folder import METRICS, WEIGHTS, RunDirectory
from regard.training.loop import fit
from regard.training.settings import Training
from regard.training.supervised import Supervised

PROCESSES, MOMENTS, STEPS = 4, 6, 24
WORDS, WIDTH, ROWS = 4096, 128, 640
CLOSE = 1e-4


def model() -> nn.Module:
    """An embedding and two layers; a checkpoint has some ten megabytes."""
    torch.manual_seed(7)
    inner = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.Linear(4 * WIDTH, WIDTH))
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), inner, nn.Linear(WIDTH, WORDS))


def objective() -> Supervised[Tensor]:
    """Words that follow each other."""
    rows = list(torch.randint(WORDS, (ROWS, 5), generator=torch.Generator().manual_seed(3)))

    def loss(model: nn.Module, words: Tensor) -> Tensor:
        return functional.cross_entropy(model(words).flatten(0, 1), (3 * words + 1).flatten() % WORDS)

    return Supervised(train=rows, valid=rows[:8], collate=torch.stack, loss_of=loss, batch_size=8)


def settings(processes: int) -> Training:
    """A checkpoint every second update, and as many batches an update whatever the number of processes. With a small
    epsilon Adam would turn the rounding of a gradient near zero into a step of the learning rate."""
    return Training(
        steps=STEPS, checkpoint_every=2, validate_every=0, keep_best=0, log_every=1, learning_rate=1e-2, device="cpu",
        threads=1, patience=0, epsilon=1e-3, tensorboard=False, process_timeout=60, sharded=True,
        accumulate=PROCESSES // processes,
    )  # fmt: skip


def train(path: Path, rank: int, processes: int, port: int, resume: bool) -> None:
    """One process of a run; its exit code is that of the command."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes}
    os.environ.update({name: str(each) for name, each in names.items()}, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    sys.stderr = path.with_suffix(f".{rank}.log").open("a", encoding="utf-8")
    while rank and not (path / "manifest.json").is_file():
        time.sleep(0.02)
    run = RunDirectory.open(path) if rank else RunDirectory.create(path, resume=resume)
    try:
        fit(model(), objective(), settings(processes), run, resume=resume)
    except RunError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(error.exit_code)
    os._exit(0)


def start(path: Path, processes: int, resume: bool) -> list[ForkProcess]:
    """The processes of a run, which are forked from this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("fork")
    found = [context.Process(target=train, args=(path, rank, processes, port, resume)) for rank in range(processes)]
    for each in found:
        each.start()
    return found


def ended(processes: list[ForkProcess]) -> list[int | None]:
    """The exit codes of processes, which are awaited."""
    for each in processes:
        each.join()
    return [each.exitcode for each in processes]


def updates(path: Path) -> int:
    """The updates that a run has logged."""
    log = path / METRICS
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    return max((json.loads(line)["update"] for line in lines), default=0)


def kill(path: Path, dice: random.Random, everyone: bool) -> dict[str, Any]:
    """Start a run and kill its processes, or one of them, at a random moment."""
    processes, wanted = start(path, PROCESSES, False), dice.randrange(3, STEPS - 2)
    while updates(path) < wanted:
        time.sleep(0.002)
    time.sleep(dice.random() / 5)
    for each in processes if everyone else [dice.choice(processes)]:
        each.kill()
    codes = ended(processes)
    folders = sorted(each.name for each in (path / "checkpoints").iterdir())
    return {"killed": "all" if everyone else "one", "update": updates(path), "codes": codes, "folders": folders}


def weights(path: Path) -> tuple[str, dict[str, Tensor]]:
    """The digest of the last weights of a run, and these."""
    found = RunDirectory.open(path).load_tensors(WEIGHTS)
    return hashlib.sha256((path / WEIGHTS).read_bytes()).hexdigest(), found


def main(seed: int) -> int:
    """Kill and resume; print and write what came of it."""
    dice, rows = random.Random(seed), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if any(ended(start(folder / "whole", PROCESSES, False))):
            sys.exit("the uninterrupted run failed")
        right, whole = weights(folder / "whole")
        report.head(
            "killed", "update", "exit codes", "folders of checkpoints", "4: equal bytes", "2: largest difference"
        )
        for number in range(MOMENTS):
            path, other = folder / f"run-{number}", folder / f"other-{number}"
            row = kill(path, dice, number % 2 == 0)
            shutil.copytree(path, other)
            codes = [*ended(start(path, PROCESSES, True)), *ended(start(other, PROCESSES // 2, True))]
            if any(codes):
                sys.exit(f"exit codes {codes} of a resumed run; see {path}")
            found = weights(other)[1]
            row["equal"] = weights(path)[0] == right
            row["difference"] = max(float((found[each] - whole[each]).abs().max()) for each in whole)
            report.row(*row.values())
            rows.append(row)
    if seed == 1:
        report.write("sharded_kills", rows)
    return 0 if all(row["equal"] and row["difference"] < CLOSE for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
