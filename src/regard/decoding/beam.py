"""Beam search."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.beam_state import BeamState, Extensions
from regard.decoding.hypothesis import Hypothesis, limits
from regard.decoding.logits_processors import Rule
from regard.decoding.penalties import CoveragePenalty, LengthPenalty
from regard.nn.decoders.protocol import Decoder
from regard.text.special import END


@dataclass(frozen=True)
class Beam:
    """Keeps the `width` best beginnings. A source is done when it has `width` ended hypotheses and none that is open
    scores better at its present length, had it read everything, than the worst of them. Hypotheses that reach the limit
    are returned, marked unfinished, only where too few have ended.

    A kind of beam is its `choose`, and which places are open at the `start`.
    """

    width: int
    length: LengthPenalty = field(default_factory=LengthPenalty)
    coverage: CoveragePenalty | None = None
    rules: tuple[Rule, ...] = ()

    @property
    def start(self) -> tuple[int, ...]:
        """Places that hold the empty text at first."""
        return (0,)

    def choose(self, beam: BeamState, extended: Tensor) -> tuple[Extensions, Extensions]:
        """Of all continuations `(source, width, vocabulary)`, those that end a hypothesis, by END among the `width`
        best, and those `width` that go on."""
        best = Extensions.best(extended, 2 * self.width)
        end = best.tokens == END
        ending = Extensions(*(each[:, : self.width] for each in best.only(end)))
        return ending, best.only(~end).top(self.width)

    @torch.no_grad()
    def __call__(
        self, decoder: Decoder, memory: Memory, *, max_length: int | Tensor, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """The `n_best` best hypotheses for each row of the memory, best first, no text twice.

        Args:
            max_length: most tokens, END included: one number, or `(batch,)`.

        Raises:
            ValueError: width below 1 or above the vocabulary, n_best outside 1..width, max_length below 1, a hypothesis
                that no token can follow, or a coverage penalty for a decoder that does not attend to its source.
        """
        self.check(decoder, n_best)
        limit = limits(memory, max_length)
        ended: list[list[Hypothesis]] = [[] for _ in limit]
        beam = BeamState.first(decoder, memory, self.width, self.start, self.coverage is not None)
        while len(beam.sources):
            beam, extended = beam.step(decoder, self.rules)
            ending, going = self.choose(beam, extended)
            for source, rank in (ending.scores > -torch.inf).nonzero().tolist():
                place = int(ending.parents[source, rank])
                score = self.score(beam, source, place, float(ending.scores[source, rank]), ended=1)
                text = tuple(beam.text(source, place))
                ended[int(beam.sources[source])].append(Hypothesis(text, score, finished=True))
            beam = self.unsettled(beam.follow(going), ended, limit)
        return [self.best(source, each)[:n_best] for source, each in enumerate(ended)]

    def check(self, decoder: Decoder, n_best: int) -> None:
        """Raises ValueError as a search does."""
        vocabulary = decoder.output.out_features
        if not 1 <= n_best <= self.width <= vocabulary:
            raise ValueError(
                f"beam width is {self.width} and n_best {n_best}; "
                f"they must satisfy 1 <= n_best <= width <= {vocabulary}, the vocabulary"
            )
        if self.coverage is not None and decoder.source_attention is None:
            raise ValueError("a coverage penalty needs a model that attends to its source, which this one does not")

    def score(self, beam: BeamState, source: int, place: int, log_probability: float, ended: int) -> float:
        """That of a hypothesis, END counted if it has `ended`."""
        score = self.length(log_probability, beam.tokens.shape[1] + ended)
        if self.coverage is None or beam.coverage is None:
            return score
        return score + self.coverage(beam.coverage[source * self.width + place])

    def unsettled(self, beam: BeamState, ended: list[list[Hypothesis]], limit: Tensor) -> BeamState:
        """The sources that are not done; at its limit, a source's open hypotheses fill what is missing of the ended."""
        length, keep = beam.tokens.shape[1], []
        for row, (source, scores) in enumerate(zip(beam.sources.tolist(), beam.scores.tolist(), strict=True)):
            done = ended[source]
            done.sort(key=lambda hypothesis: -hypothesis.score)
            if length >= int(limit[source]):
                for place in sorted(range(self.width), key=lambda place: -scores[place])[: self.width - len(done)]:
                    if scores[place] > -torch.inf:
                        score = self.score(beam, row, place, scores[place], ended=0)
                        done.append(Hypothesis(tuple(beam.text(row, place)), score, finished=False))
            elif max(scores) > -torch.inf and not self.settled(done, max(scores), length):
                keep.append(row)
        if len(keep) == len(beam.sources):
            return beam
        return beam.select(torch.tensor(keep, dtype=torch.long, device=limit.device))

    def settled(self, ended: list[Hypothesis], best_open: float, length: int) -> bool:
        """Whether nothing that is open could be among the best."""
        return len(ended) >= self.width and self.length(best_open, length) <= ended[self.width - 1].score

    def best(self, source: int, found: list[Hypothesis]) -> list[Hypothesis]:
        """The different texts of a source, best first."""
        ordered = sorted(found, key=lambda hypothesis: hypothesis.score)
        different = {(each.tokens, each.finished): each for each in ordered}
        return sorted(different.values(), key=lambda hypothesis: -hypothesis.score)
