"""Heads differ: what each attends to, and the loss of accuracy without it."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.heads import MultiHead
from regard.attention.masks import padding
from regard.attention.record import record
from regard.data.batching import collate
from regard.data.pair import Pair
from regard.decoding.scoring import encoded
from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.pictures.chart import Grid
from regard.tasks.capabilities import EncodesPairs
from regard.tasks.run import Run

CLAIM = (
    "The heads of a trained Transformer attend to different things. Removing one head costs nothing for some heads, "
    "some accuracy for others, and nearly all of it for a few."
)
SENTENCES = 200
"""The number of sentences whose weights are averaged."""
OFFSETS = {"the one before": -1, "itself": 0, "the one after": 1}
KINDS = "letters", "digits", "marks", "start or end"
READ = *OFFSETS, *KINDS
"""The columns of each head's weights."""


def heads(setting: Setting) -> Finding:
    """The Transformer of dates: the share of each head's weight on each neighbour and on each kind of character, in per
    cent, and greedy exact match on test dates without the head."""
    setting.train(
        "dates-transformer",
        "dates-transformer",
        ["training.steps=3000"] if setting.full else [],
    )
    run = setting.run("dates-transformer")
    pairs = run.config.data.load().test[: None if setting.full else 500]
    whole = run.evaluate(pairs, beam=1)["exact-match"]
    read = readings(run, pairs[:SENTENCES])
    rows, lost = [], {}
    for name, module in run.model.named_modules():
        if isinstance(module, MultiHead):
            left = [without(run, pairs, module, head) for head in range(module.heads)]
            for head, figure in enumerate(left):
                percent = {
                    each: 100 * share for each, share in read[name][head].items()
                }
                rows.append(
                    (
                        name,
                        head,
                        *(percent.get(each, "") for each in READ),
                        figure,
                        figure - whole,
                    )
                )
            lost[name] = [max(0.0, whole - figure) for figure in left]
    chart = Grid(
        f"answers lost without one head, %; with all {whole:.4g} are right",
        "head",
        lost,
    )
    columns = (
        "attention",
        "head",
        *(f"{each}, %" for each in READ),
        "exact match without it, %",
        "difference",
    )
    return Finding(CLAIM, columns, rows, [chart])


@torch.no_grad()
def readings(
    run: EncodesPairs, pairs: Sequence[Pair]
) -> dict[str, list[dict[str, float]]]:
    """For each attention and head in forced decoding of the targets: the shares of weight on kinds of characters and,
    in self-attention, on the neighbours of each position."""
    tokens = encoded(run.model, run.tokenizers, pairs)
    batch = collate(tokens)
    with record(run.model) as maps:
        run.model(batch.source, batch.source_lengths, batch.target_in)
    source = padding(batch.source_lengths, batch.source.shape[1]).readable()
    target = padding(batch.target_lengths, batch.target_in.shape[1]).readable()
    texts = list(zip(tokens, (pair.source for pair in pairs), strict=True))
    sources = [
        [*map(kind, run.tokenizers.source_pieces(ids, text)), KINDS[-1]]
        for (ids, _), text in texts
    ]
    targets = [
        [KINDS[-1], *map(kind, run.tokenizers.target_pieces(ids, text))]
        for (_, ids), text in texts
    ]
    read, written = characters(sources), characters(targets)
    roles = {
        "encoder": (source, neighbours(source.shape[1]) | read),
        "decoder": (target, neighbours(target.shape[1]) | written),
        "cross": (target, read),
    }
    found = {}
    for name, weights in maps.items():
        queries, kinds = roles[
            "cross" if name.endswith("cross_attention") else name.partition(".")[0]
        ]
        counted = weights * queries[:, None, :, None]
        shares = torch.stack(
            [
                (counted * on[:, None]).sum((0, 2, 3)) / queries.sum()
                for on in kinds.values()
            ],
            -1,
        )
        found[name] = [dict(zip(kinds, head, strict=True)) for head in shares.tolist()]
    return found


def neighbours(size: int) -> dict[str, Bool[Tensor, "1 query key"]]:
    """For each neighbour: whether a key is that neighbour of a query."""
    place = torch.arange(size)
    return {
        name: (place - place[:, None])[None] == offset
        for name, offset in OFFSETS.items()
    }


def characters(
    kinds: Sequence[Sequence[str]],
) -> dict[str, Bool[Tensor, "sentence 1 key"]]:
    """For each kind: whether a key is a character of that kind. Padding is of none."""
    size = max(map(len, kinds))
    padded = [[*row, *[""] * (size - len(row))] for row in kinds]
    return {
        name: torch.tensor([[each == name for each in row] for row in padded])[:, None]
        for name in KINDS
    }


def kind(piece: str) -> str:
    """The kind of a character."""
    return "digits" if piece.isdigit() else "letters" if piece.isalpha() else "marks"


@torch.no_grad()
def without(
    run: Run[Any, Any], pairs: Sequence[Pair], module: MultiHead, head: int
) -> float:
    """Exact match without the head, whose rows of the output projection are set to 0."""
    weight = module.output.weight
    width = weight.shape[1] // module.heads
    original = weight[:, head * width : (head + 1) * width].clone()
    weight[:, head * width : (head + 1) * width] = 0.0
    try:
        return run.evaluate(pairs, beam=1)["exact-match"]
    finally:
        weight[:, head * width : (head + 1) * width] = original
