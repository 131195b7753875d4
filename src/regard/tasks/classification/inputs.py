"""The run files of texts with labels, and the forms in which models read the texts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.intervene import Cut
from regard.attention.record import Maps
from regard.attribution.effects import MapCut, Plan, find_pieces, plan_cuts
from regard.attribution.gradients import Contribution
from regard.config.loader import Registry
from regard.data.batches import Ids, bert_input, bert_inputs, count_special, pad_rows
from regard.data.tokens import Limit, side, words_of
from regard.errors import InputError
from regard.maps import Alignment, DocumentWeights, join_words, shares
from regard.maps.alignment import Side, TextWeights, Words
from regard.models.bert import BertClassifier
from regard.models.catalog import CLASSIFIERS, ClassifierConfig
from regard.models.elmo import ElmoStates
from regard.tasks.attribution import shade_text
from regard.tasks.base import TextBatch
from regard.tasks.class_prediction import ClassWeights
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.fine_tuning import FineTuning, PretrainedPart, PretrainedSource
from regard.text import Tokenizer
from regard.text.kinds import SPECIAL, WHOLE_WORDS, SpecialTokens
from regard.text.words import sentence_spans

Target = int | float | Sequence[float]
"""The index of a class, a number, or a number for each label."""
Texts = Sequence[Ids]
"""The tokens of each text of an example, or of each sentence."""
Example = tuple[Texts, Target]
Weights = Alignment | DocumentWeights | TextWeights
CLASS = "the class"
"""The name of what reads a text where one query does."""
CLASS_QUERY = Words((CLASS,), (0,))
WORDS, SENTENCES = "words.summary", "sentences.summary"
"""The lookups of a document's words and sentences."""
Rows = Sequence[np.ndarray]


def collate_texts(examples: Sequence[tuple[Ids, Target]]) -> TextBatch:
    """Return one text of each example: tokens and lengths."""
    rows = [ids for ids, _ in examples]
    return make_batch(pad_rows(rows), examples)


def collate_marked(
    examples: Sequence[Example], special: SpecialTokens = SPECIAL
) -> TextBatch:
    """Return one text or two of each example in a row: tokens, lengths and segments."""
    inputs = bert_inputs(special, [texts for texts, _ in examples])
    return make_batch(inputs, examples)


def collate_two_texts(examples: Sequence[Example]) -> TextBatch:
    """Return tokens and lengths of the first texts, and those of the second ones."""
    texts = [texts for texts, _ in examples]
    first, first_lengths = pad_rows([pair[0] for pair in texts])
    second, second_lengths = pad_rows([pair[1] for pair in texts])
    inputs = first, first_lengths, second, second_lengths
    return make_batch(inputs, examples, first_lengths + second_lengths)


def collate_documents(examples: Sequence[Example]) -> TextBatch:
    """Return the sentences of all documents, a row each, the shortest first.

    The inputs are the tokens and lengths of the rows, the rows of each document's
    sentences in order, padded with row 0, and the number of its sentences.
    """
    documents = [sentences for sentences, _ in examples]
    rows = list(chain(*documents))
    lengths = [len(row) for row in rows]
    order = np.argsort(lengths, kind="stable")
    ranks = iter(np.argsort(order).tolist())
    places = [[next(ranks) for _ in sentences] for sentences in documents]
    padded = pad_rows([rows[row] for row in order])
    return make_batch((*padded, *pad_rows(places)), examples)


def make_batch(
    inputs: tuple[Tensor, ...],
    examples: Sequence[tuple[object, Target]],
    lengths: Tensor | None = None,
) -> TextBatch:
    """Return the batch of examples with these inputs, by default of such `lengths`.

    Raises:
        ValueError: There are no examples.
    """
    if not examples:
        raise ValueError("a batch got no examples; expected at least one")
    targets = torch.tensor([target for _, target in examples])
    if lengths is None:
        lengths = inputs[1]
    size = int(lengths.sum())
    return TextBatch(inputs, targets, size)


