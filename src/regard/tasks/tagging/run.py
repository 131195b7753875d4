"""The figure of a tagged text: for each entity the text, shaded by what the entity reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.attribution.aggregation import supported_text_kinds
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.data.records import Records
from regard.data.tokens import parts_of, side
from regard.errors import InputError
from regard.maps.alignment import Alignment, TextWeights, Words, stack_texts
from regard.maps.heads import Side
from regard.metrics import OUTSIDE, Entity, find_entities
from regard.models.catalog import build_tagger
from regard.pictures.shaded_text import draw_shaded_text
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution, append_ellipsis, shade_parts
from regard.tasks.base import Explanation, TextAttribution
from regard.tasks.class_prediction import log_constant_accuracy
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr, flat
from regard.tasks.run import Run, text_warnings
from regard.tasks.tagging.data import Tagged, Tagging, word_places
from regard.tasks.tagging.training import (
    Encoder,
    Part,
    chosen_tags,
    collate_parts,
    metrics,
    probabilities,
)
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 10
"""The most entities that are texts."""


def of_entities(
    text: str,
    offsets: Sequence[tuple[int, int]],
    part: Part,
    result: Sequence[Entity],
    weights: Alignment,
    detail: str,
    title: str,
) -> Figure:
    """Return the first entities, each with its own copy of the text.

    Arguments are those of `entity_weights`, and what the picture shows.
    """
    lines = [
        title,
        detail,
        *(
            [f"the first {MOST} of {len(result)} entities"]
            if len(result) > MOST
            else []
        ),
    ]
    return draw_shaded_text(
        entity_weights(text, offsets, part, result[:MOST], weights),
        title="\n".join(lines),
    )


def entity_weights(
    text: str,
    offsets: Sequence[tuple[int, int]],
    part: Part,
    result: Sequence[Entity],
    weights: Alignment,
) -> TextWeights:
    """For each entity its label and the words of a part of the text, those of the entity framed, with their shares of
    what the entity reads: the mean over its words, or its row of a gradient. Special tokens are left out.

    offsets: the characters of each token of the text.
    weights: (position of the part, position), or (entity, position).
    """
    current = offsets[: len(part.ids) - 2]
    full = parts_of(text, current)
    words = append_ellipsis(full) if len(current) < len(offsets) else full
    texts = []
    for number, entity in enumerate(result):
        places = part.positions[entity.start : entity.end]
        rows = weights.weights[
            list(places) if len(weights.target) == len(part.ids) else [number]
        ]
        read = shade_parts([words], [rows.mean(0)[1 : 1 + len(current)]], "the entity")
        texts.append(
            _labelled(read, entity.label, [full.indices[place - 1] for place in places])
        )
    return stack_texts(texts)


def _labelled(read: TextWeights, label: str, entity: Sequence[int]) -> TextWeights:
    """Return a text behind its entity's label, which has no weight.

    The entity's words are framed.
    """
    return TextWeights(
        (f"{label}:", *read.labels),
        np.concatenate([np.zeros(1), read.weights]),
        read.name,
        (0, *read.texts),
        (False, *read.glued),
        read.averaged,
        frozenset(1 + word for word in entity),
    )


@dataclass(frozen=True)
class Span:
    """The characters `start` to `end` of a text, half-open, their label, and its probability: the product of those of
    its words' tags."""

    start: int
    end: int
    label: str
    text: str
    probability: float


@dataclass(frozen=True, repr=False)
class TagsPrediction(ShortRepr):
    """The spans of a text, the entities of its words' tags."""

    source: str
    spans: tuple[Span, ...]

    @property
    def text(self) -> str:
        """The text with each span and its label in brackets."""
        result, last = "", 0
        for span in self.spans:
            result += f"{self.source[last : span.start]}[{span.text} {span.label}]"
            last = span.end
        return result + self.source[last:]

    def lines(self) -> list[str]:
        """Return the text with its spans, on one line."""
        return [flat(self.text)]

    def to_json(self) -> dict[str, Any]:
        """Return the spans, as they are read in JSON lines."""
        return {"spans": [dict(vars(span)) for span in self.spans]}


def append_tags(read: Side, tags: Mapping[int, str]) -> Side:
    """Return tokens and their words with the tags of tokens, by position, in brackets.

    `O` is left out.
    """
    named = {position: tag for position, tag in tags.items() if tag != OUTSIDE}
    of_words: dict[int, list[str]] = {}
    for position, tag in named.items():
        of_words.setdefault(read.words.indices[position], []).append(tag)
    pieces = [
        with_tags(label, [named[at]] if at in named else [])
        for at, label in enumerate(read.pieces)
    ]
    words = [
        with_tags(label, of_words.get(at, []))
        for at, label in enumerate(read.words.labels)
    ]
    return Side(tuple(pieces), Words(tuple(words), read.words.indices))


def with_tags(label: str, tags: Sequence[str]) -> str:
    """Return a label with its tags, if it has some."""
    return f"{label} ({', '.join(tags)})" if tags else label


