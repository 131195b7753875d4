"""What a GPU gives, in less than ten minutes and without downloads: `python -m benchmarks.gpu [--tiny] [PART...]`.

Each part prints its budget and its time, and `results/gpu.json` has its rows as soon as it ends. `--tiny` runs all of
it on a CPU with small sizes, which says that it works and nothing about speed. The part `learning` needs a folder with
Multi30k, WikiText-2 and Fashion-MNIST, `--data FOLDER`, in the files that `LEARNING` names.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import flex_attention as flex

from benchmarks import kills, report
from benchmarks.additive import naive
from regard.kernels.cpu import score_additive
from regard.models.gpt2 import GPT2, GPT2Config

Row = dict[str, Any]
SPECIAL_FUNCTIONS = 16
"""Special functions (exponentials, divisions) of a multiprocessor in a cycle."""
H100_FLOPS = 989e12
"""Products in bf16 that an H100 (SXM) computes in a second, as its data sheet says."""


@dataclass(frozen=True)
class Sizes:
    """What is measured on a device."""

    device: str
    additive: tuple[tuple[int, int, int, int], ...]
    product: tuple[int, int, int, int]
    model: GPT2Config
    batch: int
    updates: int
    steps: int
    repeats: int
    data: Path | None = None


FULL = Sizes(
    "cuda",
    ((64, 32, 32, 256), (32, 128, 128, 256), (8, 128, 1024, 256)),
    (4, 16, 4096, 64),
    GPT2Config(layers=12, width=768, heads=12, context=1024, dropout=0.0),
    32,
    20,
    400,
    20,
)
TINY = Sizes("cpu", ((2, 5, 7, 16),), (1, 2, 256, 16), GPT2Config(layers=1, width=16, heads=2, context=32), 2, 2, 3, 2)


def time_call(call: Callable[[], object], sizes: Sizes) -> float:
    """Return the median seconds of a call, after two that compile."""
    seconds = []
    for _ in range(2 + sizes.repeats):
        synchronize(sizes)
        began = time.perf_counter()
        call()
        synchronize(sizes)
        seconds.append(time.perf_counter() - began)
    return sorted(seconds[2:])[sizes.repeats // 2]


def synchronize(sizes: Sizes) -> None:
    """Wait for the device."""
    if sizes.device == "cuda":
        torch.cuda.synchronize()


def peak_megabytes(call: Callable[[], object], sizes: Sizes) -> float | None:
    """Return the memory that a call takes beyond what is there."""
    if sizes.device != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def run_tests(sizes: Sizes) -> Iterator[Row]:
    """Run the tests that need a GPU; they are skipped where there is none."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/triton", "tests/laws/test_devices.py"]
    done = subprocess.run(command, cwd=report.ROOT, env=report.environment(), capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-8000:], file=sys.stderr)
    yield {"what": "tests that need a GPU", "code": done.returncode, "result": done.stdout.splitlines()[-1]}


def time_additive(sizes: Sizes) -> Iterator[Row]:
    """Time additive scores, forward and backward, beside the naive form, compiled and not."""
    for batch, queries, keys, width in sizes.additive:
        shapes = (batch, queries, width), (batch, keys, width), (width,)
        leaves = [torch.randn(shape, device=sizes.device, requires_grad=True) for shape in shapes]
        gradient = torch.randn(batch, queries, keys, device=sizes.device)

        def learn(score: Callable[..., Tensor]) -> object:
            return torch.autograd.grad(score(*leaves), leaves, gradient)  # noqa: B023 called in this round

        forms = {"naive": naive, "compiled": torch.compile(naive, dynamic=False), "fused": score_additive}
        for name, score in forms.items():
            forward = time_call(partial(score, *leaves), sizes)
            both = time_call(partial(learn, score), sizes)
            row: Row = {"what": "additive", "shape": f"{batch}x{queries}x{keys}x{width}", "form": name}
            row |= {"forward_ms": 1e3 * forward, "both_ms": 1e3 * both}
            row["megabytes"] = peak_megabytes(partial(learn, score), sizes)
            if sizes.device == "cuda":
                properties = torch.cuda.get_device_properties(0)
                cycles = 2 * batch * queries * keys * width / SPECIAL_FUNCTIONS / properties.multi_processor_count
                clock = torch.cuda.clock_rate() * 1e6
                row["share_of_limit"] = cycles / clock / forward
            yield row


