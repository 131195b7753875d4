"""Systems in processes of their own, which take turns, and JoeyNMT's models.

A worker runs `python -m MODULE worker SYSTEM FILE`: it prints `ready`, then answers each line that it reads with the
seconds of processor time that the work took. Every system treats memory as it does by itself.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks import report

JOEYNMT_FOLDER = report.ROOT / "runs" / "joeynmt"
JOEYNMT = ("joeynmt==2.3.0", "subword-nmt==0.3.8", "sentencepiece", "importlib_metadata==8.0.0", "zipp==3.19.2")
"""JoeyNMT, and what it imports before it has anything to do."""
VOCABULARY, WIDTH, HIDDEN, HEADS, LAYERS, DROPOUT = 8000, 256, 1024, 4, 3, 0.1
EMBEDDINGS = {"embedding_dim": WIDTH, "scale": False, "dropout": DROPOUT}
RECURRENT = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "embeddings": EMBEDDINGS, "dropout": DROPOUT}
LUONG = {"attention": "luong", "init_hidden": "bridge", "input_feeding": True, "hidden_dropout": DROPOUT}
JOEYNMT_MODELS = {
    "luong": {
        "encoder": RECURRENT | {"hidden_size": WIDTH // 2, "bidirectional": True},
        "decoder": RECURRENT | {"hidden_size": WIDTH} | LUONG,
    },
    "bahdanau": {
        "encoder": RECURRENT | {"hidden_size": WIDTH, "bidirectional": True},
        "decoder": RECURRENT | {"hidden_size": WIDTH} | LUONG | {"attention": "bahdanau"},
    },
    "luong-lstm": {
        "encoder": RECURRENT | {"hidden_size": WIDTH, "bidirectional": True, "rnn_type": "lstm"},
        "decoder": RECURRENT | {"hidden_size": WIDTH, "rnn_type": "lstm"} | LUONG,
    },
}


def build_joeynmt(kind: str) -> Any:
    """Return a model of JoeyNMT; its padding is 1 and its unknown token 0."""
    from joeynmt.model import build_model  # pyright: ignore[reportMissingImports]
    from joeynmt.vocabulary import Vocabulary  # pyright: ignore[reportMissingImports]

    names = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}
    marks = {f"{name}_token": f"<{name}>" for name in names} | {f"{name}_id": number for name, number in names.items()}
    special = SimpleNamespace(**marks, lang_tags=[], sep_token=None, sep_id=None)
    vocabulary = Vocabulary([str(number) for number in range(VOCABULARY - len(names))], special)
    return build_model(JOEYNMT_MODELS[kind], vocabulary, vocabulary)


def joeynmt_python() -> str:
    """Return the interpreter of an environment with JoeyNMT and all packages of this one; make it if need be."""
    python = JOEYNMT_FOLDER / "bin" / "python"
    if not list(JOEYNMT_FOLDER.glob("lib/*/site-packages/torch.pth")):
        subprocess.run([sys.executable, "-m", "venv", JOEYNMT_FOLDER], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *JOEYNMT], check=True)
        (packages,) = JOEYNMT_FOLDER.glob("lib/python*/site-packages")
        (packages / "torch.pth").write_text(str(Path(torch.__file__).parents[1]))
    return str(python)


class Worker:
    """A system whose process is ready."""

    def __init__(self, system: str, process: "subprocess.Popen[str]"):
        self.system, self.process = system, process
        self._read_line("ready")

    def seconds(self, *request: object) -> float:
        """Return the processor time of one piece of work."""
        assert self.process.stdin is not None
        print(*request, file=self.process.stdin, flush=True)
        return float(self._read_line())

    def _read_line(self, expected: str = "") -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not expected or line.strip() == expected:
                return line
        raise SystemExit(f"{self.system} ended before it answered, with code {self.process.wait()}")


@contextmanager
def workers(systems: Sequence[str], inputs: Any, module: str) -> Iterator[list[Worker]]:
    """Start the workers of a module and end them afterwards; all read the same inputs from a file of `torch.save`."""
    with ExitStack() as stack:
        path = Path(stack.enter_context(TemporaryDirectory())) / "inputs.pt"
        torch.save(inputs, path)
        running = []
        for system in systems:
            python = joeynmt_python() if system.startswith("JoeyNMT") else sys.executable
            process = subprocess.Popen(
                [python, "-m", module, "worker", system, str(path)],
                env=report.environment(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1"),
                cwd=report.ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            running.append(Worker(system, process))
        yield running


def answer(work: Callable[..., object]) -> None:
    """Do the work that each line of standard input describes, and print how long it took."""
    torch.set_num_threads(1)
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.process_time()
        work(*line.split())
        print(time.process_time() - began, flush=True)


def median_seconds(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median processor time of each call; the calls take turns and the first round warms up."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            began = time.process_time()
            call()
            samples[name].append(time.process_time() - began)
    return {name: median(times[1:]) for name, times in samples.items()}
