"""Texts that somebody watches while they are written."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.attention.record import Maps, record
from regard.decoding.hypothesis import Hypothesis, limits
from regard.decoding.logits_processors import Rule
from regard.decoding.penalties import LengthPenalty
from regard.decoding.sampling import Sampler
from regard.decoding.sequence_state import Draft
from regard.nn.decoders.protocol import Decoder


def always(row: int) -> bool:
    """Somebody watches to the end."""
    return True


@dataclass(frozen=True)
class Watching:
    """What is wanted of every token beside itself: the weights of the modules `names` of `model`, none for None;
    and so many tokens that are likely in its place. A text is given up before the next step once
    `wanted(row)` is false."""

    model: nn.Module
    names: str | tuple[str, ...] | None = None
    candidates: int = 0
    wanted: Callable[[int], bool] = always


@dataclass(frozen=True, eq=False)
class Written:
    """One more token of the text of a `row` of the memory.

    `tokens` are all so far, this one last, END among them, `score` is the log-probability of them all; `read (layer,
    head, key)` says what was looked at to tell this one, None where nobody asked; `candidates` are likely tokens in its
    place, each with the log-probability that the model gives it, best first. Once the text is done, `hypothesis` is it.
    """

    row: int
    tokens: list[int]
    score: float
    log_probability: float
    read: np.ndarray | None
    candidates: list[tuple[int, float]]
    hypothesis: Hypothesis | None


def write(
    decoder: Decoder,
    memory: Memory,
    watching: Watching,
    *,
    max_length: int | Tensor,
    choose: Callable[[Tensor], Tensor] | None = None,
    penalty: LengthPenalty | None = None,
    rules: Sequence[Rule] = (),
) -> Iterator[Written]:
    """What `greedy` writes, or with a `Sampler` to `choose` what `sample` draws, token by token: each step of all texts
    that are not done, in the order of their rows.

    Args:
        max_length: most tokens, END included: one number, or `(batch,)`.

    Raises:
        ValueError: max_length below 1, or no token can follow a text.
    """
    limit, penalty = limits(memory, max_length), penalty or LengthPenalty()
    choose = Sampler(temperature=0.0) if choose is None else choose
    with torch.no_grad():  # never while others have their turn
        draft = _wanted(Draft.first(decoder, memory), watching)
    while len(draft.rows):
        with torch.no_grad(), _listening(watching) as maps:
            draft, following = draft.step(decoder, choose, rules)
        read = None if maps is None else maps.layered()[:, :, :, 0].double().cpu().numpy()
        done = draft.done(limit)
        for place, finished in enumerate(done.tolist()):
            yield Written(
                int(draft.rows[place]),
                draft.written[place].tolist(),
                float(draft.scores[place]),
                float(following[place, draft.written[place, -1]]),
                None if read is None else read[place],
                _best(following[place], watching.candidates),
                draft.hypothesis(place, penalty) if finished else None,
            )
        draft = _wanted(draft.without(done), watching)


def _wanted(draft: Draft, watching: Watching) -> Draft:
    """Only what somebody still watches."""
    left = [not watching.wanted(row) for row in draft.rows.tolist()]
    return draft.without(torch.tensor(left, dtype=torch.bool, device=draft.rows.device))


def _listening(watching: Watching) -> AbstractContextManager[Maps | None]:
    return nullcontext() if watching.names is None else record(watching.model, only=watching.names)


def _best(scores: Tensor, count: int) -> list[tuple[int, float]]:
    best, tokens = scores.topk(min(count, len(scores)))
    pairs = zip(tokens.tolist(), best.tolist(), strict=True)
    return [(token, score) for token, score in pairs if score > -torch.inf]