def time_products(sizes: Sizes) -> Iterator[Row]:
    """Time causal products and what FlexAttention adds, beside SDPA without it."""
    batch, heads, length, width = sizes.product
    kind = {"device": sizes.device, "dtype": torch.bfloat16 if sizes.device == "cuda" else torch.float32}
    query, key, value = (torch.randn(batch, heads, length, width, **kind) for _ in range(3))
    attend = torch.compile(flex.flex_attention) if sizes.device == "cuda" else flex.flex_attention
    window, document = max(1, length // 16), torch.arange(length, device=sizes.device) * 4 // length

    def causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return q >= k

    def near(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (q - k <= window)

    def packed(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (document[q] == document[k])

    def cap(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return 20 * torch.tanh(score / 20)

    def alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return score - (q - k) * torch.exp2(-8.0 * (h + 1) / heads)

    def build(mask: Any, change: Any) -> Callable[[], object]:
        blocks = flex.create_block_mask(mask, None, None, length, length, device=sizes.device)
        return lambda: attend(query, key, value, score_mod=change, block_mask=blocks)

    calls: dict[str, Callable[[], object]] = {
        "SDPA, causal": lambda: functional.scaled_dot_product_attention(query, key, value, is_causal=True),
        "FlexAttention, causal": build(causal, None),
        "FlexAttention, soft-capping": build(causal, cap),
        "FlexAttention, ALiBi": build(causal, alibi),
        "FlexAttention, sliding window": build(near, None),
        "FlexAttention, packed documents": build(packed, None),
    }
    for name, call in calls.items():
        yield {"what": "products", "form": name, "shape": sizes.product, "ms": 1e3 * time_call(call, sizes)}


def train_gpt2(sizes: Sizes) -> Iterator[Row]:
    """Train a GPT-2 of 124M, compiled, in bf16: tokens a second, and the share of the products it could do."""
    vocabulary = 50_304 if sizes.device == "cuda" else 64
    length = sizes.model.context
    model = GPT2(vocabulary, sizes.model).to(sizes.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    tokens = torch.randint(4, vocabulary, (sizes.batch, length), device=sizes.device)
    state = model.begin(sizes.batch)

    def compute_loss() -> Tensor:
        logits = model(tokens[:, :-1], state)[0]
        return functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    compiled = torch.compile(compute_loss) if sizes.device == "cuda" else compute_loss

    def update() -> None:
        with torch.autocast(sizes.device, torch.bfloat16):
            loss = compiled()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    seconds = time_call(update, sizes)
    rate = sizes.batch * (length - 1) / seconds
    parameters = sum(weight.numel() for weight in model.parameters())
    flops = 6 * parameters + 12 * sizes.model.layers * sizes.model.width * length
    yield {"what": "GPT-2", "parameters": parameters, "tokens_per_second": rate, "mfu": rate * flops / H100_FLOPS}


def start(*arguments: object, folder: Path) -> subprocess.Popen:
    """Start a command of regard in a folder."""
    command = [sys.executable, "-m", "regard", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=report.environment(), stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen) -> str:
    """Return what a command printed; end with its message if it fails."""
    output, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}\n{errors[-2000:]}")
    return output


def train_recipes(sizes: Sizes) -> Iterator[Row]:
    """Train recipes on the device, one of them also in two parts: the same weights to the bit."""
    settings = report.set_all({"training.device": sizes.device, "training.warmup": 0, "training.steps": sizes.steps})
    with TemporaryDirectory() as name:
        folder = Path(name)
        for recipe in ("dates", "dates-transformer", "copy"):
            began = time.perf_counter()
            finish(start("train", recipe, "--out", recipe, *settings, folder=folder))
            yield {"what": "recipe", "recipe": recipe, "steps": sizes.steps, "seconds": time.perf_counter() - began}
        case = kills.Case(device=sizes.device, kills=1)
        expected = kills.finish(case.start(folder / "whole"), folder / "whole")
        chain = kills.run_chain(case, folder / "killed", Random(kills.SEED))
        yield {"what": "resume", "killed": chain["killed"], "same weights": chain["sha256"] == expected}


LEARNING: dict[str, dict[str, object]] = {
    "translate-transformer": {
        "data.train": "[train.de.gz, train.en.gz]",
        "data.valid": "[val.de.gz, val.en.gz]",
        "data.test": "[test_2016_flickr.de.gz, test_2016_flickr.en.gz]",
    },
    "language-lstm": {
        "data.train": "train.txt.gz",
        "data.valid": "valid.txt.gz",
        "data.test": "test.txt.gz",
        "model.embedding": 650,
        "model.width": 650,
        "model.dropout": 0.5,
        "training.steps": 12_000,
        "training.batch_tokens": 2800,
        "training.validate_every": 0,
    },
    "vit": {
        "data.train": "train-images-idx3-ubyte.gz",
        "data.test": "t10k-images-idx3-ubyte.gz",
        "model.stem": "convolutional",
        "model.width": 192,
        "model.hidden": 384,
        "training.steps": 10_000,
        "training.validate_every": 0,
    },
}
"""Recipes with the files that they read and the sizes that a GPU allows."""


def learn(sizes: Sizes) -> Iterator[Row]:
    """Train recipes on real data, all at the same time, and score them on their test sets."""
    if sizes.data is None:
        print("learning: skipped without --data FOLDER", file=sys.stderr)
        return
    with TemporaryDirectory() as name:
        runs = {recipe: Path(name) / recipe for recipe in LEARNING}
        few: dict[str, object] = {} if sizes.device == "cuda" else {"training.steps": sizes.steps, "training.warmup": 0}
        settings = {recipe: {"training.device": sizes.device, **LEARNING[recipe], **few} for recipe in LEARNING}
        began = time.perf_counter()
        started = {
            recipe: start("train", recipe, "--out", runs[recipe], *report.set_all(settings[recipe]), folder=sizes.data)
            for recipe in LEARNING
        }
        for recipe, process in started.items():
            finish(process)
            row: Row = {"what": "learning", "recipe": recipe, "settings": settings[recipe]}
            row["seconds"] = time.perf_counter() - began
            yield row | {"result": json.loads((runs[recipe] / "result.json").read_text())}


PARTS: dict[str, tuple[int, Callable[[Sizes], Iterator[Row]]]] = {
    "tests": (60, run_tests),
    "additive": (60, time_additive),
    "products": (80, time_products),
    "gpt2": (80, train_gpt2),
    "recipes": (60, train_recipes),
    "learning": (200, learn),
}
"""Each part with its budget in seconds; 9 minutes together."""


def main(arguments: Sequence[str]) -> None:
    """Run the named parts, by default all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="What a GPU gives.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--tiny", action="store_true", help="small sizes on a CPU, to try the script")
    parser.add_argument("--data", type=Path, help="folder with the files of the part learning")
    given = parser.parse_args(arguments)
    sizes = TINY if given.tiny else FULL
    if sizes.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU with CUDA here; --tiny runs all parts on a CPU")
    torch.manual_seed(1)
    rows = []
    for name in given.parts or PARTS:
        budget, part = PARTS[name]
        began = time.perf_counter()
        for row in part(replace(sizes, data=given.data and given.data.absolute())):
            rows.append(row)
            print(row, flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s of {budget}", file=sys.stderr, flush=True)
        if sizes is FULL:
            report.write("gpu", rows, gpu=torch.cuda.get_device_name())


if __name__ == "__main__":
    main(sys.argv[1:])
