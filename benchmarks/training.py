"""Updates of this library's models beside those of others of the same sizes: target tokens a second on one thread.

`python -m benchmarks.training [FOLDER]` makes JoeyNMT's environment in `runs/joeynmt`. FOLDER has Multi30k's files
`train.de.gz` and `train.en.gz`, of which joint BPE of 8,000 pieces is learned; without one, pairs are drawn whose
lengths are like theirs. Every system has a process of its own, which treats memory as the system does; all get the same
batches and take turns. Figures are medians of rounds, by the processor's time.
"""

import gzip
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from benchmarks import report
from benchmarks.aim import Aim
from benchmarks.updates import LONGEST, OURS, PRODUCTS, SYSTEMS, VOCABULARY
from regard.data.batching import LENGTH_MULTIPLE, PairBatch, collate
from regard.data.token_batches import token_batches
from regard.text import Tokenizer
from regard.text.kind import TokenizerSettings
from regard.training.devices import multiplies_bf16

FOLDER = report.ROOT / "runs" / "joeynmt"
NEEDED = ("joeynmt==2.3.0", "subword-nmt==0.3.8", "sentencepiece", "importlib_metadata==8.0.0", "zipp==3.19.2")
"""JoeyNMT, and what it imports before it has anything to do."""
PAIRS, SEED, FIRST = 29_000, 1, 4
SIZES, BATCHES, ROUNDS = (1024, 4096), 4, 9
PEERS = "JoeyNMT, Luong GRU", "Hugging Face Marian"
QUICK = (*OURS, *PRODUCTS.values(), *PEERS)
AIMS = (
    ("regard, Luong GRU", PEERS[0], 1.5, "recurrent layers"),
    ("regard, one-pass LSTM", PEERS[0], 1.5, "recurrent layers"),
    ("regard, Transformer", PEERS[1], None, "matrix products"),
    *((name, products, 0.9, "copies between precisions and calls") for name, products in PRODUCTS.items()),
)
"""Ours, the peer, the least ratio of the peer's time to ours, and what limits it. An update is to spend nine tenths of
its time in its products, which Marian makes as well: Marian's time is for the reader."""
ENOUGH = {"regard, one-pass LSTM": 100.0}
"""Milliseconds in which 1,000 target tokens are to be learned from in bf16."""
Pairs = list[tuple[list[int], list[int]]]


class Case(NamedTuple):
    """What every system computes."""

    tokens: int
    precision: str


def drawn() -> Pairs:
    """As many pairs as Multi30k has, of 14 tokens or so, the target being near the source in length."""
    random = Random(SEED)
    lengths = [min(LONGEST - 2, max(3, round(random.lognormvariate(2.6, 0.32)))) for _ in range(PAIRS)]
    sides = [(length, max(3, round(length * random.gauss(1.0, 0.15)))) for length in lengths]
    ids = [[[random.randrange(FIRST, VOCABULARY) for _ in range(side)] for side in pair] for pair in sides]
    return [(source, target) for source, target in ids]


def read(folder: Path) -> Pairs:
    """Multi30k's, in joint BPE."""
    files = [folder / f"train.{name}.gz" for name in ("de", "en")]
    texts = [gzip.decompress(each.read_bytes()).decode().splitlines() for each in files]
    tokenizer = Tokenizer.train(TokenizerSettings("bpe", size=VOCABULARY), [line for side in texts for line in side])
    ids = [[tokenizer.encode(line)[: LONGEST - 2] for line in side] for side in texts]
    return list(zip(*ids, strict=True))


def batches_of(pairs: Pairs, tokens: int) -> list[PairBatch]:
    """Some batches of so many tokens, made as training makes them."""
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    chosen = token_batches(lengths, tokens, SEED, 0)[:BATCHES]
    return [collate([pairs[index] for index in indices], multiple=LENGTH_MULTIPLE) for indices in chosen]


def prepared(folder: Path) -> Path:
    """The interpreter that has JoeyNMT, and all that this one has."""
    python = folder / "bin" / "python"
    if not list(folder.glob("lib/*/site-packages/torch.pth")):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *NEEDED], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "torch.pth").write_text(str(Path(torch.__file__).parents[1]))
    return python


