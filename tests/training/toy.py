"""A model and a task that train in a blink; as a script, one process of a run: `toy.py DIR [key=value]...`.
Tests kill runs in processes of their own, forked from one that has done nothing else.
"""

import ast
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError, RunError
from regard.storage.run_folder import RunDirectory
from regard.training.loop import fit
from regard.training.objectives import Loss
from regard.training.settings import Training
from tests import forked

WORDS = 13
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class ToyBatch:
    words: Tensor
    wanted: Tensor

    def to(self, device: torch.device) -> "ToyBatch":
        return ToyBatch(self.words.to(device), self.wanted.to(device))


class Toy(nn.Module):
    """Embedding, dropout, a layer and an output tied to the embedding."""

    def __init__(self, width: int = 11, dropout: float = 0.3) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.layer = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, WORDS, bias=False)
        self.output.weight = self.embed.weight

    def forward(self, words: Tensor) -> Tensor:
        return self.output(self.dropout(torch.tanh(self.layer(self.embed(words)))))


def model(dropout: float = 0.3) -> Toy:
    torch.manual_seed(7)
    return Toy(dropout=dropout)


class Following:
    """To predict (3 w + 1) mod 13 after w; the examples are random rows of 5 or 3 words. `updates` are those seen."""

    metric = "accuracy"
    higher_is_better = True

    def __init__(self, batches: int = 7, seed: int = 1, carrying: bool = False) -> None:
        self.count, self.seed, self.carrying = batches, seed, carrying
        self.validations = 0
        self.updates: list[int] = []

    def batches(self, epoch: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(1000 * self.seed + epoch)
        return torch.randperm(3 * self.count, generator=generator).view(self.count, 3).tolist()

    def batch(self, epoch: int, indices: list[int]) -> ToyBatch:
        length = 5 if indices[0] % 2 else 3
        rows = [
            torch.randint(0, WORDS, (length,), generator=torch.Generator().manual_seed(1000 * epoch + index))
            for index in indices
        ]
        words = torch.stack(rows)
        return ToyBatch(words, (3 * words + 1) % WORDS)

    def loss(self, model: nn.Module, batch: ToyBatch, update: int, carried: Any) -> Loss:
        """With `carrying`, what a batch hands on to the next one weighs that a little."""
        self.updates.append(update)
        logits = model(batch.words)
        total = functional.cross_entropy(logits.flatten(0, 1).float(), batch.wanted.flatten(), reduction="sum")
        if carried is not None:
            total = total * (1 + carried["share"])
        handed = {"share": batch.words.double().mean() / 10} if self.carrying else None
        return Loss(total, batch.wanted.numel(), handed)

    def validate(self, model: nn.Module) -> dict[str, float]:
        self.validations += 1
        words = torch.arange(WORDS)
        inside = model.get_submodule("layer")(
            model.get_submodule("embed")(words)
        )  # parts by themselves, as in decoding
        right = model.get_submodule("output")(torch.tanh(inside)).argmax(-1) == (3 * words + 1) % WORDS
        return {"accuracy": right.double().mean().item()}


class Trouble(Following):
    """The same, with an accident at the given update (counted by calls of `loss` in this process)."""

    def __init__(self, kind: str, at: int, **rest: Any) -> None:
        super().__init__(**rest)
        self.kind, self.at, self.calls = kind, at, 0

    def loss(self, model: nn.Module, batch: ToyBatch, update: int, carried: Any) -> Loss:
        self.calls += 1
        here = self.calls == self.at
        if here and self.kind in ("kill", "terminate", "interrupt", "twice"):
            number = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM}.get(self.kind, signal.SIGINT)
            os.kill(os.getpid(), number)
            if self.kind == "twice":
                os.kill(os.getpid(), number)
                time.sleep(60)
        other = here and os.environ.get("RANK") == "1"
        if other and self.kind in ("stop one", "kill one", "terminate one"):
            name = self.kind.split()[0]
            numbers = {"stop": signal.SIGSTOP, "kill": signal.SIGKILL, "terminate": signal.SIGTERM}
            os.kill(os.getpid(), numbers[name])
        if here and self.kind == "raise" and os.environ.get("RANK", "1") == "1":
            raise ValueError("rank 1 has an accident")
        return super().loss(model, batch, update, carried)


def settings(**changes: Any) -> Training:
    base = Training(
        steps=24,
        validate_every=5,
        checkpoint_every=3,
        learning_rate=0.02,
        device="cpu",
        threads=1,
        log_every=4,
        patience=0,
    )
    return replace(base, **changes)


def digest(path: Path) -> str:
    return hashlib.sha256((path / "weights.safetensors").read_bytes()).hexdigest()


def train(path: Path, changes: dict[str, Any]) -> int:
    """One process of a run; its exit code. `trouble` is (kind, update)."""
    changes = dict(changes)
    trouble, resume = changes.pop("trouble", None), changes.pop("resume", False)
    dropout, batches = changes.pop("dropout", 0.3), changes.pop("batches", 7)
    options = {"batches": batches, "carrying": changes.pop("carrying", False)}
    task = Trouble(*trouble, **options) if trouble else Following(**options)
    try:
        run = directory(path, resume)
        fit(model(dropout), task, settings(**changes), run, resume=resume)
    except (InputError, RunError) as error:
        print(error, file=sys.stderr)
        if os.environ.get("RANK") == "0":
            path.with_suffix(".error").write_text(str(error), encoding="utf-8")
        return error.exit_code
    return 0


