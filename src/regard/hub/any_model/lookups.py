"""The maps of a transformers model with their labels: sinks are marked, long texts are averaged."""

from dataclasses import replace

from regard.hub.any_model.maps import RoleMaps
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, Patches, of_rows
from regard.maps.sinks import separated

GENERATED = "written tokens"
"""The name of the lookups of what a model wrote."""


def lookups_of(
    name: str, maps: RoleMaps, source: Side, target: Side, patches: Patches | None
) -> Lookups:
    """The maps of a role with their labels. A sink among the keys has its share in its label, and a further map has the
    weights of the other keys, as shares. Totals over queries become their mean, one row."""
    weights = maps.weights.cpu().numpy()
    if weights.shape[2] == 1 < len(target.pieces):
        target = Side.of([f"all {len(target.pieces):,} positions (mean)"])
        weights = weights / weights.sum(-1, keepdims=True)
    own = {
        "source_words": source.words,
        "target_words": target.words,
        "patches": patches,
    }
    return separated(
        Lookups(weights, source.pieces, target.pieces, name, maps.layers, **own)
    )


def rows_of(lookups: Lookups, first: int, target: Side) -> Lookups:
    """The rows from number `first` on that wrote the tokens of `target`: each that of the token before it."""
    rows = slice(first, first + len(target.pieces))
    return replace(of_rows(lookups, rows, target.pieces, target.words), name=GENERATED)
