"""A trained tagger: `load(folder).predict(texts)`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.attribution.aggregation import single_map
from regard.attribution.available import kinds_within
from regard.attribution.gradients import log_probabilities_of
from regard.attribution.kinds import Kind
from regard.attribution.self_attention import attribute_within, contributed
from regard.data.memory import Records
from regard.data.token_words import side
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, beside
from regard.maps.words import Words
from regard.metrics.entities import OUTSIDE, entities
from regard.models.catalog import build_tagger
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.class_prediction import report_constant
from regard.tasks.evaluation import for_evaluation
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr, flat
from regard.tasks.run import Run, text_warnings
from regard.tasks.tagging.config import Tagging
from regard.tasks.tagging.data import Tagged, word_places
from regard.tasks.tagging.figure import of_entities
from regard.tasks.tagging.parts import Part, collate_parts
from regard.tasks.tagging.training import Encoder, chosen_tags, metrics, probabilities
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer


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
        found, last = "", 0
        for each in self.spans:
            found += f"{self.source[last : each.start]}[{each.text} {each.label}]"
            last = each.end
        return found + self.source[last:]

    def lines(self) -> list[str]:
        """The text with its spans, on one line."""
        return [flat(self.text)]

    def to_json(self) -> dict[str, Any]:
        """The spans, as they are read in JSON lines."""
        return {"spans": [dict(vars(each)) for each in self.spans]}


def tagged(read: Side, tags: Mapping[int, str]) -> Side:
    """Tokens and their words with the tags of tokens, by position, in brackets; `O` is left out."""
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
    """A label with its tags, if it has some."""
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
    def open(cls, run: RunDirectory, config: Tagging) -> "TaggingRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged file."""
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
        """The line."""
        return line

    @property
    def kinds(self) -> Sequence[Kind]:
        return kinds_within(self.model, self.model.self_attention)

    def description(self) -> dict[str, Any]:
        found = {label for _, _, label in entities(self.labels)}
        return super().description() | {
            "kind": "document", "model": self.config.tagger.name, "classes": sorted(found)
        }  # fmt: skip

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Tagged]:
        """The texts of files like the run's own. Raises InputError as `TaggedFiles.read`."""
        own, names = self.config.data, options.columns
        sections = (
            (own.with_columns(names, str(file), skip_bad=options.skip_bad), str(file))
            for file in files
        )
        return [each for data, path in sections for each in data.read(path)]

    def _evaluate(
        self, examples: Sequence[Tagged] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """F1, precision and recall of entities, and accuracy of tags, in per cent. Raises InputError if there are
        neither examples nor a test set."""
        texts = for_evaluation(
            examples, self.config.data, "give a file of tagged words"
        )
        self.encoder.report_long((each.text, each.words) for each in texts)
        report_constant(Counter(tag for each in texts for tag in each.tags))
        with guarded(self.model):
            return metrics(self.model, self.encoder, self.labels, texts)

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[TagsPrediction]:
        """The spans of each text."""
        words = [word_places(text) for text in examples]
        self.encoder.report_long(zip(examples, words, strict=True))
        cut = [
            self.encoder.parts(text, places)
            for text, places in zip(examples, words, strict=True)
        ]
        with guarded(self.model):
            found = probabilities(self.model, cut, [len(each) for each in words])
        return [
            TagsPrediction(text, tuple(self._spans(text, places, shares)))
            for text, places, shares in zip(examples, words, found, strict=True)
        ]

    def _spans(
        self, text: str, words: Sequence[tuple[int, int]], shares: torch.Tensor
    ) -> list[Span]:
        best = shares.amax(-1).tolist() if len(words) else []
        found = []
        for first, last, label in entities(chosen_tags(shares, self.labels)):
            start, end = words[first][0], words[last - 1][1]
            found.append(
                Span(
                    start,
                    end,
                    label,
                    text[start:end],
                    float(torch.tensor(best[first:last]).prod()),
                )
            )
        return found

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
        with guarded(self.model):
            found = [
                self._kind(part, example, words, kind, options.maps)
                for kind in options.each_kind()
            ]
            within = entities(self._tags(part))
        lookups, weights = beside(*(each for each, _ in found)), found[0][1]
        shown = Attribution(
            prediction, prediction.text, (lookups,), weights, options, has_heads=True
        )
        if not within:
            return replace(shown, detail=f"no entity found; {shown.mean_of_heads}")
        offsets = self.tokenizer.offsets(example)
        detail = (
            "the text once for each entity"
            if options.kinds
            else f"what each entity reads: {shown.mean_of_heads}"
        )
        return replace(
            shown,
            draw=partial(of_entities, example, offsets, part, within, weights, detail),
        )

    def _kind(
        self,
        part: Part,
        text: str,
        words: Sequence[tuple[int, int]],
        kind: Kind,
        maps: Sequence[int] | None,
    ) -> tuple[Lookups, Alignment]:
        """One kind of attribution: every layer and head, and the one map of those chosen."""
        if kind == "gradient":
            gradient = self._gradient(part, text, words, maps)
            return single_map(gradient, kind), gradient
        names, read = self.model.self_attention, self._side(part, text)
        return attribute_within(
            self.model, names, read, lambda: self._logits(part), maps, kind=kind
        )

    def _gradient(
        self,
        part: Part,
        text: str,
        words: Sequence[tuple[int, int]],
        maps: Sequence[int] | None,
    ) -> Alignment:
        """A row for each entity in the part. Raises InputError where there is none."""
        tags = self._tags(part)
        found = entities(tags)
        if not found:
            raise InputError(
                "no entity is predicted, and a gradient explains the tag of one"
            )
        names = []
        for first, last, label in found:
            start, end = words[part.words[first]][0], words[part.words[last - 1]][1]
            names.append(f"{label}: {text[start:end]}")
        places = [part.positions[each.start] for each in found]
        chosen = [self.labels.index(tags[each.start]) for each in found]
        return contributed(
            self.model,
            self._side(part, text).pieces,
            names,
            lambda: log_probabilities_of(self._logits(part)[places], chosen),
            maps,
        )

    def _side(self, part: Part, text: str) -> Side:
        """The labels of the tokens of a part, special tokens included; in brackets a word's tag at its first token."""
        tags = self._tags(part)
        return tagged(
            side(self.tokenizer, part.ids, texts=[text]),
            dict(zip(part.positions, tags, strict=True)),
        )

    @torch.no_grad()
    def _tags(self, part: Part) -> list[str]:
        """The most likely tag of each word of a part."""
        return [
            self.labels[tag]
            for tag in self._logits(part)[list(part.positions)].argmax(-1).tolist()
        ]

    def _logits(self, part: Part) -> torch.Tensor:
        """The logits of the tags at each position of a part."""
        count = max(part.words, default=-1) + 1
        batch = collate_parts([(part, [0] * count)]).to(
            next(self.model.parameters()).device
        )
        return self.model(batch.tokens, batch.lengths)[0]
