"""Training pairs as token ids, in memory or on disk."""

import logging
from collections.abc import Sequence

from regard.data.columns import Ragged, Shard
from regard.data.pair import Pair
from regard.data.stored import derived
from regard.data.table import Table
from regard.data.tokenizer_pair import Tokenizers, readable
from regard.decoding.texts import limited

log = logging.getLogger("regard")
Limits = tuple[int | None, int | None]
"""The most tokens of a source and of a target that the model takes, END included."""


def encode_pairs(
    pairs: Sequence[Pair], tokenizers: Tokenizers, limits: Limits, *, truncate: bool
) -> Table:
    """The columns source and target of training pairs, without start and end. A warning logs how many were cut.

    Raises:
        InputError: a side is longer than the model takes, without `truncate`.
    """

    def encode(some: Sequence[Pair]) -> Shard:
        return _encoded(some, tokenizers, limits, truncate)

    digests = tokenizers.source.digest, tokenizers.target.digest
    table = derived(
        pairs, f"pairs {digests} {tokenizers.copying} {limits} {truncate}", encode
    )
    for name, limit in zip(("sources", "targets"), limits, strict=True):
        warn_cut(f"training {name}", (table.count(name), len(pairs)), limit)
    return table


def pair_ids(table: Table, index: int) -> tuple[list[int], list[int]]:
    """The ids of a pair."""
    shard, place = table.at(index)
    return shard.columns["source"][place].tolist(), shard.columns["target"][
        place
    ].tolist()


def warn_cut(name: str, counts: tuple[int, int], limit: int | None) -> None:
    """Log how many of how many texts were cut, if any were."""
    if counts[0]:
        log.warning(
            "%d of %d %s were cut to the model's maximum of %d", *counts, name, limit
        )


def _encoded(
    pairs: Sequence[Pair], tokenizers: Tokenizers, limits: Limits, truncate: bool
) -> Shard:
    places = [pair.place for pair in pairs]
    sources, cut_sources = limited(
        limits[0], tokenizers.all_source_ids(pairs), places, truncate=truncate
    )
    targets, cut_targets = limited(
        limits[1],
        tokenizers.all_target_ids(pairs),
        places,
        truncate=truncate,
        side="target",
    )
    if tokenizers.copying:
        sides = zip(sources, targets, strict=True)
        targets = [
            readable(target, source, tokenizers.target) for source, target in sides
        ]
    columns = {"source": Ragged.of_ids(sources), "target": Ragged.of_ids(targets)}
    return Shard(columns, {"sources": cut_sources, "targets": cut_targets})
