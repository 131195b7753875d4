"""Heads differ: what each reads, and what each costs when it is gone."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.data.pair import Pair
from regard.data.pair_batch import collate
from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.heads import MultiHead
from regard.inference.given import encoded
from regard.pictures.chart import Grid
from regard.recording import record
from regard.tasks.text_to_text.run import TextToTextRun

CLAIM = (
    "A trained Transformer's heads differ in what they read: one looks at its neighbour, one at digits, one at the end."
    " Some can be taken away one at a time at no cost, others cost some answers, and without a single one nearly all "
    "answers may be wrong."
)
LOOKED_AT = 200
"""Sentences whose weights are added up."""
OFFSETS = {-1: "the one before", 0: "itself", 1: "the one after"}


def heads(setting: Setting) -> Finding:
    """The Transformer of dates: what each head reads, as shares of its weight, and exact match on test dates, greedily,
    without it."""
    setting.train("dates-transformer", "dates-transformer", ["training.steps=3000"] if setting.full else [])
    run = setting.run("dates-transformer")
    pairs = run.config.data.load().test[: None if setting.full else 500]
    whole = run.evaluate(pairs, beam=1)["exact-match"]
    read = readings(run, pairs[:LOOKED_AT])
    rows, lost = [], {}
    for name, module in run.model.named_modules():
        if isinstance(module, MultiHead):
            left = [without(run, pairs, module, head) for head in range(module.heads)]
            for head, figure in enumerate(left):
                rows.append((name, head, *mostly(read[name][head]), figure, figure - whole))
            lost[name] = [max(0.0, whole - figure) for figure in left]
    chart = Grid(f"answers lost without one head, %; with all {whole:.4g} are right", "head", lost)
    columns = "attention", "head", "reads most", "of its weight, %", "exact match without it, %", "difference"
    return Finding(CLAIM, columns, rows, [chart])


def mostly(shares: dict[str, float]) -> tuple[str, float]:
    """What has the greatest share, and the share in per cent."""
    name = max(shares, key=lambda each: shares[each])
    return name, 100 * shares[name]


@torch.no_grad()
def readings(run: TextToTextRun, pairs: Sequence[Pair]) -> dict[str, list[dict[str, float]]]:
    """For each attention and head, on what its weight lies while the model is made to write the targets, in shares:
    kinds of characters of the source, or, where a side reads itself, the neighbours of each position."""
    tokens = encoded(run.model, run.tokenizers, pairs)
    batch = collate(tokens)
    with record(run.model) as maps:
        run.model(batch.source, batch.source_lengths, batch.target_in)
    source = torch.arange(batch.source.shape[1]) < batch.source_lengths[:, None]
    target = torch.arange(batch.target_in.shape[1]) < batch.target_lengths[:, None]
    pieces = [run.tokenizers.source_pieces(ids, pair.source) for (ids, _), pair in zip(tokens, pairs, strict=True)]
    roles = {
        "encoder": (source, neighbours(source.shape[1])),
        "decoder": (target, neighbours(target.shape[1])),
        "cross": (target, characters(pieces, source.shape[1])),
    }
    found = {}
    for name, weights in maps.items():
        queries, kinds = roles["cross" if name.endswith("cross_attention") else name.partition(".")[0]]
        shares = [
            (weights * (queries[..., None] & on)[:, None]).sum((0, 2, 3)) / queries.sum() for on in kinds.values()
        ]
        found[name] = [dict(zip(kinds, head.tolist(), strict=True)) for head in torch.stack(shares, -1)]
    return found


def neighbours(size: int) -> dict[str, Bool[Tensor, "1 query key"]]:
    """Whether a key is a neighbour of a query, on which side, or neither."""
    place = torch.arange(size)
    offset = (place - place[:, None])[None]
    return {name: offset == each for each, name in OFFSETS.items()} | {"elsewhere": offset.abs() > 1}


def characters(pieces: Sequence[Sequence[str]], size: int) -> dict[str, Bool[Tensor, "sentence 1 key"]]:
    """Whether a key is a character of a kind; what follows the last is the end."""
    kinds = [
        ["digits" if each.isdigit() else "letters" if each.isalpha() else "marks" for each in row] for row in pieces
    ]
    kinds = [row + ["the end"] * (size - len(row)) for row in kinds]
    return {
        name: torch.tensor([[each == name for each in row] for row in kinds])[:, None]
        for name in ("letters", "digits", "marks", "the end")
    }


def kind(piece: str) -> str:
    """Of a character."""
    return "digits" if piece.isdigit() else "letters" if piece.isalpha() else "marks"


@torch.no_grad()
def without(run: TextToTextRun, pairs: Sequence[Pair], module: MultiHead, head: int) -> float:
    """Exact match while what the head reads is not projected into the output."""
    weight = module.output.weight
    width = weight.shape[1] // module.heads
    kept = weight[:, head * width : (head + 1) * width].clone()
    weight[:, head * width : (head + 1) * width] = 0.0
    try:
        return run.evaluate(pairs, beam=1)["exact-match"]
    finally:
        weight[:, head * width : (head + 1) * width] = kept