class TaggingRun(Run[str, TagsPrediction]):
    """A trained tagger with its tokenizer, its tags and its run file."""

    config: Tagging
    model: Any
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset({"files", "columns", "skip_bad"}),
        "attribute": frozenset({"kinds", "maps"}),
    }
    data_hint = "give a file of tagged words"

    def __init__(
        self,
        config: Tagging,
        model: nn.Module,
        tokenizer: Tokenizer,
        labels: Sequence[str],
    ):
        self.config, self.model, self.tokenizer, self.labels = (
            config,
            model,
            tokenizer,
            tuple(labels),
        )
        self.encoder = Encoder(tokenizer, config.tagger.context)

    @classmethod
    def open(cls, run: RunDirectory, config: Tagging) -> TaggingRun:
        """Return the run in a folder, its model with fresh weights.

        Raises:
            InputError: A damaged file.
        """
        tokenizer, labels = Tokenizer.load(run.file(TOKENIZER)), run.read_labels()
        return cls(
            config,
            build_tagger(config.tagger, tokenizer.size, len(labels)),
            tokenizer,
            labels,
        )

    def warnings(self, text: str) -> list[str]:
        return text_warnings(self.tokenizer, {"text": text})

    def prediction_warnings(self, prediction: TagsPrediction) -> list[str]:
        return (
            [] if prediction.spans else ["no entity is found: every word has the tag O"]
        )

    def parse(self, line: str, place: str = "text 1") -> str:
        """Return the line."""
        return line

    @property
    def kinds(self) -> Sequence[Kind]:
        return supported_text_kinds(self.model, self.model.self_attention)

    def description(self) -> dict[str, Any]:
        result = {label for _, _, label in find_entities(self.labels)}
        return super().description() | {
            "kind": "document", "model": self.config.tagger.name, "classes": sorted(result)
        }  # fmt: skip

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Tagged]:
        """Return the texts of files like the run's own.

        Raises:
            InputError: As `TaggedFiles.read`.
        """
        current, names = self.config.data, options.columns
        sections = (
            (
                current.with_columns(names, str(file), skip_bad=options.skip_bad),
                str(file),
            )
            for file in files
        )
        return [item for data, path in sections for item in data.read(path)]

    def compute_metrics(
        self, examples: Sequence[Tagged], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return F1, precision and recall of entities and accuracy of tags, in percent."""
        self.encoder.report_long((text.text, text.words) for text in examples)
        log_constant_accuracy(Counter(tag for text in examples for tag in text.tags))
        return metrics(self.model, self.encoder, self.labels, examples)

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[TagsPrediction]:
        """Return the spans of each text."""
        words = [word_places(text) for text in examples]
        self.encoder.report_long(zip(examples, words, strict=True))
        cut = [
            self.encoder.parts(text, places)
            for text, places in zip(examples, words, strict=True)
        ]
        result = probabilities(self.model, cut, [len(word) for word in words])
        return [
            TagsPrediction(text, tuple(self._spans(text, places, shares)))
            for text, places, shares in zip(examples, words, result, strict=True)
        ]

    def _spans(
        self, text: str, words: Sequence[tuple[int, int]], shares: torch.Tensor
    ) -> list[Span]:
        best = shares.amax(-1).tolist() if len(words) else []
        results = []
        for first, last, label in find_entities(chosen_tags(shares, self.labels)):
            start, end = words[first][0], words[last - 1][1]
            results.append(
                Span(
                    start,
                    end,
                    label,
                    text[start:end],
                    float(torch.tensor(best[first:last]).prod()),
                )
            )
        return results

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """The attention between the tokens of a text, special tokens included, of a longer one its first part; its
        picture shades the text by what each entity reads. In brackets a word has its tag, unless that is O. For the
        kind gradient, gradient x input of the log-probability of the first tag of each entity.

        Raises:
            InputError: the model has no such map; for a gradient, there is no entity.
        """
        (prediction,) = self._predict([example], PredictOptions())
        words = word_places(example)
        part = self.encoder.parts(example, words)[0]
        lookups, weights = TextAttribution(
            self.model,
            self._side(part, example),
            lambda: self._logits(part),
            lambda: self._explain(part, example, words),
        ).collect(options)
        within = find_entities(self._tags(part))
        visible = Attribution(
            prediction, prediction.text, (lookups,), weights, options, has_heads=True
        )
        if not within:
            return replace(visible, detail=f"no entity found; {visible.mean_of_heads}")
        offsets = self.tokenizer.offsets(example)
        detail = (
            "the text once for each entity"
            if options.kinds
            else f"what each entity reads: {visible.mean_of_heads}"
        )
        return replace(
            visible,
            draw=partial(of_entities, example, offsets, part, within, weights, detail),
        )

    def _explain(
        self, part: Part, text: str, words: Sequence[tuple[int, int]]
    ) -> Explanation:
        """Return the entities in a part, and the log-probabilities of their first tags.

        Raises:
            InputError: There is no entity.
        """
        tags = self._tags(part)
        entities = find_entities(tags)
        if not entities:
            raise InputError(
                "no entity is predicted, and a gradient explains the tag of one"
            )
        names = []
        for first, last, label in entities:
            start, end = words[part.words[first]][0], words[part.words[last - 1]][1]
            names.append(f"{label}: {text[start:end]}")
        positions = [part.positions[entity.start] for entity in entities]
        indices = [self.labels.index(tags[entity.start]) for entity in entities]
        return names, lambda: select_log_probabilities(
            self._logits(part)[positions], indices
        )

    def _side(self, part: Part, text: str) -> Side:
        """Return the labels of the tokens of a part, special tokens included.

        In brackets a word's tag at its first token.
        """
        tags = self._tags(part)
        return append_tags(
            side(self.tokenizer, part.ids, texts=[text]),
            dict(zip(part.positions, tags, strict=True)),
        )

    @torch.no_grad()
    def _tags(self, part: Part) -> list[str]:
        """Return the most likely tag of each word of a part."""
        return [
            self.labels[tag]
            for tag in self._logits(part)[list(part.positions)].argmax(-1).tolist()
        ]

    def _logits(self, part: Part) -> torch.Tensor:
        """Return the logits of the tags at each position of a part."""
        count = max(part.words, default=-1) + 1
        batch = collate_parts([(part, [0] * count)]).to(self.device)
        return self.model(batch.tokens, batch.lengths)[0]
