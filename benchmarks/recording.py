"""What it costs that weights can be recorded: time while nobody records, memory while somebody does.

`python -m benchmarks.recording`. Multi-head self-attention beside the same projections and PyTorch's fused attention
written out; one thread, medians of processor time. Memory is that of a read of long inputs for each kind of recording.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import peers, report, startup
from benchmarks.aim import Aim
from regard import load
from regard.attention import Attend
from regard.attention.heads import MultiHead, self_attention
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import ScaledDot
from regard.experiments.cost import peak_bytes
from regard.maps.reductions import Entropy, Greatest, KeepAll, Totals
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.settings import keep_freed_memory

SHAPES = ("64x32x256x4", "8x128x768x12", "4x512x768x12")
ROUNDS, MAX_COST = 30, 0.01
LENGTH, WIDTH = 2048, 64
SENTENCES, LOOKING = 64, 1.3
"""How many texts are predicted, and how many times as long as the search it may take to know their attention too."""
SMALL = "encoding the sources again, three times as long as the outputs, and starting PyTorch's operations"
"""What takes the rest of that time."""
TRAINING = 1.05
"""How many times as long an update may take whose weights are recorded as sums."""
TWICE = "scores and softmax, computed beside the fused attention"
REDUCTIONS = {"all weights": KeepAll(), "arg-max": Greatest(), "entropy": Entropy(), "totals": Totals()}


def make_forms(shape: str) -> dict[str, Callable[[], Tensor]]:
    """Return our layer and its arithmetic in PyTorch."""
    batch, length, width, number = map(int, shape.split("x"))
    heads, states = MultiHead(width, number), torch.randn(batch, length, width)

    def write_out() -> Tensor:
        projections = [map_(states).view(batch, length, number, -1) for map_ in (heads.query, heads.key, heads.value)]
        context = scaled_dot_product_attention(*(side.transpose(1, 2) for side in projections))
        return heads.output(context.transpose(1, 2).reshape(batch, length, width))

    return {"ours": lambda: self_attention(heads, states), "written out": write_out}


def time_forms(shape: str) -> list[float]:
    """Return the seconds of both; this process then keeps freed memory and has one thread."""
    # Pages that some calls clear and others don't make more difference than what is measured.
    keep_freed_memory()
    torch.set_num_threads(1)
    with torch.no_grad():
        return [*peers.median_seconds({**make_forms(shape)}, ROUNDS).values()]


def recorded_megabytes() -> dict[str, float]:
    """Return the peak memory of a read by what is recorded."""
    attend, states = Attend(ScaledDot()), torch.randn(1, LENGTH, WIDTH)

    def read() -> Tensor:
        return attend(states, Memory(states, states))

    with torch.no_grad():
        megabytes = {"nothing": peak_bytes(read) / 1e6}
        for name, reduction in REDUCTIONS.items():
            with record(attend, reduce=reduction):
                megabytes[name] = peak_bytes(read) / 1e6
    return megabytes


def time_looking() -> list[float]:
    """Return the seconds of the predictions of dates with their attention, and without it."""
    torch.set_num_threads(1)
    keep_freed_memory()
    run: Any = load(startup.converted_run(), "cpu")
    texts = [pair.source for pair in run.config.data.load().train[:SENTENCES]]

    def predict(attention: bool) -> Callable[[], object]:
        return lambda: run.predict(texts, beam=5, attention=attention)

    forms = {"with": predict(True), "without": predict(False)}
    return [*peers.median_seconds(forms, 9).values()]


def time_training() -> list[float]:
    """Return the seconds of updates of a Transformer whose totals of weights are recorded, and of others."""
    torch.set_num_threads(1)
    keep_freed_memory()
    model = Transformer(6000, 6000, TransformerConfig(layers=4, width=128, hidden=256, heads=4)).train()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens, lengths = torch.randint(4, 6000, (64, 20)), torch.full((64,), 20)

    def update() -> None:
        optimizer.zero_grad()
        model(tokens, lengths, tokens).logsumexp(-1).mean().backward()
        optimizer.step()

    def update_recorded() -> None:
        with record(model, reduce=Totals()):
            update()

    return [*peers.median_seconds({"recorded": update_recorded, "others": update}, 15).values()]


def aims() -> list[Aim]:
    """Return the rows of a quick pass."""
    recorded, unrecorded = report.apart("recording", "time_training")
    training = "recording, an update of a Transformer with the totals of its weights"
    looking, without = report.apart("recording", "time_looking")
    work = f"recording, {SENTENCES} dates predicted by a beam of 5 with their attention"
    ours, theirs = report.apart("recording", "time_forms", SHAPES[-1])
    name = f"recording, weights that nobody records, {SHAPES[-1]}"
    megabytes = recorded_megabytes()
    whole, greatest = megabytes["all weights"], megabytes["arg-max"]
    return [
        Aim(work, "ms", 1e3 * looking, "CTranslate2 alone", 1e3 * without, times=1 / LOOKING, limited_by=SMALL),
        Aim(training, "ms", 1e3 * recorded, "the update alone", 1e3 * unrecorded, times=1 / TRAINING, limited_by=TWICE),
        Aim(name, "ms", 1e3 * ours, "the same written out in PyTorch", 1e3 * theirs, times=1 / (1 + MAX_COST)),
        Aim(f"recording, the arg-max of {LENGTH} x {LENGTH} weights", "MB", greatest, "all weights", whole, times=3),
    ]


def main() -> None:
    """Print the tables and write the results."""
    torch.manual_seed(1)
    rows = []
    report.head("batch x length x width x heads", "ours ms", "written out ms", "cost")
    for shape in SHAPES:
        ours, theirs = time_forms(shape)
        report.row(shape, f"{1e3 * ours:.2f}", f"{1e3 * theirs:.2f}", f"{ours / theirs - 1:.1%}")
        rows.append({"shape": shape, "seconds": ours, "written_out_seconds": theirs})
    report.head("recorded", "MB")
    megabytes = recorded_megabytes()
    for name, used in megabytes.items():
        report.row(name, f"{used:.2f}")
    report.write("recording", rows, megabytes=megabytes)


if __name__ == "__main__":
    main()
