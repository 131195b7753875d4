"""The run file of masked language models, their documents and the masks."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Any, Literal

import torch
from torch import Tensor

from regard.data.batches import (
    Batch,
    Ids,
    bert_input,
    count_special,
    pad_rows,
    token_batches,
)
from regard.data.data_files import DataFiles
from regard.data.splits import Tail
from regard.data.texts import lines_of
from regard.errors import InputError
from regard.models.catalog import MaskedModelConfig
from regard.models.sizes import Fraction
from regard.shapes import Int
from regard.tasks.run import check_one_text
from regard.text import TokenizerSettings
from regard.text.kinds import MASKED, SpecialTokens
from regard.training.settings import Training

Document = tuple[str, ...]
"""The sentences or paragraphs of a document."""
HEADING = re.compile(r"\s*=\s+[^=].*[^=]\s+=\s*")
HIDDEN, REPLACED = 0.8, 0.1
"""The shares of tokens that the mask and random tokens replace; the rest stay."""


@dataclass(frozen=True, kw_only=True)
class DocumentFiles(DataFiles[Document]):
    """Text files, optionally .gz, of one sentence or paragraph a line.

    Without `valid` the last of the training documents, or of the lines of a single one,
    are for validation.
    """

    kind: Literal["documents"] = "documents"
    train: str | None = None
    """The file of the training set; none in a run that was imported."""
    valid: str | None = None
    test: str | None = None
    between: Literal["blank-line", "heading"] = "blank-line"
    """What separates documents: blank lines, or WikiText's ` = Heading = `."""
    text: str | int | None = None
    """The column of a table, each value of which is a document or several."""
    held_out: Tail = 0.1

    recognised = ("file",)

    expected = "a text file, as --set data.train=FILE"

    def choose_valid(
        self, train: Sequence[Document]
    ) -> tuple[Sequence[Document], Sequence[Document]]:
        """Hold out the last documents, or the last lines of a single one."""
        parts = train if len(train) > 1 else train[0]
        count = len(parts) - max(1, round(self.held_out * len(parts)))
        if count < 1:
            raise InputError(
                f"{self.train}: one line is too few to hold some out; give data.valid"
            )
        first: Any = parts[:count]
        last: Any = parts[count:]
        return (first, last) if len(train) > 1 else ([first], [last])

    def examples(self, path: str) -> Iterator[Document]:
        """Yield the documents of a file. Raises InputError as `load` does."""
        document: list[str] = []
        for line in lines_of(path, self.text, apart=True):
            ends = not line.strip()
            if self.between == "heading":
                ends = HEADING.fullmatch(line) is not None
            if ends and document:
                yield tuple(document)
                document = []
            if line.strip():
                document.append(line)
        if document:
            yield tuple(document)


@dataclass(frozen=True)
class Masking:
    """The choice of tokens to predict."""

    share: Fraction = 0.15
    """The share of all tokens."""


