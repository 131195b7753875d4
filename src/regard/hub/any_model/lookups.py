"""The maps of a transformers model with their labels: sinks are marked, long texts are averaged."""

from dataclasses import replace

from regard.hub.any_model.maps import RoleMaps
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, Patches, of_rows
from regard.maps.other_map import OtherMap
from regard.maps.sinks import sinks, without


def lookups_of(name: str, maps: RoleMaps, source: Side, target: Side, patches: Patches | None) -> Lookups:
    """The maps of a role with their labels. A sink among the keys has its share in its label, and a further map has the
    weights of the other keys, as shares. Totals over queries become their mean, one row."""
    weights = maps.weights.cpu().numpy()
    if weights.shape[2] == 1 < len(target.pieces):
        target = Side.of([f"all {len(target.pieces):,} positions (mean)"])
        weights = weights / weights.sum(-1, keepdims=True)
    found = sinks(weights)
    others = {"without sinks": OtherMap(without(weights, found), maps.layers)} if found else {}
    marked = _marked(source, found)
    target = marked if target is source else target
    return Lookups(
        weights,
        marked.pieces,
        target.pieces,
        name,
        maps.layers,
        others,
        source_words=marked.words,
        target_words=target.words,
        patches=patches,
    )


def rows_of(lookups: Lookups, first: int, target: Side) -> Lookups:
    """The rows from number `first` on that wrote the tokens of `target`: each that of the token before it."""
    rows = slice(first, first + len(target.pieces))
    return replace(of_rows(lookups, rows, target.pieces, target.words), name="written tokens")


def _marked(side: Side, found: dict[int, float]) -> Side:
    """The labels with the mean weight of each sink."""
    if not found:
        return side
    pieces = [
        f"{piece} (sink, {100 * found[place]:.0f} %)" if place in found else piece
        for place, piece in enumerate(side.pieces)
    ]
    return replace(side, pieces=tuple(pieces))
