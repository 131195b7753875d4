"""The run file of masked language models, their documents and the masks."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Annotated, ClassVar, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor

from regard.config.file_kinds import Kind
from regard.data.batches import Batch, Ids, bert_input, count_special, pad_rows
from regard.data.data_files import DataFiles
from regard.data.texts import check_tail, lines_of
from regard.errors import InputError
from regard.models.bert import BertConfig
from regard.shapes import Int
from regard.text import TokenizerSettings
from regard.text.special import MASKED, SpecialTokens
from regard.training.settings import Training

Document = tuple[str, ...]
"""The sentences or paragraphs of a document."""
P = TypeVar("P")
HEADING = re.compile(r"\s*=\s+[^=].*[^=]\s+=\s*")
HIDDEN, REPLACED = 0.8, 0.1
"""The shares of tokens that the mask and random tokens replace; the rest stay."""


@dataclass(frozen=True, kw_only=True)
class Documents(DataFiles[Document]):
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

    recognised: ClassVar[tuple[Kind, ...]] = ("file",)

    expected = "a text file, as --set data.train=FILE"

    def __post_init__(self) -> None:
        check_tail(self.held_out, "documents")

    def choose_valid(
        self, train: Sequence[Document]
    ) -> tuple[Sequence[Document], Sequence[Document]]:
        """Hold out the last documents, or the last lines of a single one."""
        if len(train) > 1:
            documents, held_out = self._cut_tail(train)
            return list(documents), list(held_out)
        (document,) = train
        lines, held_out = self._cut_tail(document)
        return [lines], [held_out]

    def _cut_tail(self, parts: Sequence[P]) -> tuple[tuple[P, ...], tuple[P, ...]]:
        """Cut off the last parts. Raises InputError for a single one."""
        count = len(parts) - max(1, round(self.held_out * len(parts)))
        if count < 1:
            raise InputError(
                f"{self.train}: one line is too few to hold some out; give data.valid"
            )
        return tuple(parts[:count]), tuple(parts[count:])

    def examples(self, path: str) -> Iterator[Document]:
        """Yield the documents of a file. Raises InputError as `load` does."""
        return self.documents(lines_of(path, self.text, apart=True))

    def documents(self, lines: Iterable[str]) -> Iterator[Document]:
        """Yield the documents of lines."""
        document: list[str] = []
        for line in lines:
            if self.between == "heading":
                ends = HEADING.fullmatch(line) is not None
            else:
                ends = not line.strip()
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

    share: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """The share of all tokens."""
    whole_words: bool = False
    """Choose whole words."""


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
    """As `pack`, but divide a document that fits in one span into halves."""
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
        inside: Sequence[bool],
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
            inside: Whether a token, by its id, continues the word before it.
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
        if len(self.spans) < (2 if paired else 1):
            needed = "two documents, to pair one with another"
            raise InputError(
                f"training text: has {len(self.spans)} documents with text in them; "
                f"expected {needed if paired else 'a document'}"
            )
        self.inside, self.masking, self.special = inside, masking, special
        self.paired, self.seed = paired, seed
        self.ordinary = [
            token for token in range(len(inside)) if token not in special.all
        ]
        # The last span of a document has none behind it and is no A, since whether B
        # follows must not show in A.
        self.starts: list[tuple[int, int]] = []
        for document, spans in enumerate(self.spans):
            count = max(1, len(spans) - 1) if paired else len(spans)
            self.starts += [(document, index) for index in range(count)]

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
        second = random.choice(self.spans[number + (number >= document)])
        return spans[index], second, 0

    def length(self, epoch: int, example: int) -> int:
        """Return the length of the text, special tokens included."""
        first, second, _ = self.pair(epoch, example)
        return len(first) + 2 + (0 if second is None else len(second) + 1)

    def batch(self, epoch: int, examples: Sequence[int]) -> MaskedBatch:
        """Return a batch of the texts with these indices, masked."""
        texts, segments, follows = [], [], []
        positions: list[tuple[int, int]] = []
        expected: list[int] = []
        for row, example in enumerate(examples):
            first, second, follow = self.pair(epoch, example)
            ids, parts = bert_input(self.special, first, second)
            random = Random(f"{self.seed}/{epoch}/{example}/blanks")
            chosen = self._choose(ids, random)
            positions += [(row, position) for position in chosen]
            expected += [ids[position] for position in chosen]
            texts.append(self._mask(ids, chosen, random))
            segments.append(parts)
            follows.append(follow)
        tokens, lengths = pad_rows(texts)
        width = tokens.shape[1]
        places = [row * width + position for row, position in positions]
        return MaskedBatch(
            tokens,
            lengths,
            pad_rows(segments)[0],
            torch.tensor(places, dtype=torch.int64),
            torch.tensor(expected, dtype=torch.int64),
            torch.tensor(follows) if self.paired else None,
        )

    def _choose(self, ids: Ids, random: Random) -> list[int]:
        """Choose the positions to predict, at least one."""
        words: list[list[int]] = []
        for position, token in enumerate(ids):
            if token in (self.special.start, self.special.end):
                continue
            follows = words and words[-1][-1] == position - 1
            if self.masking.whole_words and follows and self.inside[token]:
                words[-1].append(position)
            else:
                words.append([position])
        count = max(1, round(self.masking.share * sum(map(len, words))))
        random.shuffle(words)
        chosen: list[int] = []
        for word in words:
            if not chosen or len(chosen) + len(word) <= count:
                chosen += word
        return sorted(chosen)

    def _mask(self, ids: Ids, chosen: Sequence[int], random: Random) -> Ids:
        """Replace tokens by masks and random tokens."""
        assert self.special.mask is not None
        masked = list(ids)
        for position in chosen:
            draw = random.random()
            if draw < HIDDEN:
                masked[position] = self.special.mask
            elif draw < HIDDEN + REPLACED:
                masked[position] = self.ordinary[random.randrange(len(self.ordinary))]
        return masked


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelling:
    """The run file of a masked language model.

    Texts are as long as `model.context` allows; with `model.next_sentence` they come in
    pairs.
    """

    task: Literal["masked-language-model"] = "masked-language-model"
    data: Documents
    tokenizer: TokenizerSettings
    model: BertConfig
    masking: Masking = field(default_factory=Masking)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        training = self.training
        if training.batch_tokens < self.model.context:
            raise ValueError(
                f"training.batch_tokens is {training.batch_tokens}, less than one text of "
                f"model.context {self.model.context}; raise it or shorten the context"
            )
        if self.tokenizer.dropout:
            raise ValueError(
                "tokenizer.dropout is for seq2seq; blanks are in texts of one segmentation"
            )
        if training.teacher_forcing < 1 or training.teacher_forcing_end not in (
            None,
            1.0,
        ):
            raise ValueError(
                "training.teacher_forcing is for seq2seq; a text with blanks is read at "
                "once"
            )