def started(module: str, system: str, inputs: Path) -> subprocess.Popen[str]:
    """The process of a system, which runs this module."""
    python = str(prepared(FOLDER)) if system.startswith("JoeyNMT") else sys.executable
    command = [python, "-m", module, system, str(inputs)]
    variables = report.environment(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=variables, cwd=report.ROOT, stdin=pipe, stdout=pipe, text=True)


class Worker:
    """A system whose process is ready."""

    def __init__(self, system: str, process: "subprocess.Popen[str]"):
        self.system, self.process = system, process
        self._answer("ready")

    def seconds(self, *case: object) -> float:
        """Of one piece of work: an update with the batch of a number, in a precision."""
        assert self.process.stdin is not None
        print(*case, file=self.process.stdin, flush=True)
        return float(self._answer())

    def _answer(self, wanted: str = "") -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not wanted or line.strip() == wanted:
                return line
        raise SystemExit(f"{self.system} ended before it answered, with code {self.process.wait()}")


@contextmanager
def workers(
    systems: Sequence[str], inputs: Sequence[Any], module: str = "benchmarks.updates"
) -> Iterator[list[Worker]]:
    """Those of several systems, ended afterwards. All read the same inputs from a file of `torch.save`."""
    with ExitStack() as stack:
        path = Path(stack.enter_context(TemporaryDirectory())) / "inputs.pt"
        torch.save(list(inputs), path)
        found = []
        for system in systems:
            process = stack.enter_context(started(module, system, path))
            stack.callback(process.kill)
            found.append(Worker(system, process))
        yield found


def rates(systems: Sequence[str], case: Case, batches: Sequence[PairBatch], rounds: int) -> dict[str, float]:
    """Target tokens a second of each system, all taking turns; the first round warms up."""
    tokens, found = sum(each.target_tokens for each in batches), {system: list[float]() for system in systems}
    with workers(systems, batches) as running:
        for _ in range(rounds + 1):
            for worker in running:
                seconds = sum(worker.seconds(number, case.precision) for number in range(len(batches)))
                found[worker.system].append(tokens / seconds)
    return {system: median(each[1:]) for system, each in found.items()}


def precisions() -> tuple[str, ...]:
    """bf16 only where the processor has its products."""
    return ("fp32", "bf16") if multiplies_bf16("cpu") else ("fp32",)


def aims() -> list[Aim]:
    """The quick pass: batches of 1,024 tokens."""
    batches, found = batches_of(drawn(), SIZES[0]), []
    for precision in precisions():
        cost = {name: 1e6 / rate for name, rate in rates(QUICK, Case(SIZES[0], precision), batches, 3).items()}
        for ours, theirs, times, limited_by in AIMS:
            most = ENOUGH.get(ours) if precision == "bf16" and theirs in PEERS else None
            what = f"training, {ours}, {precision}, 1,000 target tokens"
            found.append(
                Aim(what, "ms", cost[ours], theirs, cost[theirs], times=times, most=most, limited_by=limited_by)
            )
    return found


def main(arguments: list[str]) -> None:
    """Prints the table and writes the results."""
    pairs, rows = read(Path(arguments[0])) if arguments else drawn(), list[dict[str, Any]]()
    report.head("tokens a batch", "precision", "system", "target tokens/s", "beside the first of its kind")
    for case in (Case(size, precision) for size in SIZES for precision in precisions()):
        found = rates(list(SYSTEMS), case, batches_of(pairs, case.tokens), ROUNDS)
        for system, rate in found.items():
            recurrent = "Luong" in system or "LSTM" in system
            first = found["regard, Luong GRU" if recurrent else "regard, Transformer"]
            report.row(case.tokens, case.precision, system, f"{rate:,.0f}", f"{rate / first:.2f}")
            rows.append({**case._asdict(), "system": system, "target_tokens_per_second": rate})
    report.write("training", rows, data="Multi30k" if arguments else "drawn")


if __name__ == "__main__":
    main(sys.argv[1:])
