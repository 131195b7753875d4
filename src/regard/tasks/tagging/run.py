"""Taggers: splitting texts into parts, training, and the trained run.

A part is [start] tokens [end]. A text that is longer than the model's maximum has
several parts, each of which begins with a word. The first token of a word predicts its
tag (Devlin 2019, section 5.3).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import regex
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Ids, bert_input, count_special, pad_rows
from regard.data.cache import cache_value, split_into_chunks
from regard.data.records import Records
from regard.data.tokens import parts_of, side
from regard.errors import InputError
from regard.maps.alignment import Alignment, TextWeights, stack_texts
from regard.metrics import (
    OUTSIDE,
    UNSPACED,
    Entity,
    Metrics,
    entity_metrics,
    find_entities,
)
from regard.models.bert import BertPointerConfig
from regard.models.catalog import TAGGERS
from regard.pictures.shaded_text import draw_shaded_text
from regard.shapes import Float
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.attribution import ELLIPSIS, Attribution, shade_parts, surround
from regard.tasks.base import (
    TOKENIZER,
    Explained,
    ReadingObjective,
    ReadingRun,
    Setup,
    TextBatch,
    attribute_tokens,
    digest_splits,
    setup_task,
)
from regard.tasks.class_prediction import (
    describe_constant_accuracy,
    log_constant_accuracy,
    order_like_start,
)
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    Json,
    PredictOptions,
    ShortRepr,
)
from regard.tasks.run import ScoredOutput, Task, log
from regard.tasks.summary import count_classes, sample_evenly, summarize_texts
from regard.tasks.tagging.data import (
    Place,
    Tagged,
    TaggedFiles,
    Tagging,
    describe_unread_scheme,
    space_out,
    word_places,
)
from regard.text import Tokenizer
from regard.text.kinds import IGNORED
from regard.training.objectives import Loss

POINTER = BertPointerConfig.name
"""The model whose tags are places: a word's tag is another word of the text."""
DRAWN = 10
"""The largest number of entities in a figure."""


class TextPart(NamedTuple):
    """A part of a text.

    Attributes:
        ids: The tokens, special tokens included.
        words: The indices in the text of the words that have a token.
        positions: The position of the first token of each of these words.
        tags: The index of the tag of each of these words; empty in prediction.
        is_cut: Whether the end of a word was cut off, since it is longer than a part.
    """

    ids: Ids
    words: list[int]
    positions: list[int]
    tags: list[int]
    is_cut: bool = False


def split_text(
    tokenizer: Tokenizer,
    context: int,
    text: str,
    words: Sequence[Place],
    tags: Sequence[int] = (),
) -> list[TextPart]:
    """Split a text into parts.

    The tokens of a word stay in one part. A word longer than a part is cut.

    Args:
        tokenizer: The tokenizer of the run.
        context: The largest number of tokens of a part, special tokens included.
        words: The characters of each word, from start to end, half-open.
        tags: The index of the tag of each word, in training.
    """
    special = tokenizer.special
    ids = tokenizer.encode(text)
    firsts = find_first_tokens(words, tokenizer.offsets(text))
    room = context - count_special(special, 1)
    bounds = [0]
    for first, end in pairwise([*firsts.values(), len(ids)]):
        if end - bounds[-1] > room and first > bounds[-1]:
            bounds.append(first)
    parts = []
    for start, end in pairwise([*bounds, len(ids)]):
        last = min(end, start + room)
        tokens, _ = bert_input(special, ids[start:last])
        inside = [word for word, first in firsts.items() if start <= first < last]
        positions = [firsts[word] - start + special.opens for word in inside]
        part_tags = [tags[word] for word in inside] if tags else []
        parts.append(TextPart(tokens, inside, positions, part_tags, end > last))
    return parts


