"""Effects: what an output loses where the model cannot attend to a position."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.intervene import Cut, intervene
from regard.attention.record import Maps, ReportsWeights, record
from regard.data.cache import begin_progress
from regard.errors import InputError, quote
from regard.maps.alignment import Side, Words
from regard.maps.reductions import Numbers
from regard.shapes import Float
from regard.work import checkpoint

log = logging.getLogger("regard")
LIMIT = 4096
"""The most forward passes of one map."""
LONG = 64
"""Forward passes that are said before they start."""
Score = Callable[[int], Float[Tensor, "copy target"]]
"""Number of copies of the input in a batch -> log-probabilities of the targets."""


class Edges(NamedTuple):
    """Edges to cut together; None means all queries."""

    queries: Sequence[int] | None
    keys: Sequence[int]


@torch.no_grad()
def measure_effects(
    model: nn.Module,
    names: str | Sequence[str],
    score: Score,
    cuts: Sequence[Edges] | None = None,
    maps: Numbers = None,
    batch: int = 1,
) -> Float[np.ndarray, "target cut"]:
    """Measure the log-probability that each target loses by each cut, in nats.

    A negative number is a gain. Cuts are exact: the model runs again for each.

    Args:
        model: The model.
        names: The modules that attend, as patterns for `record`.
        score: Runs the model on copies of one input.
        cuts: What to cut. Default: each key from all queries.
        maps: The numbers of the heads to cut, layer x heads + head. Default: all.
        batch: The most copies in one forward pass.

    Raises:
        InputError: There are too many cuts, or no map of a number.
    """
    with record_places(model, names) as recorded:
        base = score(1)
    places = choose_heads(recorded, maps)
    if cuts is None:
        keys = max(item.shape[-1] for item in recorded.values())
        cuts = [Edges(None, [key]) for key in range(keys)]
    passes = -(-len(cuts) // batch)
    if passes > LIMIT:
        raise InputError(
            f"the effects of {len(cuts)} cuts need {passes} forward passes, and the limit "
            f"is {LIMIT}; choose a shorter text, or cut words (--cut word)"
        )
    if passes >= LONG:
        log.info("effects: %d forward passes", passes)
    effects = []
    silent = passes < LONG
    progress = begin_progress("effects", passes, 0, "passes", silent=silent)
    for first in range(0, len(cuts), batch):
        checkpoint()
        group = cuts[first : first + batch]
        plan: Plan = {}
        for name, heads in places.items():
            plan[name] = [
                Cut(
                    queries=edges.queries,
                    keys=edges.keys,
                    heads=heads,
                    rows=[row],
                )
                for row, edges in enumerate(group)
            ]
        with apply_cuts(model, plan):
            effects.append(base - score(len(group)))
        progress.update()
    progress.close()
    return torch.cat(effects).T.double().cpu().numpy()


def record_places(
    model: nn.Module, names: str | Sequence[str]
) -> AbstractContextManager[Maps]:
    """Record the weights of modules by names that `intervene` matches.

    A model of transformers reports its weights in one place, and is changed in its own
    modules.
    """
    patterns = [names] if isinstance(names, str) else [*names]
    if isinstance(model, ReportsWeights):
        patterns = ["network.*" if name == "attention" else name for name in patterns]
    return record(model, patterns)


def list_heads(maps: Maps) -> list[tuple[str, int]]:
    """Return the module and the head of each map, in the order of their numbers."""
    heads = []
    for name, weights in maps.items():
        count = weights.shape[1] if weights.ndim > 3 else 1
        heads.extend((name, head) for head in range(count))
    return heads


def choose_heads(maps: Maps, numbers: Numbers) -> dict[str, list[int] | None]:
    """Return the heads of each module by the numbers of their maps; None for all.

    Raises:
        InputError: There is no map of a number.
    """
    if numbers is None:
        return dict.fromkeys(name for name in maps if ":" not in name)
    heads = list_heads(maps)
    chosen: dict[str, list[int] | None] = {}
    for number in numbers:
        if not 0 <= number < len(heads):
            raise InputError(f"there is no map {number}; there are {len(heads)} maps")
        name, head = heads[number]
        if ":" in name or f"{name}:1" in maps:
            raise InputError(
                "the layers of this model share one module, so single layers cannot be "
                "cut; choose no map"
            )
        chosen[name] = [*(chosen.get(name) or []), head]
    return chosen


class MapCut(NamedTuple):
    """Edges to cut in some maps; None means all queries, keys or maps."""

    queries: Numbers = None
    keys: Numbers = None
    maps: Numbers = None


Plan = dict[str, list[Cut]]
"""The cuts of each module that attends."""


def plan_cuts(maps: Maps, cuts: Sequence[MapCut]) -> Plan:
    """Return the cuts of each module that attends.

    Raises:
        InputError: There is no map of a number.
    """
    plan: Plan = {}
    for queries, keys, numbers in cuts:
        for name, heads in choose_heads(maps, numbers).items():
            cut = Cut(queries=queries, keys=keys, heads=heads)
            plan.setdefault(name, []).append(cut)
    return plan


@contextmanager
def apply_cuts(
    model: nn.Module, plan: Mapping[str, Sequence[Cut]], *, strict: bool = True
) -> Iterator[None]:
    """Cut the attention of several modules, as `intervene` does."""
    with ExitStack() as stack:
        for name, cuts in plan.items():
            stack.enter_context(intervene(model, *cuts, only=name, strict=strict))
        yield


def find_pieces(words: Words, numbers: Numbers) -> list[int] | None:
    """Return the pieces of words by the numbers of these; None for all.

    Raises:
        InputError: There is no word of a number.
    """
    if numbers is None:
        return None
    count = len(words.labels)
    if wrong := [number for number in numbers if not 0 <= number < count]:
        raise InputError(f"positions {wrong} do not exist: there are {count}, from 0")
    return [piece for piece, word in enumerate(words.indices) if word in numbers]


def choose_cuts(cut: str, side: Side) -> list[Edges] | None:
    """Return the cut of each position: None for each alone, or with others.

    Args:
        cut: "position", "word" for all pieces of a word, or what is cut together: words
            of the text, or spans of positions such as "3:6" or "3:6,8:9", from 0.
        side: The pieces and their words.

    Raises:
        InputError: Single edges are to be cut, or the text has no such words or positions.
    """
    if cut == "edge":
        raise InputError(
            "single edges are cut between an output and its source; choose position or "
            "word"
        )
    if cut == "position":
        return None
    pieces: dict[int, list[int]] = {}
    for piece, word in enumerate(side.words.indices):
        pieces.setdefault(word, []).append(piece)
    if cut == "word":
        return [Edges(None, pieces[word]) for word in side.words.indices]
    labels, wanted = side.words.labels, tuple(cut.split())
    for first in range(len(labels)):
        last = first + len(wanted)
        if labels[first:last] == wanted:
            marked = [[p for word in range(first, last) for p in pieces[word]]]
            break
    else:
        numbers = [pair.split(":") for pair in cut.split(",")]
        if not all(len(n) == 2 and all(map(str.isdecimal, n)) for n in numbers):
            raise InputError(
                f"cut is {quote(cut)}; expected position, word, edge, positions A:B from "
                f"0, or words of the text: {quote(' '.join(labels))}"
            )
        marked = [list(range(int(first), int(last))) for first, last in numbers]
    count = len(side.pieces)
    if any(not span or span[-1] >= count for span in marked):
        raise InputError(f"cut is {quote(cut)}; the text has the positions 0:{count}")
    spans = {piece: span for span in marked for piece in span}
    return [Edges(None, spans.get(piece, [])) for piece in range(count)]
