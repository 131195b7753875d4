"""What a search returns, and what every search checks and does."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.text.special import PAD, START


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without START and END, its score, and whether it ended by itself or at the limit.

    The score is a log-probability, divided by the length penalty if there is one; higher is better.
    """

    tokens: tuple[int, ...]
    score: float
    finished: bool


def limits(memory: Memory, max_length: int | Tensor) -> Tensor:
    """The most tokens each row may have, END included: `(batch,)`.

    Raises:
        ValueError: a limit is below 1, or there is not one for each row.
    """
    batch = memory.value.shape[0]
    limit = torch.as_tensor(max_length, device=memory.value.device)
    if limit.numel() and int(limit.min()) < 1:
        raise ValueError(f"max_length is {int(limit.min())}; it must be at least 1")
    if limit.ndim > 1 or (limit.ndim and len(limit) != batch):
        raise ValueError(f"max_length has shape {tuple(limit.shape)}; give one number, or one for each of {batch} rows")
    return limit.expand(batch)


def last_tokens(written: Tensor) -> Tensor:
    """What each of the texts `(row, length)` ends with: START where nothing is written."""
    return written[:, -1] if written.shape[1] else written.new_full((len(written),), START)


def next_scores(logits: Tensor) -> Tensor:
    """Logits -> log-probabilities, of the same shape, with minus infinity for PAD and START, which no text has.

    What they had is not shared out among the others: a score is the one that the model gives a text it is made to read.
    """
    scores = logits.float().log_softmax(-1)
    for token in (PAD, START):
        scores[..., token] = -torch.inf
    return scores


def require_token(best: Tensor) -> None:
    """Raises ValueError where the best score of a row's tokens is no finite number."""
    if not best.isfinite().all():
        raise ValueError(
            "no token is possible: all logits of a row but those of PAD and START are minus infinity, "
            "or one is infinite or NaN"
        )