def truncate_texts(texts: Texts, count: int) -> Texts:
    """Cut texts at their ends, the longest first, to `count` tokens together."""
    results = [list(text) for text in texts]
    tokens = sum(map(len, results))
    for _ in range(tokens - count):
        longest = max(results, key=len)
        longest.pop()
    return results


def to_numpy(values: Tensor) -> np.ndarray:
    """Return values in double precision."""
    return values.double().cpu().numpy()


class Form:
    """The encoding of texts for a kind of model, and the attribution to their words.

    This class reads one text: tokens `(batch, position)`, padded on the right, and
    lengths `(batch,)`. A form that sets `attention_modules` and overrides `attention`
    has attention weights too.

    Attributes:
        texts: The numbers of texts that an example may have.
        attention_modules: The modules whose weights are the attention, None for none.
        several: Whether every layer and head has a map of its own, between the tokens
            of a row (`RowTexts`).
        marked: Whether special tokens surround the texts.
        context: The most tokens that the model reads, special tokens included.
    """

    texts: frozenset[int] = frozenset({1})
    attention_modules: str | None = None
    several = False
    marked = False

    def __init__(self, tokenizer: Tokenizer, config: Any, *, truncate: bool = False):
        """Remember how the texts of a run are encoded.

        Args:
            tokenizer: The tokenizer of the run.
            config: The sizes of its model.
            truncate: Whether to cut texts that are longer than the model takes.
        """
        self.tokenizer = tokenizer
        self.config = config
        self.truncate = truncate
        self.context: int | None = getattr(config, "context", None)

    def sections(self, example: Labelled) -> Sequence[str]:
        """Return the texts that are encoded one by one."""
        return example.texts

    def tokenize(self, example: Labelled) -> Texts:
        """Return the tokens of all texts of an example, uncut."""
        return [self.tokenizer.encode(text) for text in self.sections(example)]

    def count_special(self, texts: int) -> int:
        """Return the number of special tokens around so many texts."""
        return count_special(self.tokenizer.special, texts) if self.marked else 0

    def limit(self, texts: int = 1) -> Limit | None:
        """Return the most tokens of so many texts; None for texts of any length."""
        if self.context is None:
            return None
        return Limit(self.context, self.count_special(texts), "model.context")

    def encode(self, example: Labelled) -> Texts:
        """Return the tokens of an example, cut to the model's context.

        Raises:
            InputError: There are too many tokens, and `truncate` is not set.
        """
        texts = self.tokenize(example)
        limit = self.limit(len(texts))
        if limit is None:
            return texts
        tokens = sum(map(len, texts))
        room = limit.tokens - limit.special
        if tokens <= room:
            return texts
        if not self.truncate:
            raise limit.refusal(example.place, tokens)
        return truncate_texts(texts, room)

    def is_cut(self, example: Labelled) -> bool:
        """Return whether an example is longer than the model reads."""
        if self.context is None:
            return False
        texts = self.tokenize(example)
        return self.positions(texts) > self.context

    def positions(self, texts: Texts) -> int:
        """Return the number of positions of an encoded example in a batch."""
        tokens = sum(map(len, texts))
        special = self.count_special(len(texts))
        return max(1, tokens + special)

    def collate(self, examples: Sequence[Example]) -> TextBatch:
        """Return a batch of examples with their targets."""
        rows = [(list(chain(*texts)), target) for texts, target in examples]
        return collate_texts(rows)

    def attention(self, example: Labelled, maps: Maps) -> Weights:
        """Return the attention to an example that the model reads alone.

        Args:
            maps: The recorded maps of `attention_modules`.
        """
        raise AssertionError(f"{type(self).__name__} has no attention")

    def plan(self, example: Labelled, maps: Maps, cuts: Sequence[MapCut]) -> Plan:
        """Return cuts by the positions of `attention` as cuts in the model.

        Args:
            example: The example that the model reads.
            maps: The recorded maps of `attention_modules`.
            cuts: The cuts.
        """
        return plan_cuts(maps, cuts)

    def gradient(
        self, example: Labelled, contributions: Sequence[Contribution], label: str
    ) -> TextWeights:
        """Return the gradient x input of a label with its sign.

        Args:
            contributions: Those of each call of an embedding while the model reads it.
            label: What is explained.
        """
        row = contributions[0].amounts[0, 0]
        return self.shade(example, to_numpy(row), label)

    def shade(
        self, example: Labelled, row: Float[np.ndarray, " position"], name: str
    ) -> TextWeights:
        """Return amounts of the positions of a row, of any sign, as shares of words."""
        first = gap = 0
        if self.marked:
            special = self.tokenizer.special
            first = int(special.opens)
            gap = int(special.between)
        amounts = []
        for ids in self.encode(example):
            last = first + len(ids)
            amounts.append(row[first:last])
            first = last + gap
        sections = self.sections(example)
        return shade_text(self.tokenizer, sections, amounts, name)