def find_first_tokens(
    words: Sequence[Place], offsets: Sequence[Place]
) -> dict[int, int]:
    """Return the first token of each word that has one, by the index of the word.

    A token that belongs to two words counts for the first.
    """
    firsts = {}
    token = 0
    for index, (start, end) in enumerate(words):
        while token < len(offsets) and offsets[token][1] <= start:
            token += 1
        if token < len(offsets) and offsets[token][0] < end:
            firsts[index] = token
            token += 1
    return firsts


def warn_cut(texts: Sequence[Sequence[TextPart]], context: int) -> list[str]:
    """Return a list with a warning about cut words, or an empty list."""
    cut = sum(part.is_cut for parts in texts for part in parts)
    warning = (
        f"{cut:,} of the words of {len(texts):,} texts are longer than the model's maximum "
        f"of {context} tokens: only their beginning is read; a larger model.context reads "
        "more"
    )
    return [warning] if cut else []


def choose_tags(
    probabilities: Float[Tensor, "word tag"], labels: Sequence[str]
) -> list[str]:
    """Return the most likely tag of each word; O for a word without a token.

    Such a word has a row of zeros.
    """
    return [
        labels[int(row.argmax())] if row.any() else OUTSIDE for row in probabilities
    ]


def setup(config: Tagging, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    Raises:
        InputError: The texts or the model are invalid, or no word has a tag.
    """
    splits = config.data.load()
    train = splits.train
    counts = cache_value(train, "tag counts", lambda: count_tags(train))
    labels = sorted({*counts, OUTSIDE})
    if len(labels) < 2:
        raise InputError(
            f"{config.data.train}: every tag is {OUTSIDE}; expected some of other kinds"
        )
    if config.sizes.name == POINTER:
        labels = [OUTSIDE]
    labels = order_like_start(config.training.start, labels)
    tokenizer, model = config.build(
        folder,
        train,
        lambda texts: (text.text for text in texts),
        lambda sizes, words: TAGGERS.build(sizes, words, len(labels)),
    )
    run = TaggingRun(config, model, tokenizer, labels)
    parts = split_into_chunks(
        train,
        f"tagged parts {tokenizer.digest} {run.context} {labels}",
        lambda text: run.split(text.text, text.words, run.index_tags(text)),
        lambda part: len(part.ids),
        TextPart,
    )
    sample = [run.split(text.text, text.words) for text in sample_evenly(train)]
    warnings = [*warn_cut(sample, run.context), *describe_unread_scheme(labels)]
    first = train[0]
    entities = [
        f"{first.text[first.words[start][0] : first.words[end - 1][1]]} ({label})"
        for start, end, label in find_entities(first.tags)
    ]
    # in BIO an entity begins with B-, or is a plain tag
    classes = {
        tag.removeprefix("B-"): count
        for tag, count in counts.items()
        if tag != OUTSIDE and not tag.startswith("I-")
    }
    summary = summarize_texts(
        config.data,
        splits,
        {"text": (tokenizer, lambda text: text.text)},
        unit="texts",
        example={"entities": ", ".join(entities) or "none"},
        warnings=warnings,
        classes=count_classes(classes),
        classified="entities",
    )
    return setup_task(
        run,
        ReadingObjective(run, splits, parts),
        splits,
        digest_splits(splits, lambda text: "\0".join((text.text, *text.tags)) + "\n"),
        summary,
        details=[f"{len(counts)} tags"],
        files={LABELS: labels},
        fresh=("output.",),
        simplest=describe_constant_accuracy(count_tags(splits.valid)),
    )


def count_tags(texts: Iterable[Tagged]) -> Counter[str]:
    """Return how often each tag occurs."""
    return Counter(tag for text in texts for tag in text.tags)


@dataclass(frozen=True)
class LabeledSpan:
    """The characters `start` to `end` of a text, half-open, with their label."""

    start: int
    end: int
    label: str
    text: str
    probability: float
    """The product of the probabilities of its words' tags."""


@dataclass(frozen=True, repr=False)
class TagsPrediction(ShortRepr):
    """The spans of a text, the entities of its words' tags."""

    source: str
    spans: tuple[LabeledSpan, ...]

    @property
    def text(self) -> str:
        """The text with each span and its label in brackets."""
        result = ""
        last = 0
        for span in self.spans:
            result += f"{self.source[last : span.start]}[{span.text} {span.label}]"
            last = span.end
        return result + self.source[last:]

    def to_json(self) -> Json:
        """Return the spans in the form that training reads from JSON lines."""
        return {"spans": [dict(vars(span)) for span in self.spans]}


class TaggingRun(ReadingRun[str, TagsPrediction]):
    """A trained tagger with its tokenizer, its tags and its run file."""

    does = "Marks names, or other words of a kind, in a text."
    config: Tagging
    data_hint = "give a file of tagged words"

    def __init__(
        self,
        config: Tagging,
        model: nn.Module,
        tokenizer: Tokenizer,
        labels: Sequence[str],
    ):
        super().__init__(config, model, tokenizer)
        self.labels = labels
        self.context = config.sizes.context
        self.points = config.sizes.name == POINTER

    @classmethod
    def open(cls, run: RunDirectory, config: Tagging) -> "TaggingRun":
        """Open the run in a folder; its model has initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        labels = run.read_labels()
        model = TAGGERS.build(config.sizes, tokenizer.size, len(labels))
        return cls(config, model, tokenizer, labels)

    def labels_of(self, text: str, words: Sequence[Place]) -> Sequence[str]:
        """Return the tags that a word of a text may have; of a pointer, its words."""
        if not self.points:
            return self.labels
        return [OUTSIDE, *(f"B-{text[start:end]}" for start, end in words)]

    def index_tags(self, text: Tagged) -> list[int]:
        """Return the indices of a text's tags.

        Raises:
            InputError: The model points, and the text lacks a tag.
        """
        labels = self.labels_of(text.text, text.words)
        for tag in text.tags:
            if tag not in labels:
                raise InputError(
                    f"{text.place}: the label {tag[2:]!r} isn't a word of the text, and the "
                    f"model {POINTER} points to words; use the model bert"
                )
        return list(map(labels.index, text.tags))

    def columns(self, part: TextPart) -> dict[int, int]:
        """Return the column of the model's outputs for each tag that a part's words have."""
        if not self.points:
            return {index: index for index in range(len(self.labels))}
        words = [0, *(word + 1 for word in part.words)]
        return dict(zip(words, [0, *part.positions], strict=True))

    def split(
        self, text: str, words: Sequence[Place], tags: Sequence[int] = ()
    ) -> list[TextPart]:
        """Split a text into parts with `split_text`."""
        text, words = self.separate(text, words)
        return split_text(self.tokenizer, self.context, text, words, tags)

    def separate(
        self, text: str, words: Sequence[Place]
    ) -> tuple[str, Sequence[Place]]:
        """Return a text and its words, with blanks between words that share a token."""
        if regex.search(UNSPACED, text) is None:
            return text, words
        firsts = find_first_tokens(words, self.tokenizer.offsets(text))
        return (text, words) if len(firsts) == len(words) else space_out(text, words)

    def collate(self, parts: Sequence[TextPart]) -> TextBatch:
        """Pad parts; tags are at the first tokens of words, `IGNORED` is elsewhere."""
        inputs = pad_rows([part.ids for part in parts])
        tags = torch.full_like(inputs[0], IGNORED)
        for row, part in zip(tags, parts, strict=True):
            columns = self.columns(part) if self.points else {}
            # In prediction a part has no tags.
            for position, tag in zip(part.positions, part.tags, strict=False):
                row[position] = columns.get(tag, 0) if self.points else tag
        return TextBatch(inputs, tags, sum(len(part.words) for part in parts))

    def compute_loss(self, outputs: Tensor, batch: TextBatch) -> Loss:
        """Return the summed cross-entropy of the words' tags, and the number of words."""
        total = functional.cross_entropy(
            outputs.flatten(0, 1),
            batch.targets.flatten(),
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=self.config.training.label_smoothing,
        )
        return Loss(total, max(1, batch.size))

    def prediction_warnings(self, prediction: TagsPrediction) -> list[str]:
        warning = "no entity is found: every word has the tag O"
        return [] if prediction.spans else [warning]

    def description(self) -> Json:
        return super().description() | {
            "kind": "document",
            "model": self.config.sizes.name,
            "classes": sorted({label for _, _, label in find_entities(self.labels)}),
        }

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Tagged]:
        data = self.config.data
        if not isinstance(data, TaggedFiles):
            data = TaggedFiles()
        data = replace(data, skip_bad=options.skip_bad or data.skip_bad)
        texts: list[Tagged] = []
        for path in map(str, files):
            texts += data.with_columns(options.columns, path).read(path)
        return texts

    def log_examples(self, examples: Sequence[Tagged]) -> None:
        log_constant_accuracy(count_tags(examples))
        self._warn_cut([self.split(text.text, text.words) for text in examples])

    def compute_metrics(
        self, examples: Sequence[Tagged], options: EvaluationOptions
    ) -> Metrics:
        """Return percentages: F1, precision and recall of entities, accuracy of tags."""
        texts = [self.split(text.text, text.words) for text in examples]
        labels = [self.labels_of(text.text, text.words) for text in examples]
        counts = [len(text.words) for text in examples]
        rows = self.compute_probabilities(texts, counts)
        tags = list(map(choose_tags, rows, labels))
        return entity_metrics(tags, [text.tags for text in examples])

    def compute_probabilities(
        self, texts: Sequence[Sequence[TextPart]], words: Sequence[int]
    ) -> list[Float[Tensor, "word tag"]]:
        """Return the probability of each tag for each word.

        A word without a token has zeros.

        Args:
            texts: The parts of each text.
            words: The number of words of each text.
        """
        outputs = self.compute_outputs([part for text in texts for part in text])
        results = []
        for text, count in zip(texts, words, strict=True):
            rows = torch.zeros(count, count + 1 if self.points else len(self.labels))
            for part in text:
                columns = self.columns(part)
                logits = next(outputs)[part.positions][:, [*columns.values()]]
                inside = torch.tensor(part.words, dtype=torch.long)[:, None]
                rows[inside, torch.tensor([*columns])] = logits.softmax(-1)
            results.append(rows)
        return results

    def _warn_cut(self, texts: Sequence[Sequence[TextPart]]) -> None:
        for warning in warn_cut(texts, self.context):
            log.warning(warning)

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[TagsPrediction]:
        words = list(map(word_places, examples))
        texts = list(map(self.split, examples, words))
        self._warn_cut(texts)
        results = self.compute_probabilities(texts, list(map(len, words)))
        predictions = []
        for text, places, rows in zip(examples, words, results, strict=True):
            spans = []
            tags = choose_tags(rows, self.labels_of(text, places))
            for first, last, label in find_entities(tags):
                start, end = places[first][0], places[last - 1][1]
                probability = float(rows[first:last].amax(-1).prod())
                spans.append(
                    LabeledSpan(start, end, label, text[start:end], probability)
                )
            predictions.append(TagsPrediction(text, tuple(spans)))
        return predictions

    @property
    def effect_modules(self) -> Sequence[str]:
        return self.cut_modules

    def input_of(self, example: Tagged) -> str:
        return example.text

    def _find_output(
        self, example: str, options: AttributionOptions, forced: int
    ) -> ScoredOutput:
        """Return the tags of the words of a text of one part."""
        words = word_places(example)
        part, *parts = self.split(example, words)
        if parts:
            raise InputError(
                f"the text is read in {1 + len(parts)} parts, and cuts are for a text of "
                "one part; shorten it"
            )
        names = [example[slice(*words[word])] for word in part.words]

        def compute() -> Tensor:
            return self.call([part])[0, part.positions].log_softmax(-1)

        def name(tags: Sequence[int]) -> list[str]:
            pairs = zip(names, tags, strict=True)
            return [f"{word} {self.labels[tag]}" for word, tag in pairs]

        def predict() -> tuple[list[str], TagsPrediction]:
            (prediction,) = self._predict([example], PredictOptions())
            return name(compute().argmax(-1).tolist()), prediction

        tags = compute().argmax(-1)
        pieces = name(tags.tolist())
        rows = torch.arange(len(tags), device=tags.device)
        return ScoredOutput(pieces, pieces, lambda: compute()[rows, tags], predict)

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute the tokens of a text, or of its first part, to each other.

        The figure shades the text by what each entity attends to. A gradient is that of
        the log-probability of the first tag of each entity.
        """
        (prediction,) = self._predict([example], PredictOptions())
        words = word_places(example)
        part = self.split(example, words)[0]
        (rows,) = self.compute_probabilities([[part]], [len(words)])
        indices: list[int] = rows[part.words].argmax(-1).tolist()
        labels = self.labels_of(example, words)
        entities = find_entities([labels[index] for index in indices])

        names = []
        for first, last, label in entities:
            start = words[part.words[first]][0]
            end = words[part.words[last - 1]][1]
            names.append(f"{label}: {example[start:end]}")
        firsts = [entity.start for entity in entities]
        positions = [part.positions[first] for first in firsts]
        explained = Explained(
            names,
            [self.columns(part)[indices[first]] for first in firsts],
            lambda: self.call([part])[0, positions],
            "no entity is predicted, and a gradient explains the tag of one",
        )
        spaced, _ = self.separate(example, words)
        pieces = side(self.tokenizer, part.ids, texts=[spaced])
        lookups, weights = attribute_tokens(self.model, pieces, explained, options)
        attribution = Attribution(
            prediction,
            prediction.text,
            (lookups,),
            weights,
            options,
            has_heads=True,
            rows=tuple(positions),
        )
        mean = attribution.mean_of_heads
        if not entities:
            return replace(attribution, detail=f"no entity found; {mean}")
        offsets = self.tokenizer.offsets(spaced)
        shades = shade_entities(spaced, offsets, part, entities[:DRAWN], weights)
        reader = "each entity"
        if len(entities) > DRAWN:
            reader = f"each of the first {DRAWN} of {len(entities)} entities"
        return replace(
            attribution,
            draw=lambda title: draw_shaded_text(shades, title=title),
            detail=f"what {reader} attends to: {mean}",
        )


def shade_entities(
    text: str,
    offsets: Sequence[Place],
    part: TextPart,
    entities: Sequence[Entity],
    weights: Alignment,
) -> TextWeights:
    """Return, for each entity, its label and the text shaded by what it attends to.

    The entity's words are framed, and special tokens are left out.

    Args:
        offsets: The characters of each token of the text.
        part: The first part of the text.
        entities: The entities of the part.
        weights: Attention of shape (position, position), of which an entity has the
            mean over its words, or a gradient of shape (entity, position).
    """
    count = len(part.ids) - 2
    is_attention = len(weights.target) == len(part.ids)
    words = parts_of(text, offsets[:count])
    after = [ELLIPSIS] * (count < len(offsets))
    texts = []
    for number, (first, last, label) in enumerate(entities):
        positions = part.positions[first:last]
        rows = weights.weights[positions if is_attention else [number]]
        visible = surround(words, [f"{label}:"], after)
        amounts = rows.mean(0)[1 : 1 + count]
        framed = [position - 1 for position in positions]
        texts.append(shade_parts([visible], [amounts], "the entity", framed))
    return stack_texts(texts)


TASK = Task(Tagging, setup, TaggingRun, command="regard predict {} TEXT")