@dataclass(frozen=True, repr=False)
class MaskedBatch(Batch):
    """Texts padded on the right, with masked tokens."""

    tokens: Int[Tensor, "batch position"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch position"]
    places: Int[Tensor, " place"]
    """The positions to predict, as indices into the flattened batch."""
    expected: Int[Tensor, " place"]
    """The tokens there."""
    follows: Int[Tensor, " batch"] | None = None
    """Whether B follows A; None without B."""


def pack(sentences: Sequence[Ids], room: int) -> list[Ids]:
    """Pack sentences into spans of at most `room` tokens, if possible whole."""
    spans: list[Ids] = []
    for sentence in sentences:
        for first in range(0, len(sentence), room):
            part = sentence[first : first + room]
            if spans and len(spans[-1]) + len(part) <= room:
                spans[-1] = spans[-1] + part
            else:
                spans.append(part)
    return spans


def pack_halves(sentences: Sequence[Ids], room: int) -> list[Ids]:
    """Pack sentences as `pack`, but halve a document that fits in one span."""
    spans = pack(sentences, room)
    sentences = [sentence for sentence in sentences if sentence]
    if len(spans) > 1 or len(sentences) < 2:
        return spans
    ends = list(accumulate(map(len, sentences)))
    cut = min(range(1, len(ends)), key=lambda cut: abs(2 * ends[cut - 1] - ends[-1]))
    return [*pack(sentences[:cut], room), *pack(sentences[cut:], room)]


class MaskedTexts:
    """Texts of limited length from documents of sentences, alone or in pairs."""

    def __init__(
        self,
        documents: Sequence[Sequence[Ids]],
        size: int,
        masking: Masking,
        context: int,
        *,
        paired: bool,
        seed: int,
        special: SpecialTokens = MASKED,
    ):
        """Pack the documents.

        Args:
            documents: Each the tokens of its sentences.
            size: The number of entries of the vocabulary.
            masking: The choice of tokens to predict.
            context: Largest number of tokens of a text.
            paired: Whether texts come in pairs.
            seed: That of the pairs and the masks.
            special: The ids of the vocabulary, one for a mask among them.

        Raises:
            InputError: No document has a token, or with `paired` fewer than two have.
        """
        room = (context - count_special(special, 2)) // 2 if paired else context - 2
        if room < 1:
            raise InputError(
                f"model.context is {context}, too short for a text and its special tokens; "
                "raise it"
            )
        packing = pack_halves if paired else pack
        spans = [packing(sentences, room) for sentences in documents]
        self.spans = list(filter(None, spans))
        if len(self.spans) < 1 + paired:
            raise InputError(
                f"training text: has {len(self.spans)} documents with text in them; "
                f"expected {1 + paired} or more"
            )
        self.masking = masking
        self.special = special
        self.paired = paired
        self.seed = seed
        # The last span of a document has none behind it and is no A, since whether B
        # follows must not show in A.
        self.starts = [
            (document, index)
            for document, spans in enumerate(self.spans)
            for index in range(max(1, len(spans) - paired))
        ]
        self.ordinary = [i for i in range(size) if i not in special.all]

    def __len__(self) -> int:
        return len(self.starts)

    def pair(self, epoch: int, example: int) -> tuple[Ids, Ids | None, int]:
        """Return A, B if there are pairs, and whether B follows A."""
        document, index = self.starts[example]
        spans = self.spans[document]
        if not self.paired:
            return spans[index], None, 1
        random = Random(f"{self.seed}/{epoch}/{example}/pair")
        if index + 1 < len(spans) and random.random() < 0.5:
            return spans[index], spans[index + 1], 1
        number = random.randrange(len(self.spans) - 1)
        if number >= document:
            number += 1
        return spans[index], random.choice(self.spans[number]), 0

    def batches(self, tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """Return an epoch's batches of at most `tokens` tokens, as lists of indices."""
        lengths = []
        for example in range(len(self)):
            first, second, _ = self.pair(epoch, example)
            ids, _ = bert_input(self.special, first, second)
            lengths.append((len(ids), len(ids)))
        return token_batches(lengths, tokens, seed, epoch)

    def batch(self, epoch: int, examples: Sequence[int]) -> MaskedBatch:
        """Return a batch of the texts with these indices, masked."""
        assert self.special.mask is not None
        texts = []
        segments = []
        follows = []
        expected = []
        places: list[tuple[int, int]] = []
        for row, example in enumerate(examples):
            first, second, follow = self.pair(epoch, example)
            ids, parts = bert_input(self.special, first, second)
            random = Random(f"{self.seed}/{epoch}/{example}/blanks")
            ends = self.special.start, self.special.end
            positions = [index for index, token in enumerate(ids) if token not in ends]
            count = max(1, round(self.masking.share * len(positions)))
            random.shuffle(positions)
            for position in sorted(positions[:count]):
                places.append((row, position))
                expected.append(ids[position])
                sample = random.random()
                if sample < HIDDEN:
                    ids[position] = self.special.mask
                elif sample < HIDDEN + REPLACED:
                    ids[position] = random.choice(self.ordinary)
            texts.append(ids)
            segments.append(parts)
            follows.append(follow)
        tokens, lengths = pad_rows(texts)
        width = tokens.shape[1]
        return MaskedBatch(
            tokens,
            lengths,
            pad_rows(segments)[0],
            torch.tensor([row * width + position for row, position in places]),
            torch.tensor(expected),
            torch.tensor(follows) if self.paired else None,
        )


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelling:
    """The run file of a masked language model.

    Texts are as long as `model.context` allows; with `model.next_sentence` they come in
    pairs.
    """

    task: Literal["masked-language-model"] = "masked-language-model"
    data: DocumentFiles
    model: MaskedModelConfig
    tokenizer: TokenizerSettings | None = None
    masking: Masking = field(default_factory=Masking)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        training = self.training
        if training.batch_tokens < (self.model.context or 0):
            raise ValueError(
                f"training.batch_tokens is {training.batch_tokens}, less than one text of "
                f"model.context {self.model.context}; raise it or shorten the context"
            )
        check_one_text(self)