class RowTexts(Form):
    """Texts in one row of at most `context` tokens, which attend to each other."""

    several = True
    class_position: int | None = -1
    """The position from which the class is predicted; None for the mean of all."""

    def row(self, example: Labelled) -> Ids:
        """Return the tokens of the row, special tokens included."""
        return list(chain(*self.encode(example)))

    def side(self, example: Labelled) -> Side:
        """Return the labels of the tokens of the row."""
        ids = self.row(example)
        return side(self.tokenizer, ids, texts=example.texts)


class LastText(RowTexts):
    """A text without special tokens; one without tokens is the end token."""

    attention_modules = "blocks.*.self_attention"

    def encode(self, example: Labelled) -> Texts:
        (ids,) = super().encode(example)
        return [ids or [self.tokenizer.special.end]]


class MarkedTexts(RowTexts):
    """One text or two with special tokens, whose first position tells the class."""

    attention_modules = BertClassifier.self_attention
    texts = frozenset({1, 2})
    marked = True
    class_position = 0

    def row(self, example: Labelled) -> Ids:
        texts = self.encode(example)
        ids, _ = bert_input(self.tokenizer.special, *texts)
        return ids

    def collate(self, examples: Sequence[Example]) -> TextBatch:
        return collate_marked(examples, self.tokenizer.special)


class PublishedTexts(MarkedTexts):
    """The rows of a pretrained model, with the special tokens of its tokenizer."""

    attention_modules = "attention"

    def __init__(self, tokenizer: Tokenizer, config: Any, *, truncate: bool = False):
        super().__init__(tokenizer, config, truncate=truncate)
        self.class_position = -1 if config.is_causal else None


