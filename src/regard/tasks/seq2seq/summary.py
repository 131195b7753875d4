"""The summary of pairs of texts before training, and sides that are exchanged."""

from typing import Any

from regard.data.exchanged import COPIED, exchanged, longer_targets
from regard.data.pair import Pair
from regard.data.splits import Splits
from regard.data.tokenizer_pair import Tokenizers
from regard.errors import InputError
from regard.tasks.repeated import repeated_warnings
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    abridged,
    request_of,
    rows,
    sampled,
    unknown_shares,
    unknown_warnings,
)


def pairs_summary(
    data: Any, splits: Splits[Pair], tokenizers: Tokenizers, *, target: str = "target"
) -> DataSummary:
    """The summary of pairs; `target` names the side of the target. How many are cut is in the log already, exactly.

    Raises:
        InputError: source and target of a set are exchanged.
    """
    some, first = sampled(splits.train), splits.train[0]
    sources = [
        tokenizers.ended_source(tokenizers.source_ids(pair.source)) for pair in some
    ]
    targets = [
        tokenizers.ended_target(tokenizers.target_ids(pair.target, pair.source))
        for pair in some
    ]
    lengths = {
        "source": Lengths.of(list(map(len, sources))),
        target: Lengths.of(list(map(len, targets))),
    }
    example = {
        "source": abridged(
            tokenizers.source_pieces(sources[0], first.source), len(sources[0])
        ),
        target: abridged(
            tokenizers.target_pieces(targets[0], first.source), len(targets[0])
        ),
    }
    unknown, warnings = _unknown(splits, tokenizers, target)
    return DataSummary(
        unit="pairs",
        rows=rows(data, splits),
        lengths=lengths,
        unknown=unknown,
        unknown_unit=tokenizers.source.unknown_unit,
        example=example,
        request=request_of(text=first.source),
        warnings=(
            *_exchanged(splits, copying=tokenizers.copying),
            *repeated_warnings(data, splits, lambda pair: pair.source),
            *warnings,
        ),
    )


def _unknown(
    splits: Splits[Pair], tokenizers: Tokenizers, target: str
) -> tuple[dict[str, float], list[str]]:
    """The share of unknown characters of each side of each set, with warnings; none where words may be copied."""
    some = {name: sampled(pairs) for name, pairs in splits.named.items() if len(pairs)}
    targets = "targets" if target == "target" else target
    sources = {
        f"{name} sources": [pair.source for pair in pairs]
        for name, pairs in some.items()
    }
    outputs = {
        f"{name} {targets}": [pair.target for pair in pairs]
        for name, pairs in some.items()
    }
    read, written = (
        unknown_shares(tokenizers.source, sources),
        unknown_shares(tokenizers.target, outputs),
    )
    warnings = unknown_warnings(tokenizers.source, read) + unknown_warnings(
        tokenizers.target, written
    )
    return read | written, [] if tokenizers.copying else warnings


def _exchanged(splits: Splits[Pair], *, copying: bool) -> list[str]:
    """Raises InputError for a set with exchanged sides; a warning where the sides of all sets may be."""
    for name, pairs in (("valid", splits.valid), ("test", splits.test)):
        if exchanged(splits.train, pairs):
            raise InputError(
                f"data.{name}: its sources are like the targets of data.train, and its targets like their sources; "
                "exchange source and target of one of the two"
            )
    times = longer_targets(splits.train)
    if copying and times > COPIED:
        return [
            f"the targets are {times:.0f} times as long as the sources, and this model copies words of its source; if "
            "the shorter text should be predicted, exchange source and target"
        ]
    return []
