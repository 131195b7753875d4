"""A trained tagger: `load(folder).predict(texts)`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.attribution.aggregation import text_kinds
from regard.attribution.gradients import select_log_probabilities
from regard.attribution.kinds import Kind
from regard.data.batches import pad_rows
from regard.data.records import Records
from regard.data.tokens import parts_of, side
from regard.errors import InputError
from regard.maps.alignment import Alignment, TextWeights, stack_texts
from regard.metrics import Entity, find_entities
from regard.models.catalog import build_tagger
from regard.pictures.shaded_text import draw_shaded_text
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution, add_ellipses, shade_parts
from regard.tasks.base import Explanation, attribute_tokens
from regard.tasks.class_prediction import log_constant_accuracy
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr, flat
from regard.tasks.run import Run, log, text_warnings
from regard.tasks.tagging.data import Place, Tagged, TaggedFiles, Tagging, word_places
from regard.tasks.tagging.training import (
    Encoder,
    Part,
    choose_tags,
    compute_metrics,
    compute_probabilities,
    warn_cut,
)
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 10
"""Largest number of entities in a figure."""


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

    def lines(self) -> list[str]:
        return [flat(self.text)]

    def to_json(self) -> dict[str, Any]:
        """Return the spans as JSON lines for training have them."""
        return {"spans": [dict(vars(span)) for span in self.spans]}


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
        self.config = config
        self.model = model
        self.tokenizer = tokenizer
        self.labels = tuple(labels)
        assert config.tagger.context is not None  # known once the model is built
        self.encoder = Encoder(tokenizer, config.tagger.context)

    @classmethod
    def open(cls, run: RunDirectory, config: Tagging) -> "TaggingRun":
        """Open the run in a folder, its model with initial weights."""
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        labels = run.read_labels()
        model = build_tagger(config.tagger, tokenizer.size, len(labels))
        return cls(config, model, tokenizer, labels)

    def warnings(self, text: str) -> list[str]:
        return text_warnings(self.tokenizer, {"text": text})

    def prediction_warnings(self, prediction: TagsPrediction) -> list[str]:
        if prediction.spans:
            return []
        return ["no entity is found: every word has the tag O"]

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    @property
    def kinds(self) -> Sequence[Kind]:
        return text_kinds(self.model, self.model.self_attention)

    def description(self) -> dict[str, Any]:
        return super().description() | {
            "kind": "document",
            "model": self.config.tagger.name,
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
        parts = self._encode([(text.text, text.words) for text in examples])
        return compute_metrics(self.model, parts, self.labels, examples)

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[TagsPrediction]:
        words = [word_places(text) for text in examples]
        parts = self._encode(list(zip(examples, words, strict=True)))
        results = compute_probabilities(self.model, parts, list(map(len, words)))
        predictions = []
        for text, places, rows in zip(examples, words, results, strict=True):
            spans = []
            for first, last, label in find_entities(choose_tags(rows, self.labels)):
                start = places[first][0]
                end = places[last - 1][1]
                probability = float(rows[first:last].amax(-1).prod())
                spans.append(Span(start, end, label, text[start:end], probability))
            predictions.append(TagsPrediction(text, tuple(spans)))
        return predictions

    def _encode(self, texts: Sequence[tuple[str, Sequence[Place]]]) -> list[list[Part]]:
        """Return the parts of texts, and log how many words are cut."""
        parts = [self.encoder.parts(text, words) for text, words in texts]
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
        part = self.encoder.parts(example, words)[0]
        positions = list(part.positions)
        with torch.no_grad():
            logits = self._logits(part)[positions]
        tags = [self.labels[index] for index in logits.argmax(-1).tolist()]
        entities = find_entities(tags)

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
            indices = [self.labels.index(tags[first]) for first in firsts]
            return names, lambda: select_log_probabilities(
                self._logits(part)[[positions[first] for first in firsts]], indices
            )

        labels = side(self.tokenizer, part.ids, texts=[example])
        lookups, weights = attribute_tokens(
            self.model, labels, lambda: self._logits(part), explain, options
        )
        attribution = Attribution(
            prediction, prediction.text, (lookups,), weights, options, has_heads=True
        )
        if not entities:
            detail = f"no entity found; {attribution.mean_of_heads}"
            return replace(attribution, detail=detail)
        detail = f"what each entity reads: {attribution.mean_of_heads}"
        if options.kinds:
            detail = "the text once for each entity"
        if len(entities) > DRAWN:
            detail += f"\nthe first {DRAWN} of {len(entities)} entities"
        shades = shade_entities(
            example, self.tokenizer.offsets(example), part, entities[:DRAWN], weights
        )

        def draw(title: str) -> "Figure":
            return draw_shaded_text(shades, title=f"{title}\n{detail}")

        return replace(attribution, draw=draw)

    def _logits(self, part: Part) -> torch.Tensor:
        """Return the logits of the tags at each position of a part."""
        tokens, lengths = pad_rows([part.ids])
        return self.model(tokens.to(self.device), lengths.to(self.device))[0]


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
    visible = add_ellipses(words, after=count < len(offsets))
    texts = []
    for number, (first, last, label) in enumerate(entities):
        positions = part.positions[first:last]
        is_square = len(weights.target) == len(part.ids)
        rows = weights.weights[list(positions) if is_square else [number]]
        read = shade_parts([visible], [rows.mean(0)[1 : 1 + count]], "the entity")
        framed = {1 + words.indices[position - 1] for position in positions}
        texts.append(
            replace(
                read,
                labels=(f"{label}:", *read.labels),
                weights=np.concatenate([np.zeros(1), read.weights]),
                texts=(0, *read.texts),
                glued=(False, *read.glued),
                framed=frozenset(framed),
            )
        )
    return stack_texts(texts)