class TwoTexts(Form):
    """Each word of the second text, or all of it, attends to the first text."""

    attention_modules = "reading"
    texts = frozenset({2})

    def __init__(self, tokenizer: Tokenizer, config: Any, *, truncate: bool = False):
        super().__init__(tokenizer, config, truncate=truncate)
        self.reading: str = getattr(config, "reading", "word-by-word")
        if self.reading == "none":
            self.attention_modules = None

    def positions(self, texts: Texts) -> int:
        return 1 + max(map(len, texts))  # a delimiter stands before either

    def collate(self, examples: Sequence[Example]) -> TextBatch:
        return collate_two_texts(examples)

    def attention(self, example: Labelled, maps: Maps) -> Alignment:
        """Return a row for each word of the second text, or one where it is read once.

        A model's second reading, with exchanged texts, is left out.
        """
        first, second = self.words(example)
        weights = np.zeros((len(second.indices), len(first.indices)))
        if weights.size:
            rows, columns = weights.shape
            recorded = maps[str(self.attention_modules)][0]
            weights = shares(to_numpy(recorded[:rows, :columns]))
        joined = join_words(weights, first.indices, second.indices)
        return Alignment(joined, first.labels, second.labels)

    def words(self, example: Labelled) -> tuple[Words, Words]:
        """Return the words of the first text, and the queries."""
        texts = example.texts
        first, second = (words_of(text, self.tokenizer.offsets(text)) for text in texts)
        if self.reading == "last":
            second = CLASS_QUERY
        return first, second

    def plan(self, example: Labelled, maps: Maps, cuts: Sequence[MapCut]) -> Plan:
        """Cut all pieces of words, in the first reading."""
        first, second = self.words(example)
        pieces = []
        for cut in cuts:
            queries = find_pieces(second, cut.queries)
            keys = find_pieces(first, cut.keys)
            pieces.append(MapCut(queries, keys, cut.maps))
        plan = plan_cuts(maps, pieces)
        for name, module_cuts in plan.items():
            plan[name] = [replace(cut, rows=[0]) for cut in module_cuts]
        return plan

    def gradient(
        self, example: Labelled, contributions: Sequence[Contribution], label: str
    ) -> TextWeights:
        """Return the amounts of both texts, which calls of an embedding read.

        A call embeds one text, or the other one behind a special token; in a second
        reading, which is a second row, the texts are exchanged. A first text without
        tokens is not embedded.
        """
        amounts = [np.zeros(len(ids)) for ids in self.tokenize(example)]
        for call in contributions:
            first_row = call.embedded[0].tolist()
            is_second = int(first_row[:1] == [SPECIAL.start])
            rows = to_numpy(call.amounts[0])
            for reading, row in enumerate(rows):
                number = (reading + is_second) % 2
                text = amounts[number]
                text += row[is_second:][: len(text)]
        return shade_text(self.tokenizer, example.texts, amounts, label)


class ComparedTexts(TwoTexts):
    """Each word of either text attends to the words of the other."""

    attention_modules = "second_reads"

    def gradient(
        self, example: Labelled, contributions: Sequence[Contribution], label: str
    ) -> TextWeights:
        """Return the amounts of the first call of an embedding, then of the second."""
        amounts = [to_numpy(call.amounts[0, 0]) for call in contributions]
        return shade_text(self.tokenizer, example.texts, amounts, label)


