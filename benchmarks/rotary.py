"""Time of heads with rotary positions beside the same heads without positions, on one thread: `python -m
benchmarks.rotary`.

Times are of the processor, so that other work on the machine matters less; each figure is the least of some turns. The
process keeps freed memory, as one that trains: otherwise the kernel's zeroing of fresh pages is most of the difference.
"""

import time
from collections.abc import Callable

import torch

from regard.attention import Attend
from regard.attention.heads import MultiHead, self_attention
from regard.attention.masks import causal
from regard.attention.positions import Rotary
from regard.attention.scores import ScaledDot
from regard.nn.kv_cache import empty_past, read_past
from regard.training.allocator import keep_freed_memory

SIZES = (("one pass, 4 x 256", 4, 256), ("one pass, 1 x 1,024", 1, 1024), ("one pass, 16 x 64", 16, 64))
WIDTH, HEADS, GROUPS, TURNS, STEPS = 512, 8, 2, 12, 64


def heads(rotary: bool) -> MultiHead:
    """Grouped heads with or without rotary positions."""
    torch.manual_seed(1)
    positions = Rotary(WIDTH // HEADS) if rotary else None
    return MultiHead(WIDTH, HEADS, attend=Attend(ScaledDot(), positions=positions), key_value_heads=GROUPS).eval()


def least(calls: list[Callable[[], object]]) -> list[float]:
    """The least processor time of each call, in seconds; the calls take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(TURNS + 1):
        for call, found in zip(calls, times, strict=True):
            start = time.process_time()
            call()
            if turn:
                found.append(time.process_time() - start)
    return [min(found) for found in times]


@torch.no_grad()
def main() -> None:
    """Print a row for each size."""
    torch.set_num_threads(1)
    keep_freed_memory()
    both = [heads(rotary=False), heads(rotary=True)]
    rows: list[tuple[str, list[float]]] = []
    for name, batch, length in SIZES:
        states, mask = torch.randn(batch, length, WIDTH), causal(length)
        rows.append((name, least([lambda one=one, s=states, m=mask: self_attention(one, s, m) for one in both])))
    states = torch.randn(4, 1, WIDTH)

    def steps(one: MultiHead) -> None:
        past = empty_past(one, states)
        for _ in range(STEPS):
            _, past = read_past(one, states, past)

    rows.append((f"{STEPS} steps, 4 rows", least([lambda one=one: steps(one) for one in both])))
    print("| lookup | without positions, ms | rotary, ms | ratio |\n| --- | --- | --- | --- |")
    for name, (plain, turned) in rows:
        print(f"| {name} | {plain * 1000:.2f} | {turned * 1000:.2f} | {turned / plain:.3f} |")


if __name__ == "__main__":
    main()
