"""Memory of recorded reductions on long inputs: `python -m benchmarks.long_inputs [LENGTH...]`.

A Llama of 12 layers with random weights reads a text of each length, each in a process of its own. Memory is the
growth of the process beyond the loaded model, at its peak: without a recorder, and with reductions of one head of every
layer, or of all heads; up to 4,000 tokens with all weights of one head.
"""

import resource
import sys
import time
from typing import Any

import torch

from benchmarks import report
from regard.attention.record import record
from regard.maps.reductions import Entropy, Greatest, Totals

LENGTHS = (1000, 4000, 16000, 32000)
LAYERS, HEADS, WIDTH = 12, 4, 64
KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "totals": {"reduce": Totals(), "heads": [0]},
    "totals of all heads": {"reduce": Totals()},
    "greatest 4": {"reduce": Greatest(4), "heads": [0]},
    "entropy": {"reduce": Entropy(), "heads": [0]},
    "64 queries": {"rows": [*range(64)]},
    "all weights of a head": {"heads": [0]},
}
"""What is recorded, as arguments of `record`."""
MOST = {"totals of all heads": 8000, "all weights of a head": 4000}
"""The longest input of a kind, if there is one."""


@torch.no_grad()
def measured(kind: str, length: str) -> tuple[float, float]:
    """Megabytes and seconds of one pass."""
    from transformers import LlamaConfig, LlamaModel

    sizes: dict[str, Any] = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": WIDTH}
    model = LlamaModel(LlamaConfig(vocab_size=1000, intermediate_size=128, max_position_embeddings=65536, **sizes))
    model.eval()
    tokens = torch.randint(1000, (1, int(length)), generator=torch.Generator().manual_seed(1))
    model(tokens[:, :8], use_cache=False)
    before, start = _megabytes(), time.perf_counter()
    if kind == "none":
        model(tokens, use_cache=False)
    else:
        with record(model, "layers.*.self_attn", **KINDS[kind]) as maps:
            model(tokens, use_cache=False)
        assert len(maps) == LAYERS
    return _megabytes() - before, time.perf_counter() - start


def main(lengths: list[int]) -> None:
    """Measure every kind at each length, each in a process of its own."""
    rows = []
    report.head("tokens", "recorded", "MB", "seconds")
    for length in lengths or LENGTHS:
        for kind in (each for each in KINDS if length <= MOST.get(each, length)):
            megabytes, seconds = report.apart("long_inputs", "measured", kind, str(length))
            rows.append(
                {"tokens": length, "recorded": kind, "megabytes": round(megabytes), "seconds": round(seconds, 1)}
            )
            report.row(f"{length:,}", kind, f"{megabytes:.0f}", f"{seconds:.1f}")
    if not lengths:
        report.write("long_inputs", rows, layers=LAYERS, heads=HEADS, width=WIDTH)


def _megabytes() -> float:
    """The greatest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]])
