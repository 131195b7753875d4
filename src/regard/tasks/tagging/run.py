"""Taggers: the parts of texts that a model reads, the training, and the trained run.

A part is [start] tokens [end]; a longer text has several, which begin with a word. The
first token of a word stands for it (Devlin 2019, section 5.3).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attribution.aggregation import text_kinds
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.data.batches import Ids, bert_input, count_special, pad_rows
from regard.data.cache import cache_value, split_into_chunks
from regard.data.records import Records
from regard.data.splits import Splits
from regard.data.tokens import parts_of, side
from regard.errors import InputError
from regard.maps.alignment import Alignment, TextWeights, stack_texts
from regard.metrics import OUTSIDE, Entity, entity_metrics, find_entities
from regard.models.catalog import TAGGERS
from regard.pictures.shaded_text import draw_shaded_text
from regard.shapes import Float
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.attribution import ELLIPSIS, Attribution, shade_parts, surround
from regard.tasks.base import (
    TOKENIZER,
    Explanation,
    ReadingRun,
    Setup,
    TextBatch,
    TokenBatchObjective,
    attribute_tokens,
    compute_outputs,
    digest_splits,
    group_evenly,
    setup_task,
)
from regard.tasks.class_prediction import (
    describe_constant_accuracy,
    log_constant_accuracy,
    order_like_start,
)
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr
from regard.tasks.run import log
from regard.tasks.summary import count_classes, sample_evenly, summarize_texts
from regard.tasks.tagging.data import Place, Tagged, TaggedFiles, Tagging, word_places
from regard.text import Tokenizer
from regard.text.kinds import IGNORED
from regard.training.objectives import Carried, Loss

ROWS = 64
"""Parts in one batch of inference."""
DRAWN = 10
"""Largest number of entities in a figure."""


class Part(NamedTuple):
    """A part of a text.

    Attributes:
        ids: The tokens, special tokens included.
        words: The index in the text of each word that has a token.
        positions: The position of the first token of each of these words.
        tags: The index of the tag of each of these words, in training.
        is_cut: Whether it is the beginning of a word that is longer than a part.
    """

    ids: Ids
    words: list[int]
    positions: list[int]
    tags: list[int]
    is_cut: bool = False


@dataclass(frozen=True)
class Encoder:
    """Encodes texts as parts of at most `context` tokens."""

    tokenizer: Tokenizer
    context: int

    def split(
        self, text: str, words: Sequence[Place], tags: Sequence[int] = ()
    ) -> list[Part]:
        """Return the parts of a text.

        Tokens of one word are in one part, unless it alone is longer: then its first ones
        are.

        Args:
            text: The text.
            words: The characters of its words.
            tags: The indices of their tags, in training.
        """
        special = self.tokenizer.special
        ids = self.tokenizer.encode(text)
        firsts = find_first_tokens(words, self.tokenizer.offsets(text))
        room = self.context - count_special(special, 1)
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
            parts.append(
                Part(
                    tokens,
                    inside,
                    positions,
                    part_tags,
                    end > last,
                )
            )
        return parts


def find_first_tokens(
    words: Sequence[Place], offsets: Sequence[Place]
) -> dict[int, int]:
    """Return the first token of each word that has one of its own, by its index.

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


def warn_cut(texts: Sequence[Sequence[Part]], context: int) -> list[str]:
    """Return a warning on words that are longer than a part, if there are any."""
    cut = sum(part.is_cut for parts in texts for part in parts)
    warning = (
        f"{cut:,} of the words of {len(texts):,} texts are longer than the model's maximum "
        f"of {context} tokens: only their beginning is read; a larger model.context reads "
        "more"
    )
    return [warning] * (cut > 0)


def collate_parts(parts: Sequence[Part]) -> TextBatch:
    """Pad parts, with the tag at each word's first token and `IGNORED` elsewhere."""
    inputs = pad_rows([part.ids for part in parts])
    tags = torch.full_like(inputs[0], IGNORED)
    for row, part in zip(tags, parts, strict=True):
        for position, tag in zip(part.positions, part.tags, strict=False):
            row[position] = tag
    return TextBatch(inputs, tags, sum(len(part.words) for part in parts))