class WholeTexts(Form):
    """All sentences of a document as one sequence."""

    attention_modules = "*.summary"

    def __init__(self, tokenizer: Tokenizer, config: Any, *, truncate: bool = False):
        super().__init__(tokenizer, config, truncate=truncate)
        if "maximum" in vars(config).values():
            self.attention_modules = None

    def sections(self, example: Labelled) -> Sequence[str]:
        """Return the sentences of an example, or else those of the sentence splitter."""
        if example.sentences:
            return example.sentences
        text = example.texts[0]
        return [text[first:last] for first, last in sentence_spans(text)]

    def attention(self, example: Labelled, maps: Maps) -> DocumentWeights:
        """Return the weights of words and sentences; those of a sentence are the sum."""
        parts = self.words(example)
        lengths = [len(part.indices) for part in parts]
        rows = self.token_weights(maps, lengths)
        words = []
        for row, part in zip(rows, parts, strict=True):
            indices = np.array(part.indices, np.int64)
            words.append(np.bincount(indices, row, len(part.labels)))
        sums = np.array([weights.sum() for weights in words])
        labels = tuple(part.labels for part in parts)
        word_shares = tuple(map(shares, words))
        return DocumentWeights(labels, shares(sums), word_shares)

    def plan(self, example: Labelled, maps: Maps, cuts: Sequence[MapCut]) -> Plan:
        """Cut words, and a sentence whose words are all cut.

        Raises:
            InputError: The model attends to sentences only, and none is cut.
        """
        parts = self.words(example)
        lengths = [len(words.indices) for words in parts]
        rows, firsts = self.locate(lengths)
        counts = [len(words.labels) for words in parts]
        numbers = range(sum(counts))
        document = Words(tuple(map(str, numbers)), ())
        plan: Plan = {name: [] for name in maps}
        for cut in cuts:
            chosen = numbers if cut.keys is None else sorted(set(cut.keys))
            find_pieces(CLASS_QUERY, cut.queries)  # the only query
            find_pieces(document, chosen)
            is_cut = np.isin(numbers, chosen)
            for part, words in enumerate(split_rows(is_cut, counts)):
                inside = np.flatnonzero(words).tolist()
                pieces = find_pieces(parts[part], inside)
                if pieces and WORDS in maps:
                    first = firsts[part]
                    keys = [first + piece for piece in pieces]
                    plan[WORDS].append(Cut(rows=[rows[part]], keys=keys))
                if words.all() and SENTENCES in maps:
                    plan[SENTENCES].append(Cut(keys=[part]))
        is_asked = any(cut.keys != [] for cut in cuts)
        if is_asked and not any(plan.values()):
            raise InputError(
                "this model attends to sentences, not to words; cut all words of one"
            )
        return plan

    def locate(self, lengths: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the row and the first position of each sentence in a batch."""
        return [0] * len(lengths), np.cumsum([0, *lengths]).tolist()

    def token_weights(self, maps: Maps, lengths: Sequence[int]) -> Rows:
        """Return the weights of the tokens of each sentence; these have such lengths."""
        row = np.ones(sum(lengths))
        if self.config.words != "average":
            row = to_numpy(maps[WORDS][0, 0])[: len(row)]
        return split_rows(row, lengths)

    def shade(self, example: Labelled, row: np.ndarray, name: str) -> TextWeights:
        """Return amounts of the tokens; sentences follow each other on one line."""
        lengths = [len(ids) for ids in self.tokenize(example)]
        rows = split_rows(row, lengths)
        sections = self.sections(example)
        text = shade_text(self.tokenizer, sections, rows, name)
        return replace(text, texts=(0,) * len(text.labels))

    def words(self, example: Labelled) -> list[Words]:
        """Return the words of each sentence."""
        texts = self.sections(example)
        return [words_of(text, self.tokenizer.offsets(text)) for text in texts]


class Documents(WholeTexts):
    """Sentences of at most `longest_sentence` tokens; a longer one becomes several."""

    def encode(self, example: Labelled) -> Texts:
        return [part for ids in self.tokenize(example) for part in self.cut(ids)]

    def collate(self, examples: Sequence[Example]) -> TextBatch:
        return collate_documents(examples)

    def token_weights(self, maps: Maps, lengths: Sequence[int]) -> Rows:
        """Return the weights of words times that of their sentence, 1 for an average."""
        words = [np.ones(length) for length in lengths]
        if self.config.words != "average":
            words = restore_order(maps[WORDS][:, 0], lengths)
        sentences = np.ones(len(lengths))
        if self.config.sentences != "average":
            sentences = to_numpy(maps[SENTENCES][0, 0])
        rows = zip(sentences, words, strict=False)
        return [weight * shares(row) for weight, row in rows]

    def locate(self, lengths: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        order = np.argsort(lengths, kind="stable")
        ranks = np.argsort(order).tolist()
        return ranks, [0] * len(lengths)

    def gradient(
        self, example: Labelled, contributions: Sequence[Contribution], label: str
    ) -> TextWeights:
        lengths = [len(part) for part in self.encode(example)]
        amounts = contributions[0].amounts[0]
        rows = restore_order(amounts, lengths)
        row = np.concatenate([*rows, np.zeros(0)])
        return self.shade(example, row, label)

    def words(self, example: Labelled) -> list[Words]:
        """Return the words of each sentence, or of each part of a long one."""
        parts = []
        for text in self.sections(example):
            spans = self.cut(self.tokenizer.offsets(text))
            parts += [words_of(text, part) for part in spans]
        return parts

    def cut(self, tokens: Sequence[Any]) -> list[list[Any]]:
        """Cut the tokens of a sentence into parts, of which an empty one has one."""
        size = self.config.longest_sentence
        firsts = range(0, max(1, len(tokens)), size)
        return [list(tokens[first : first + size]) for first in firsts]


def split_rows(row: np.ndarray, lengths: Sequence[int]) -> Rows:
    """Split values of all tokens into those of each sentence."""
    *rows, _ = np.split(row, np.cumsum(lengths))
    return rows


def restore_order(rows: Any, lengths: Sequence[int]) -> list[np.ndarray]:
    """Return rows that are sorted by length, as a batch has them, in their order."""
    order = np.argsort(lengths, kind="stable")
    restored = [np.zeros(0)] * len(lengths)
    for index, row in zip(order, to_numpy(rows), strict=False):
        restored[index] = row[: lengths[index]]
    return restored


STATES = "model.embedding.elmo"
C = TypeVar("C", bound="TextConfig")
FORMS = Registry(
    "regard.tasks.classification",
    {
        "text": Form,
        "attended-text": WholeTexts,
        "document": Documents,
        "last-text": LastText,
        "marked-texts": MarkedTexts,
        "published-texts": PublishedTexts,
        "two-texts": TwoTexts,
        "compared-texts": ComparedTexts,
    },
    group="regard.forms",
)


@dataclass(frozen=True, kw_only=True)
class TextConfig(FineTuning, PretrainedSource):
    """A run file of labelled texts or pairs of texts."""

    takes = tuple(CLASSIFIERS)

    data: Any
    model: ClassifierConfig | None = None
    truncate: bool = True
    """Cut texts that are longer than the model takes; otherwise they are refused."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.label_smoothing and self.task != "classification":
            raise ValueError("training.label_smoothing is for classes; leave it out")
        if self.model is None:
            return
        name = self.model.name
        model = f"the model {name}"
        form = FORMS[CLASSIFIERS[name].form]
        second = self.data.second
        if second is None and 1 not in form.texts:
            raise ValueError(
                f"{model} reads two texts; name the column of the source with data.second"
            )
        if second is not None and 2 not in form.texts:
            raise ValueError(f"{model} reads one text; remove data.second")
        kind = self.tokenizer and self.tokenizer.kind
        if self.states is not None and kind and kind not in WHOLE_WORDS:
            raise ValueError(
                f"tokenizer.kind is {kind}; {STATES} reads words, expected "
                f"{' or '.join(WHOLE_WORDS)}"
            )

    @property
    def command(self) -> str:
        """The use of a run."""
        texts = "TEXT" if self.data.second is None else "TEXT TEXT"
        return f"regard predict {{}} {texts}"

    @property
    def states(self) -> ElmoStates | None:
        """The run whose states replace the model's table of embeddings, if any does."""
        embedding = getattr(self.model, "embedding", None)
        return embedding if isinstance(embedding, ElmoStates) else None

    @property
    def source_part(self) -> PretrainedPart | None:
        """The model of those states."""
        states = self.states
        if states is None:
            return None
        task = "bidirectional-language-model"
        has_sizes = states.sizes is not None
        command = "`regard train elmo`"
        return PretrainedPart(
            STATES,
            states.elmo,
            task,
            command,
            has_sizes,
        )

    def with_sizes(self: C, source: Any) -> C:
        """Return the run file with the sizes of the pretrained model."""
        states = replace(self.sizes.embedding, sizes=source.model)
        return replace(self, model=replace(self.sizes, embedding=states))

    def form(self, tokenizer: Tokenizer) -> Form:
        """Return how the model reads texts."""
        form = FORMS[CLASSIFIERS[self.sizes.name].form]
        return form(tokenizer, self.sizes, truncate=self.truncate)


@dataclass(frozen=True, kw_only=True)
class Classification(TextConfig):
    """A run file whose labels are classes; a text has one."""

    task: Literal["classification"] = "classification"
    data: LabelledTables
    class_weights: ClassWeights = None
    """The weights of classes in the loss, all 1 by default. `balanced` counts each class
    as much as another."""