def directory(path: Path, resume: bool) -> RunDirectory:
    """The first process makes it; the others wait until it is there."""
    if os.environ.get("RANK", "0") == "0":
        return RunDirectory.create(path, resume=resume)
    while not (path / "manifest.json").is_file():
        time.sleep(0.02)
    return RunDirectory.open(path)


def start(path: Path, processes: int, changes: dict[str, Any]) -> list[int]:
    """Runs `train` in forked processes (gloo between them, if there are several); their exit codes."""
    port = forked.free_port()
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=_child, args=(rank, processes, port, path, changes)) for rank in range(processes)]
    for rank in ranks:
        rank.start()
    ranks[0].join()
    for rank in ranks[1:]:
        if changes.get("trouble", ("",))[0] == "stop one":
            rank.kill()  # as a launcher does once one of its processes has failed
        rank.join()
    return [rank.exitcode or 0 for rank in ranks]


def _child(rank: int, processes: int, port: int, path: Path, changes: dict[str, Any]) -> None:
    if processes > 1:
        os.environ.update(forked.launched(rank, processes, port))
    code = train(path, changes)
    sys.stderr.flush()
    os._exit(code)


def matrix(path: Path, processes: int, changes: dict[str, Any]) -> dict[str, Any]:
    """The last weights of a run left in peace, and of runs killed at three updates and resumed."""
    changes = {"keep_best": 0, **changes}
    codes = {"whole": start(path / "whole", processes, changes)}
    digests = {"whole": digest(path / "whole")}
    for at in (2, 10, 23):
        name = f"killed in update {at}"
        codes[name] = start(path / name, processes, {**changes, "trouble": ("kill", at)})
        codes[f"{name}, resumed"] = start(path / name, processes, {**changes, "resume": True})
        digests[name] = digest(path / name)
    return {"codes": codes, "digests": digests}


def signals(path: Path, processes: int, at: int, changes: dict[str, Any]) -> dict[str, Any]:
    """Runs that are asked to stop in an update, and what became of them after a resume."""
    changes = {"keep_best": 0, **changes}
    codes: dict[str, Any] = {"whole": start(path / "whole", processes, changes)}
    digests = {"whole": digest(path / "whole")}
    steps: dict[str, Any] = {"whole": RunDirectory.open(path / "whole").checkpoints.steps()}
    for kind in ("terminate", "interrupt", "twice"):
        began = time.monotonic()
        codes[kind] = start(path / kind, processes, {**changes, "trouble": (kind, at)})
        seconds = time.monotonic() - began
        steps[kind] = (RunDirectory.open(path / kind).checkpoints.steps(), seconds)
        if kind != "interrupt":
            codes[f"{kind}, resumed"] = start(path / kind, processes, {**changes, "resume": True})
            digests[kind] = digest(path / kind)
            steps[f"{kind}, resumed"] = RunDirectory.open(path / kind).checkpoints.steps()
    return {"codes": codes, "digests": digests, "steps": steps}


ACCIDENTS = ("raise", "kill one", "terminate one", "stop one")


def accidents(path: Path) -> dict[str, Any]:
    """Two processes of which the second has an accident at update 11, of each kind: the exit codes, the seconds until
    both ended, the updates that were saved, the first's error, and what the same run comes to when it is resumed."""
    changes, result = {"keep_best": 0}, {}
    assert start(path / "whole", 2, changes) == [0, 0]
    for kind in ACCIDENTS:
        began, line = time.monotonic(), path / f"{kind}.error"
        # the others are noticed at once; a busy machine may take so long between two updates
        limit = {"process_timeout": 3} if kind == "stop one" else {}
        codes = start(path / kind, 2, {**changes, **limit, "trouble": (kind, 11)})
        result[kind] = {
            "codes": codes,
            "seconds": time.monotonic() - began,
            "steps": RunDirectory.open(path / kind).checkpoints.steps(),
            "line": line.read_text(encoding="utf-8") if line.exists() else "",
            "resumed": start(path / kind, 2, {**changes, "resume": True}),
            "same": digest(path / kind) == digest(path / "whole"),
        }
    return result


def together(path: Path) -> dict[str, Any]:
    """The weights of one process that adds up two batches, and of two processes."""
    changes = {"dropout": 0.0, "batches": 6, "keep_best": 0, "steps": 9}
    ways = {"one": (1, {"accumulate": 2}), "two": (2, {})}
    result: dict[str, Any] = {}
    for name, (processes, more) in ways.items():
        assert start(path / name, processes, {**changes, **more}) == [0] * processes
        result[name] = RunDirectory.open(path / name).load_tensors("weights.safetensors")["embed.weight"].tolist()
    return result


def call(function: Callable[..., Any], path: Path, *arguments: Any) -> Any:
    """Calls a function of this file in a fresh process; what it returns."""
    code = "import json\nfrom pathlib import Path\nfrom tests.training import toy\n"
    code += f"print(json.dumps(toy.{function.__name__}(Path({str(path)!r}), *{arguments!r})))"
    process = forked.start(("-c", code), {**os.environ, "PYTHONPATH": environment()["PYTHONPATH"]})
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(output)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}


if __name__ == "__main__":
    _, folder, *pairs = sys.argv
    given = {key: ast.literal_eval(value) for key, value in (pair.split("=", 1) for pair in pairs)}
    sys.exit(train(Path(folder), given))
