"""Texts with blanks to fill in: pure functions of the seed and the epoch.

A text is [start] A [end], or [start] A [end] B [end] where B follows A in its document half of the time and else comes
from another (Devlin 2019, section 3.1). In a document of a single sentence nothing follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from regard.data.batching import Batch, padded
from regard.data.bert_inputs import Ids, bert_input, marks
from regard.errors import InputError
from regard.shapes import Int
from regard.text.special import MASKED, SpecialTokens

HIDDEN, REPLACED = 0.8, 0.1
"""The shares of the chosen tokens that the mask and that random tokens replace; the rest stay."""


@dataclass(frozen=True)
class Masking:
    """The choice of tokens to predict: a `share` of all tokens, with `whole_words` by whole words."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    whole_words: bool = False


@dataclass(frozen=True, repr=False)
class MaskedBatch(Batch):
    """Texts padded on the right; the segment of each token; the `places` to predict, as indices into the flattened
    batch, and the tokens `expected` there; and whether B follows A, None without B."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch position"]
    places: Int[Tensor, " place"]
    expected: Int[Tensor, " place"]
    follows: Int[Tensor, " batch"] | None = None


def packed(sentences: Sequence[Ids], room: int) -> list[Ids]:
    """The tokens of a document's sentences in spans of at most `room`, cut between sentences where that is possible."""
    spans: list[Ids] = []
    for sentence in sentences:
        for first in range(0, len(sentence), room):
            part = sentence[first : first + room]
            if spans and len(spans[-1]) + len(part) <= room:
                spans[-1] = spans[-1] + part
            else:
                spans.append(part)
    return spans


def halved(sentences: Sequence[Ids], room: int) -> list[Ids]:
    """As `packed`, but a document of several sentences that fits in one span is divided into two of similar length."""
    spans, full = (
        packed(sentences, room),
        [sentence for sentence in sentences if sentence],
    )
    if len(spans) > 1 or len(full) < 2:
        return spans
    ends = list(accumulate(map(len, full)))
    cut = min(range(1, len(full)), key=lambda cut: abs(2 * ends[cut - 1] - ends[-1]))
    return [*packed(full[:cut], room), *packed(full[cut:], room)]


class MaskedTexts:
    """Texts of at most `context` tokens from documents of sentences; in pairs with `paired`.

    Args:
        documents: each the tokens of its sentences.
        inside: whether a token, by its id, continues the word before it.
        seed: of the pairs and the blanks.
        special: the ids of the vocabulary, one for a mask among them.

    Raises:
        InputError: no document has a token, or with `paired` fewer than two have.
    """

    def __init__(
        self,
        documents: Sequence[Sequence[Ids]],
        inside: Sequence[bool],
        masking: Masking,
        context: int,
        *,
        paired: bool,
        seed: int,
        special: SpecialTokens = MASKED,
    ):
        room = (context - marks(special, 2)) // 2 if paired else context - 2
        if room < 1:
            raise InputError(
                f"model.context is {context}, too short for a text and its special tokens; raise it"
            )
        spans = [
            (halved if paired else packed)(sentences, room) for sentences in documents
        ]
        self.spans = [found for found in spans if found]
        if len(self.spans) < (2 if paired else 1):
            needed = (
                "two documents, to pair one with another" if paired else "a document"
            )
            raise InputError(
                f"training text: has {len(self.spans)} documents with text in them; expected {needed}"
            )
        self.inside, self.masking, self.paired, self.seed = (
            inside,
            masking,
            paired,
            seed,
        )
        self.special = special
        self.ordinary = [
            index for index in range(len(inside)) if index not in special.all
        ]
        # The last span of a document has none behind it and is no A: whether B follows must not show in A.
        begins = [
            max(1, len(found) - 1) if paired else len(found) for found in self.spans
        ]
        self.where = [
            (document, place)
            for document, count in enumerate(begins)
            for place in range(count)
        ]

    def __len__(self) -> int:
        return len(self.where)

    def pair(self, epoch: int, example: int) -> tuple[Ids, Ids | None, int]:
        """A, B if there are pairs, and whether B follows A."""
        document, place = self.where[example]
        first = self.spans[document][place]
        if not self.paired:
            return first, None, 1
        random = Random(f"{self.seed}/{epoch}/{example}/pair")
        if place + 1 < len(self.spans[document]) and random.random() < 0.5:
            return first, self.spans[document][place + 1], 1
        other = random.randrange(len(self.spans) - 1)
        return first, random.choice(self.spans[other + (other >= document)]), 0

    def length(self, epoch: int, example: int) -> int:
        """The length of the text, special tokens included."""
        first, second, _ = self.pair(epoch, example)
        return len(first) + 2 + (0 if second is None else len(second) + 1)

    def batch(self, epoch: int, examples: Sequence[int]) -> MaskedBatch:
        """A batch of the texts with these indices, masked."""
        texts, segments, blanks, follows = [], [], [], []
        for example in examples:
            first, second, next_ = self.pair(epoch, example)
            ids, parts = bert_input(self.special, first, second)
            random = Random(f"{self.seed}/{epoch}/{example}/blanks")
            chosen = self._chosen(ids, random)
            blanks.append([(place, ids[place]) for place in chosen])
            texts.append(self._blanked(ids, chosen, random))
            segments.append(parts)
            follows.append(next_)
        tokens, lengths = padded(texts)
        places = [
            row * tokens.shape[1] + place
            for row, found in enumerate(blanks)
            for place, _ in found
        ]
        return MaskedBatch(
            tokens,
            lengths,
            padded(segments)[0],
            torch.tensor(places, dtype=torch.int64),
            torch.tensor(
                [index for found in blanks for _, index in found], dtype=torch.int64
            ),
            torch.tensor(follows) if self.paired else None,
        )

    def _chosen(self, ids: Ids, random: Random) -> list[int]:
        """The places to predict, at least one."""
        words: list[list[int]] = []
        for place, index in enumerate(ids):
            if index in (self.special.start, self.special.end):
                continue
            if (
                self.masking.whole_words
                and words
                and words[-1][-1] == place - 1
                and self.inside[index]
            ):
                words[-1].append(place)
            else:
                words.append([place])
        count = max(1, round(self.masking.share * sum(map(len, words))))
        random.shuffle(words)
        chosen: list[int] = []
        for word in words:
            if chosen and len(chosen) + len(word) > count:
                continue
            chosen += word
        return sorted(chosen)

    def _blanked(self, ids: Ids, chosen: Sequence[int], random: Random) -> Ids:
        """The text with its masks and random tokens."""
        found = list(ids)
        for place in chosen:
            draw = random.random()
            if draw < HIDDEN:
                assert self.special.mask is not None
                found[place] = self.special.mask
            elif draw < HIDDEN + REPLACED:
                found[place] = self.ordinary[random.randrange(len(self.ordinary))]
        return found
