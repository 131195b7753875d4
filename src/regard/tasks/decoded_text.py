"""Texts that a model decodes from something that is no text, such as an image or a sound."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.banned_texts import BannedTexts
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.decoding.streaming import StepOptions, StreamEvent, StreamSource
from regard.nn.decoders.protocol import Decoder
from regard.tasks.options import PredictOptions, StreamOptions
from regard.tasks.prediction import ShortRepr, flat
from regard.text import Tokenizer

D = TypeVar("D", bound="DecodedText")


@dataclass(frozen=True, repr=False)
class DecodedText(ShortRepr):
    """A text that a model decoded from something that is no text.

    score: its log-probability, divided by the length penalty if the run has one.
    finished: whether the model ended it.
    tokens: its pieces.
    alternatives: the next best texts.
    """

    text: str
    score: float
    finished: bool
    tokens: tuple[str, ...]
    alternatives: "tuple[DecodedText, ...]" = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """No phrases, since the text is not constrained."""
        return ()

    @classmethod
    def of(cls: type[D], found: Hypothesis, tokenizer: Tokenizer) -> D:
        """The text of a hypothesis."""
        return cls(
            tokenizer.decode(found.tokens),
            found.score,
            found.finished,
            tuple(tokenizer.pieces(found.tokens)),
        )

    def lines(self) -> list[str]:
        """The text on one line."""
        return [flat(self.text)]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        others = [each.to_json() for each in self.alternatives]
        return {**vars(self), "tokens": list(self.tokens), "alternatives": others}


def constraints_of(
    tokenizer: Tokenizer, options: PredictOptions, search: Search
) -> DecodingConstraints:
    """As many hypotheses as `options` need, without the banned texts. Raises InputError for one of blanks only."""
    banned = BannedTexts.of(tokenizer, options.banned) if options.banned else None
    return DecodingConstraints(options.hypotheses(search), banned=banned)


@dataclass(frozen=True)
class TextStream:
    """Decodes one text for each source, step by step, behind `prefix`."""

    decoder: Decoder
    tokenizer: Tokenizer
    search: Search
    sources: Sequence[StreamSource]
    prefix: tuple[int, ...]

    def events(
        self,
        memory: Memory,
        limit: Tensor,
        options: StreamOptions,
        active: Callable[[int], bool],
    ) -> Iterator[StreamEvent]:
        """An event for each token, with its weights on the memory's keys. Raises ValueError for a prefix that is longer
        than its text may be."""
        chosen = StepOptions(
            self.decoder, self.decoder.source_attention, options.candidates, active
        )
        constraints = constraints_of(self.tokenizer, options, self.search).behind(
            (self.prefix,)
        )
        for step in self.search.stream(
            self.decoder, memory, limit, constraints, chosen
        ):
            text = self.tokenizer.decode(step.tokens)
            yield StreamEvent.of(
                step, self.sources[step.row], text, self.tokenizer.pieces
            )
