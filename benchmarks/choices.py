"""Each choice by size, beside what it leaves out: `python -m benchmarks.choices`.

The library takes another path for small inputs in a few places. At the ends of the range in which it does, the path
that is taken is no slower than the other one, with wide instructions and with AVX2. Processor time, one thread.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import peers
from benchmarks.aim import Aim, show
from regard.attention.masks import padding
from regard.attention.memory import PACKING_SHARE
from regard.kernels import cpu
from regard.kernels.cross_entropy import CHUNK, cross_entropy
from regard.kernels.windows import attend_windows, windows_save_time
from regard.models.bert import Bert, BertConfig
from regard.nn.recurrent import SMALL_BATCH, Recurrent

WIDTH, VOCABULARY, ROUNDS, SAMPLE = 256, 8000, 5, 0.02
LAYERS = 16
"""Products in turn, whose weights do not fit in the cache of a core, as in a step of a search."""
LEAST = 0.95
"""The least ratio of the other path's time to that of the path that is taken."""
Calls = tuple[Callable[[], object], Callable[[], object]]


def positions() -> Iterator[tuple[str, Calls]]:
    """Yield one position of a GRU: by a cell, or by a network of oneDNN."""
    layer = Recurrent("gru", WIDTH, WIDTH).eval()
    for rows in (1, SMALL_BATCH):
        inputs, state = torch.randn(rows, 1, WIDTH), torch.randn(rows, 1, WIDTH)
        first = state.transpose(0, 1).contiguous()
        yield (
            f"a GRU's position, {rows} rows",
            (
                lambda inputs=inputs, state=state: layer(inputs, state),
                lambda inputs=inputs, first=first: layer.network(inputs, first),
            ),
        )


def products() -> Iterator[tuple[str, Calls]]:
    """Yield a product of a few rows in a search: by our kernel, or by MKL."""
    weights, bias = [torch.randn(4 * WIDTH, WIDTH) for _ in range(LAYERS)], torch.randn(4 * WIDTH)
    for rows in (1, cpu.MOST_ROWS):
        inputs = torch.randn(rows, WIDTH)

        def by_kernel(inputs: Tensor = inputs) -> None:
            with cpu.use_search_kernels():
                for weight in weights:
                    cpu.linear(inputs, weight, bias)

        def by_pytorch(inputs: Tensor = inputs) -> None:
            for weight in weights:
                functional.linear(inputs, weight, bias)

        yield f"{LAYERS} products of {rows} rows", (by_kernel, by_pytorch)


def best_tokens() -> Iterator[tuple[str, Calls]]:
    """Yield the best tokens of each row: by our kernel, or by two calls of PyTorch."""
    for rows in (1, 64):
        logits = torch.randn(rows, VOCABULARY)
        yield (
            f"the 5 best tokens of {rows} rows",
            (
                lambda logits=logits: cpu.choose_best_tokens(logits, 5),
                lambda logits=logits: logits.log_softmax(-1).topk(5),
            ),
        )


def padded() -> Iterator[tuple[str, Calls]]:
    """Yield layers of BERT on padded texts: without the padding, or with it."""
    model = Bert(VOCABULARY, BertConfig(layers=2, width=WIDTH, heads=4, hidden=4 * WIDTH, context=64)).eval()
    lengths = torch.full((32,), int(64 * PACKING_SHARE))
    tokens = torch.randint(5, VOCABULARY, (32, 64)) * padding(lengths, 64).dense()[:, 0]
    full = torch.full((32,), 64)
    yield f"BERT on {PACKING_SHARE:.0%} real tokens", (lambda: model(tokens, lengths), lambda: model(tokens, full))


def windows() -> Iterator[tuple[str, Calls]]:
    """Yield attention in the longest window that is computed in blocks: in blocks, or by a mask."""
    length = 2048
    reach = max(size for size in range(1, length) if windows_save_time(length, length, size, size))
    query, key, value = (torch.randn(1, 4, length, 64) for _ in range(3))
    distances = torch.arange(length) - torch.arange(length)[:, None]
    mask = distances.abs() <= reach
    yield (
        f"a window of {reach} of {length} tokens",
        (
            lambda: attend_windows(query, key, value, (reach, reach, 0)),
            lambda: functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=1.0),
        ),
    )


def losses() -> Iterator[tuple[str, Calls]]:
    """Yield the loss of a large vocabulary with its gradients: in chunks, or from all logits."""
    for rows in (CHUNK, 2 * CHUNK):
        features = torch.randn(rows, WIDTH, requires_grad=True)
        weight = torch.randn(VOCABULARY, WIDTH, requires_grad=True)
        bias, targets = torch.randn(VOCABULARY, requires_grad=True), torch.randint(VOCABULARY, (rows,))
        leaves = features, weight, bias
        yield (
            f"the loss of {rows} tokens",
            (
                lambda leaves=leaves, targets=targets: torch.autograd.grad(cross_entropy(*leaves, targets)[0], leaves),
                lambda leaves=leaves, targets=targets: torch.autograd.grad(
                    functional.cross_entropy(functional.linear(*leaves), targets, reduction="sum"), leaves
                ),
            ),
        )


WITH_GRADIENTS = (losses,)
CHOICES = (positions, products, best_tokens, padded, windows, losses)


def aims(rounds: int = ROUNDS) -> list[Aim]:
    """Return a row for each choice at each end of its range."""
    rows = []
    for choice in CHOICES:
        for name, calls in choice():
            with torch.set_grad_enabled(choice in WITH_GRADIENTS):
                once = peers.median_seconds({"ours": calls[0]}, 1)["ours"]
                count = max(1, round(SAMPLE / once))
                forms = {"ours": repeat(calls[0], count), "other": repeat(calls[1], count)}
                seconds = peers.median_seconds(forms, rounds)
            ours, other = (1e3 * value / count for value in seconds.values())
            rows.append(Aim(f"choices, {name}", "ms", ours, "the other path", other, LEAST))
    return rows


def repeat(call: Callable[[], object], count: int) -> Callable[[], object]:
    """Return a function that makes the call so many times: a sample of `SAMPLE` seconds."""
    return lambda: [call() for _ in range(count)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    show(aims())
