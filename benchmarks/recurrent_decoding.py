"""How many sentences a second recurrent models write, beside JoeyNMT's of the same sizes.

`python -m benchmarks.recurrent_decoding`. Weights are random: speed does not depend on what they are, and every text is
made to have `TOKENS` tokens. Every system has a process of its own with one thread, treats memory as it does by itself,
and takes turns with the others; times are those of the processor, medians of rounds. JoeyNMT's environment is that of
`benchmarks.training`. With the name of a system and a file of sources it is such a process.
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks import report
from benchmarks.aim import Aim
from benchmarks.training import workers
from benchmarks.updates import VOCABULARY, WIDTH, joeynmt_model
from regard.data.batching import collate
from regard.decoding import Beam, greedy
from regard.decoding.logits_processors import MinimumLength
from regard.models.catalog import MODELS
from regard.models.fused import fuse
from regard.nn.fast_linear import with_int8
from regard.text.special import END
from regard.training.allocator import keep_freed_memory

TOKENS, SHORTEST, LONGEST = 20, 8, 18
"""Tokens of every text, and the fewest and most of a source, END apart."""
CASES = ((1, 1), (1, 5), (64, 1), (64, 5))
"""Sentences together, and the width of the beam."""
SENTENCES, ROUNDS, QUICK, TIMES = 8, 7, 3, 2.0
"""Sentences of one sample where they are written one by one, samples of each, and how many times as fast as the peer
ours are to be."""
Search = Callable[[Sequence[list[int]], int], object]
"""Of sources, with a beam of this width."""


def ours(system: str, *, int8: bool) -> Search:
    """One of this library's, as a run writes with it."""
    keep_freed_memory()
    name, sizes = OURS[system]
    model = MODELS[name](VOCABULARY, VOCABULARY, MODELS[name].config_class(**sizes)).eval()
    if int8:
        with_int8(model)
    fuse(model)
    endless = (MinimumLength(TOKENS + 1),)

    @torch.no_grad()
    def search(sources: Sequence[list[int]], width: int) -> None:
        rows = collate([(each, []) for each in sources])
        memory = model.encoder(rows.source, rows.source_lengths)
        if width == 1:
            greedy(model.decoder, memory, max_length=TOKENS, processors=endless)
        else:
            Beam(width, processors=endless)(model.decoder, memory, max_length=TOKENS)

    return search


def joeynmt(kind: str) -> Search:
    """JoeyNMT's."""
    from joeynmt.search import beam_search  # pyright: ignore[reportMissingImports]
    from joeynmt.search import greedy as best_tokens  # pyright: ignore[reportMissingImports]

    model, exactly = joeynmt_model(kind).eval(), {"max_output_length": TOKENS, "min_output_length": TOKENS}

    @torch.no_grad()
    def search(sources: Sequence[list[int]], width: int) -> None:
        rows = collate([(each, []) for each in sorted(sources, key=len, reverse=True)])
        mask = (rows.source != 0)[:, None]
        read = {"src": rows.source.masked_fill(rows.source == 0, 1), "src_length": rows.source_lengths}
        states, final, _, _ = model(return_type="encode", src_mask=mask, **read)
        encoded = {"encoder_output": states, "encoder_hidden": final, "src_mask": mask}
        if width == 1:
            best_tokens(model=model, **encoded, **exactly)
        else:
            beam_search(model, width, alpha=0.0, **encoded, **exactly)

    return search


RECURRENT: dict[str, Any] = {"embedding": WIDTH, "width": WIDTH, "cell": "gru"}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "Luong GRU": ("luong", {"layers": 1, "bidirectional": True, **RECURRENT}),
    "Bahdanau GRU": ("bahdanau", RECURRENT),
    "one-pass LSTM": ("one-pass", {"width": WIDTH, "encoder_width": WIDTH}),
}
SYSTEMS: dict[str, Callable[[], Search]] = {
    **{f"regard, {name}": partial(ours, name, int8=False) for name in OURS},
    **{f"regard, {name}, int8": partial(ours, name, int8=True) for name in OURS},
    "JoeyNMT, Luong GRU": lambda: joeynmt("luong"),
    "JoeyNMT, Bahdanau GRU": lambda: joeynmt("bahdanau"),
    "JoeyNMT, Luong LSTM": lambda: joeynmt("luong-lstm"),
}
BESIDE = {name: f"JoeyNMT, {name.replace('one-pass', 'Luong')}" for name in OURS}
PEERS = {f"regard, {name}{kind}": peer for kind in ("", ", int8") for name, peer in BESIDE.items()}
"""The peer of each of ours; JoeyNMT itself multiplies in float32 only."""


def sources() -> list[list[int]]:
    """As many as the largest case needs."""
    torch.manual_seed(1)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (max(SENTENCES, *(batch for batch, _ in CASES)),)).tolist()
    return [torch.randint(END + 1, VOCABULARY, (length,)).tolist() for length in lengths]


def measured(rounds: int) -> dict[tuple[int, int], dict[str, float]]:
    """Seconds of a sentence by case and system, all taking turns; the first round warms up."""
    found = {case: {system: list[float]() for system in SYSTEMS} for case in CASES}
    with workers(list(SYSTEMS), sources(), "benchmarks.recurrent_decoding") as running:
        for _ in range(rounds + 1):
            for case in CASES:
                for worker in running:
                    found[case][worker.system].append(worker.seconds(*case) / max(case[0], SENTENCES))
    return {case: {system: median(each[1:]) for system, each in times.items()} for case, times in found.items()}


def aims() -> list[Aim]:
    """The quick pass: each of ours beside its peer."""
    rows = []
    for (batch, width), times in measured(QUICK).items():
        for system, peer in PEERS.items():
            what = f"decoding, {system.removeprefix('regard, ')}, {batch} sentences, beam {width}"
            cost = 1e3 * times[system], peer, 1e3 * times[peer]
            rows.append(Aim(what, "ms/sentence", *cost, times=TIMES, limited_by="matrix products"))
    return rows


def answer(system: str, path: Path) -> None:
    """Answer with the seconds of each case, until there is nothing more to read."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    search, rows = SYSTEMS[system](), torch.load(path)
    print("ready", flush=True)
    for line in sys.stdin:
        batch, width = map(int, line.split())
        began = time.process_time()
        for first in range(0, max(batch, SENTENCES), batch):
            search(rows[first : first + batch], width)
        print(time.process_time() - began, flush=True)


def main(arguments: list[str]) -> None:
    """Prints the table and writes the results."""
    if arguments:
        return answer(arguments[0], Path(arguments[1]))
    rows = []
    report.head("sentences", "beam", "system", "sentences/s", "beside JoeyNMT")
    for (batch, width), times in measured(ROUNDS).items():
        for system, each in times.items():
            beside = f"{times[PEERS[system]] / each:.2f}" if system in PEERS else ""
            report.row(batch, width, system, f"{1 / each:.1f}", beside)
            rows.append({"sentences": batch, "beam": width, "system": system, "sentences_per_second": 1 / each})
    report.write("recurrent_decoding", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