class TaggingObjective(TokenBatchObjective[Part, TextBatch]):
    """The cross-entropy of the tags of words."""

    metric = "f1"
    higher_is_better = True

    def __init__(
        self,
        config: Tagging,
        splits: Splits[Tagged],
        labels: Sequence[str],
        encoder: Encoder,
    ) -> None:
        self.texts = splits.train
        self.labels = labels
        self.encoder = encoder

        def split(text: Tagged) -> list[Part]:
            tags = [labels.index(tag) for tag in text.tags]
            return encoder.split(text.text, text.words, tags)

        chunks = split_into_chunks(
            splits.train,
            f"tagged parts {encoder.tokenizer.digest} {encoder.context} {labels}",
            split,
            lambda part: len(part.ids),
            Part,
        )
        self.owners = chunks.owners
        settings = config.training
        lengths = chunks.sides
        super().__init__(
            chunks,
            splits.valid,
            settings,
            lengths,
            "texts",
        )

    def place(self, index: int) -> str:
        return self.texts[int(self.owners[index])].origin

    def collate(self, examples: Sequence[Part]) -> TextBatch:
        return collate_parts(examples)

    def loss(
        self,
        model: nn.Module,
        batch: TextBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        total = functional.cross_entropy(
            model(*batch.inputs).flatten(0, 1),
            batch.targets.flatten(),
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=self.settings.label_smoothing,
        )
        return Loss(total, max(1, batch.size))

    def validate(self, model: nn.Module) -> dict[str, float]:
        parts = [self.encoder.split(text.text, text.words) for text in self.valid]
        return compute_metrics(model, parts, self.labels, self.valid)


def compute_probabilities(
    model: nn.Module, texts: Sequence[Sequence[Part]], words: Sequence[int]
) -> list[Float[Tensor, "word tag"]]:
    """Return the probability of each tag for each word; zeros for one without a token.

    Args:
        model: The tagger.
        texts: The parts of each text.
        words: The number of words of each text.
    """
    groups = group_evenly([part for text in texts for part in text], ROWS)
    outputs = chain.from_iterable(compute_outputs(model, collate_parts, groups))
    results = []
    for text, count in zip(texts, words, strict=True):
        rows = torch.zeros(count, model.get_parameter("output.weight").shape[0])
        for part in text:
            rows[part.words] = next(outputs)[part.positions].softmax(-1)
        results.append(rows)
    return results


def choose_tags(
    probabilities: Float[Tensor, "word tag"], labels: Sequence[str]
) -> list[str]:
    """Return the most likely tag of each word; O for one without a token."""
    return [
        labels[int(row.argmax())] if row.any() else OUTSIDE for row in probabilities
    ]


def compute_metrics(
    model: nn.Module,
    parts: Sequence[Sequence[Part]],
    labels: Sequence[str],
    texts: Sequence[Tagged],
) -> dict[str, float]:
    """Return f1, precision, recall and accuracy, as `entity_metrics`."""
    results = compute_probabilities(model, parts, [len(text.words) for text in texts])
    tags = [choose_tags(rows, labels) for rows in results]
    return entity_metrics(tags, [text.tags for text in texts])


def setup(config: Tagging, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    Raises:
        InputError: The texts or the model are invalid, or no word has a tag.
    """
    splits = config.data.load()
    train = splits.train
    counts = cache_value(
        train, "tag counts", lambda: Counter(tag for text in train for tag in text.tags)
    )
    labels = sorted({*counts, OUTSIDE})
    if len(labels) < 2:
        raise InputError(
            f"{config.data.train}: every tag is {OUTSIDE}; expected some of other kinds"
        )
    labels = order_like_start(config.training.start, labels)
    tokenizer, model = config.build(
        folder,
        train,
        lambda texts: (text.text for text in texts),
        lambda sizes, words: TAGGERS.build(sizes, words, len(labels)),
    )
    encoder = Encoder(tokenizer, config.sizes.context)
    held_out = Counter(tag for text in splits.valid for tag in text.tags)
    simplest = describe_constant_accuracy(held_out)
    held_out.update(tag for text in splits.test for tag in text.tags)
    parts = [encoder.split(text.text, text.words) for text in sample_evenly(train)]
    warnings = warn_cut(parts, encoder.context)
    if unseen := sorted(held_out.keys() - counts):
        warnings.append(
            f"no training text has the tags {', '.join(unseen)}, so they are never predicted"
        )
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
        model,
        TaggingObjective(config, splits, labels, encoder),
        splits,
        digest_splits(splits, lambda text: "\0".join((text.text, *text.tags)) + "\n"),
        summary,
        details=[f"{len(counts)} tags", f"a vocabulary of {tokenizer.size:,}"],
        tokenizers={TOKENIZER: tokenizer},
        files={LABELS: labels},
        fresh=("output.",),
        simplest=simplest,
    )


@dataclass(frozen=True)
class Span:
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
    spans: tuple[Span, ...]

    @property
    def text(self) -> str:
        """The text with each span and its label in brackets."""
        result = ""
        last = 0
        for span in self.spans:
            result += f"{self.source[last : span.start]}[{span.text} {span.label}]"
            last = span.end
        return result + self.source[last:]

    def to_json(self) -> dict[str, Any]:
        """Return the spans as JSON lines for training have them."""
        return {"spans": [dict(vars(span)) for span in self.spans]}


class TaggingRun(ReadingRun[str, TagsPrediction]):
    """A trained tagger with its tokenizer, its tags and its run file."""

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
        self.encoder = Encoder(tokenizer, config.sizes.context)

    @classmethod
    def open(cls, run: RunDirectory, config: Tagging) -> "TaggingRun":
        """Open the run in a folder, its model with initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        labels = run.read_labels()
        model = TAGGERS.build(config.sizes, tokenizer.size, len(labels))
        return cls(config, model, tokenizer, labels)

    def prediction_warnings(self, prediction: TagsPrediction) -> list[str]:
        warning = "no entity is found: every word has the tag O"
        return [] if prediction.spans else [warning]

    @property
    def kinds(self) -> Sequence[Kind]:
        return text_kinds(self.model, self.model.self_attention)

    def description(self) -> dict[str, Any]:
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

    def compute_metrics(
        self, examples: Sequence[Tagged], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return F1, precision and recall of entities and accuracy of tags, in percent."""
        log_constant_accuracy(Counter(tag for text in examples for tag in text.tags))
        parts = self._split([(text.text, text.words) for text in examples])
        return compute_metrics(self.model, parts, self.labels, examples)

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[TagsPrediction]:
        words = list(map(word_places, examples))
        parts = self._split(list(zip(examples, words, strict=True)))
        results = compute_probabilities(self.model, parts, list(map(len, words)))
        predictions = []
        for text, places, rows in zip(examples, words, results, strict=True):
            spans = []
            for first, last, label in find_entities(choose_tags(rows, self.labels)):
                start, end = places[first][0], places[last - 1][1]
                probability = float(rows[first:last].amax(-1).prod())
                spans.append(
                    Span(
                        start,
                        end,
                        label,
                        text[start:end],
                        probability,
                    )
                )
            predictions.append(TagsPrediction(text, tuple(spans)))
        return predictions

    def _split(self, texts: Sequence[tuple[str, Sequence[Place]]]) -> list[list[Part]]:
        """Return the parts of texts, and log how many words are cut."""
        parts = [self.encoder.split(text, words) for text, words in texts]
        for warning in warn_cut(parts, self.encoder.context):
            log.warning(warning)
        return parts

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute the tokens of a text, or of its first part, to each other.

        The figure shades the text by what each entity reads. The gradient is that of the
        log-probability of the first tag of each entity.
        """
        (prediction,) = self._predict([example], PredictOptions())
        words = word_places(example)
        part = self.encoder.split(example, words)[0]

        def compute_logits() -> Tensor:
            return self.model(*collate_parts([part]).to(self.device).inputs)[0]

        with torch.no_grad():
            logits = compute_logits()[part.positions]
        indices: list[int] = logits.argmax(-1).tolist()
        entities = find_entities([self.labels[index] for index in indices])

        def explain() -> Explanation:
            if not entities:
                raise InputError(
                    "no entity is predicted, and a gradient explains the tag of one"
                )
            names = []
            for first, last, label in entities:
                start = words[part.words[first]][0]
                end = words[part.words[last - 1]][1]
                names.append(f"{label}: {example[start:end]}")
            firsts = [entity.start for entity in entities]
            positions = [part.positions[first] for first in firsts]
            tags = [indices[first] for first in firsts]
            return names, lambda: select_log_probabilities(
                compute_logits()[positions], tags
            )

        labels = side(self.tokenizer, part.ids, texts=[example])
        lookups, weights = attribute_tokens(
            self.model, labels, compute_logits, explain, options
        )
        attribution = Attribution(
            prediction, prediction.text, (lookups,), weights, options, has_heads=True
        )
        mean = attribution.mean_of_heads
        if not entities:
            return replace(attribution, detail=f"no entity found; {mean}")
        offsets = self.tokenizer.offsets(example)
        shades = shade_entities(
            example,
            offsets,
            part,
            entities[:DRAWN],
            weights,
        )
        reader = "each entity"
        if len(entities) > DRAWN:
            reader = f"each of the first {DRAWN} of {len(entities)} entities"
        return replace(
            attribution,
            draw=lambda title: draw_shaded_text(shades, title=title),
            detail=f"what {reader} reads: {mean}",
        )


def shade_entities(
    text: str,
    offsets: Sequence[Place],
    part: Part,
    entities: Sequence[Entity],
    weights: Alignment,
) -> TextWeights:
    """Return, for each entity, its label and the text shaded by what it reads.

    The entity's words are framed. Its weights are the mean over its words, or its row of a
    gradient; special tokens are left out.

    Args:
        text: The text.
        offsets: The characters of each token of the text.
        part: The part of the text that is read.
        entities: The entities of the part.
        weights: Of shape (position, position) or (entity, position).
    """
    count = len(part.ids) - 2
    words = parts_of(text, offsets[:count])
    after = [ELLIPSIS] * (count < len(offsets))
    texts = []
    for number, (first, last, label) in enumerate(entities):
        positions = part.positions[first:last]
        is_square = len(weights.target) == len(part.ids)
        rows = weights.weights[positions if is_square else [number]]
        visible = surround(words, [f"{label}:"], after)
        amounts = rows.mean(0)[1 : 1 + count]
        framed = [position - 1 for position in positions]
        texts.append(shade_parts([visible], [amounts], "the entity", framed))
    return stack_texts(texts)
