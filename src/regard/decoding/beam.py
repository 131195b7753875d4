"""Beam search."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.decoders.protocol import Decoder, State
from regard.decoding.hypothesis import Hypothesis, limits, next_scores, require_token
from regard.decoding.penalties import LengthPenalty
from regard.memory import Memory
from regard.text.special import END, START


@dataclass(frozen=True, eq=False)
class Front:
    """The open hypotheses: `width` for each of the sources still searched, best first.

    `sources (source,)` says which; `scores (source, width)` are log-probabilities, minus infinity for an empty place;
    `written (source * width, length)`; `state` has source * width rows.
    """

    sources: Tensor
    scores: Tensor
    written: Tensor
    state: State

    def select(self, keep: Tensor) -> "Front":
        """The sources `keep` alone."""
        width = self.scores.shape[1]
        rows = (keep[:, None] * width + torch.arange(width, device=keep.device)).flatten()
        return Front(self.sources[keep], self.scores[keep], self.written[rows], self.state.select(rows))


@torch.no_grad()
def beam(
    decoder: Decoder,
    memory: Memory,
    *,
    width: int,
    max_length: int | Tensor,
    penalty: LengthPenalty | None = None,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """The `n_best` best of `width` hypotheses for each row of the memory, best first.

    A source is done when it has `width` ended hypotheses and none that is open scores better at its present length than
    the worst of them. Hypotheses that reach the limit are returned, marked unfinished, only where too few have ended.

    Args:
        max_length: most tokens, END included: one number, or `(batch,)`.

    Raises:
        ValueError: width below 1 or above the vocabulary, n_best outside 1..width, max_length below 1, or a hypothesis
            that no token can follow.
    """
    _check(width, n_best, decoder.output.out_features)
    limit = limits(memory, max_length)
    penalty = LengthPenalty() if penalty is None else penalty
    ended: list[list[Hypothesis]] = [[] for _ in limit]
    front = _first(decoder, memory, width)
    while len(front.sources):
        front = _unsettled(_advance(decoder, front, ended, penalty), ended, penalty, limit)
    return [sorted(each, key=lambda hypothesis: -hypothesis.score)[:n_best] for each in ended]


def _check(width: int, n_best: int, vocabulary: int) -> None:
    if not 1 <= n_best <= width <= vocabulary:
        raise ValueError(
            f"beam width is {width} and n_best {n_best}; "
            f"they must satisfy 1 <= n_best <= width <= {vocabulary}, the vocabulary"
        )


def _first(decoder: Decoder, memory: Memory, width: int) -> Front:
    """One open hypothesis a source, in the first of its places."""
    sources = torch.arange(memory.value.shape[0], device=memory.value.device)
    scores = torch.full((len(sources), width), -torch.inf, device=sources.device)
    scores[:, 0] = 0.0
    rows = sources.repeat_interleave(width)
    return Front(sources, scores, rows.new_full((len(rows), 1), START)[:, :0], decoder.start(memory).select(rows))


def _advance(decoder: Decoder, front: Front, ended: list[list[Hypothesis]], penalty: LengthPenalty) -> Front:
    """One step: the best extensions stay open; END among the best `width` closes a hypothesis."""
    width = front.scores.shape[1]
    last = front.written[:, -1] if front.written.shape[1] else front.written.new_full((len(front.written),), START)
    logits, state = decoder.step(last, front.state)
    vocabulary = logits.shape[-1]
    extended = _extended(front.scores, next_scores(logits).unflatten(0, (-1, width))).flatten(1)
    scores, places = extended.topk(min(2 * width, extended.shape[1]))
    parents, tokens = places // vocabulary, places % vocabulary
    closing = (tokens == END) & (scores > -torch.inf)
    length = front.written.shape[1] + 1
    for source, rank in closing[:, :width].nonzero().tolist():
        text = front.written[source * width + int(parents[source, rank])].tolist()
        score = penalty(float(scores[source, rank]), length)
        ended[int(front.sources[source])].append(Hypothesis(tuple(text), score, finished=True))
    scores, order = scores.masked_fill(tokens == END, -torch.inf).topk(width)
    parents, tokens = parents.gather(1, order), tokens.gather(1, order)
    rows = (parents + width * torch.arange(len(parents), device=parents.device)[:, None]).flatten()
    written = torch.cat([front.written[rows], tokens.flatten()[:, None]], 1)
    return replace(front, scores=scores, written=written, state=state.select(rows))


def _extended(scores: Tensor, log_probabilities: Tensor) -> Tensor:
    """Scores `(source, width)` of hypotheses -> `(source, width, vocabulary)` of all that may follow; none follows an
    empty place. Raises ValueError for a hypothesis that no token can follow."""
    empty = scores == -torch.inf
    extended = (scores[..., None] + log_probabilities).masked_fill(empty[..., None], -torch.inf)
    require_token(extended.amax(-1).masked_fill(empty, 0.0))
    return extended


def _unsettled(front: Front, ended: list[list[Hypothesis]], penalty: LengthPenalty, limit: Tensor) -> Front:
    """The sources that are not done."""
    texts = front.written.unflatten(0, front.scores.shape)
    length = front.written.shape[1]
    keep = [
        place
        for place, (source, scores, text) in enumerate(
            zip(front.sources.tolist(), front.scores.tolist(), texts, strict=True)
        )
        if not _settle(ended[source], scores, text, penalty, length >= int(limit[source]))
    ]
    if len(keep) == len(texts):
        return front
    return front.select(torch.tensor(keep, dtype=torch.long, device=limit.device))


def _settle(
    ended: list[Hypothesis], scores: list[float], written: Tensor, penalty: LengthPenalty, at_limit: bool
) -> bool:
    """Whether a source is done; at its limit, open hypotheses fill what is missing of the ended."""
    width, length = len(scores), written.shape[1]
    if at_limit:
        for score, text in zip(scores[: max(0, width - len(ended))], written.tolist(), strict=False):
            if score > -torch.inf:
                ended.append(Hypothesis(tuple(text), penalty(score, length), finished=False))
        return True
    ended.sort(key=lambda hypothesis: -hypothesis.score)
    return scores[0] == -torch.inf or (len(ended) >= width and penalty(scores[0], length) <= ended[width - 1].score)
