"""Updates of Transformers as they are written and with `training.compile`: `python -m benchmarks.compiling [MODEL...]`.

One thread; the time is that of the processor, so that other programs count little.
"""

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch._inductor import config

from benchmarks import report
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.compiling import compiling

VOCABULARY, ROUNDS = 4000, 9


def transformer() -> tuple[nn.Module, Callable[[], Tensor]]:
    """Three layers a side, ReLU; 24 pairs of 40 tokens."""
    model = Transformer(
        VOCABULARY, VOCABULARY, TransformerConfig(layers=3, width=256, hidden=1024, heads=4, dropout=0.1)
    )
    tokens, lengths = torch.randint(8, VOCABULARY, (24, 40)), torch.randint(35, 41, (24,))
    return model, lambda: model.decoder.output.loss(model.features(tokens, lengths, tokens), tokens, 0.1)[0]


def gpt2() -> tuple[nn.Module, Callable[[], Tensor]]:
    """Four layers, GELU; 12 texts of 128 tokens."""
    model = GPT2(VOCABULARY, GPT2Config(layers=4, width=256, heads=4, dropout=0.1))
    tokens = torch.randint(8, VOCABULARY, (12, 128))
    return model, lambda: model.output.loss(model.run(tokens, model.begin(12))[0], tokens)[0]


MODELS = {"transformer": transformer, "gpt2": gpt2}


def update(loss: Callable[[], Tensor], bf16: bool) -> float:
    """Seconds of one loss and its gradient."""
    began = time.process_time()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        total = loss()
    total.backward()
    return time.process_time() - began


def measure(name: str, bf16: bool) -> dict[str, Any]:
    """One row, printed."""
    torch.manual_seed(1)
    model, loss = MODELS[name]()
    update(loss, bf16)
    samples: dict[str, list[float]] = {"written": [], "compiled": []}
    with config.patch(force_disable_caches=True), compiling(model):  # the first update as it is on a new machine
        switched = {module: forward for module in model.modules() if (forward := vars(module).get("forward"))}
        if not switched:
            raise SystemExit("nothing was compiled, so there is nothing to compare; the line above says why")
        began = time.perf_counter()
        update(loss, bf16)
        first = time.perf_counter() - began
        for _ in range(ROUNDS):
            for how, found in samples.items():
                for module, forward in switched.items():
                    module.forward = forward.written if how == "written" else forward
                found.append(update(loss, bf16))
    written, compiled = (median(found) for found in samples.values())
    precision = "bf16" if bf16 else "fp32"
    times = f"{written * 1e3:.0f}", f"{compiled * 1e3:.0f}", f"{written / compiled:.2f}", f"{first:.0f}"
    report.row(name, precision, *times)
    seconds = {"written_seconds": written, "compiled_seconds": compiled, "first_seconds": first}
    return {"model": name, "precision": precision, **seconds}


def main(names: list[str]) -> None:
    """Times the named models; only a run of all of them is written down."""
    torch.set_num_threads(1)
    report.head("model", "precision", "as written, ms", "compiled, ms", "written / compiled", "first update, s")
    rows = [measure(name, bf16) for name in names or MODELS for bf16 in (False, True)]
    if not names:
        report.write("compiling", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
