"""Translation into several languages: one encoder with a decoder for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from regard.data.batches import Batch, PairBatch
from regard.data.pairs import Multiparallel, Pair, PairsByLanguage
from regard.data.tokens import Tokenizers, count_together
from regard.decoding.search import Search
from regard.decoding.texts import search_ids
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.metrics import Metrics
from regard.models.catalog import ModelConfig
from regard.models.one_to_many import OneToMany
from regard.nn.decoders import EncoderDecoder
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import SOURCE, Setup, TokenBatchObjective, digest, setup_task
from regard.tasks.options import (
    SEARCHING,
    AttributionOptions,
    EvaluationOptions,
    GeneratedText,
    Json,
    PredictOptions,
    ShortRepr,
)
from regard.tasks.run import Run, Task
from regard.tasks.seq2seq.run import (
    MetricName,
    Seq2Seq,
    Seq2SeqRun,
    TokenizerPair,
    build_model,
)
from regard.tasks.seq2seq.training import (
    Seq2SeqObjective,
    setup_pairs,
    train_tokenizers,
)
from regard.tasks.summary import join_summaries
from regard.text import Tokenizer, TokenizerSettings
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training

TARGET = "target.{}.tokenizer.json"
"""The name of the file with a language's tokenizer."""
ByLanguage = Mapping[str, Tokenizers]


@dataclass(frozen=True, kw_only=True)
class MultiTarget:
    """The run file of translation into several languages."""

    task: Literal["multi-target"] = "multi-target"
    data: Multiparallel
    source: TokenizerSettings
    """The tokenizer of the source."""
    target: TokenizerSettings
    """The tokenizer of each language."""
    model: ModelConfig
    """The encoder, and the decoder of each language."""
    metrics: tuple[MetricName, ...]
    """Metrics of each language; the mean of the first one chooses the best weights."""
    training: Training = field(default_factory=Training)
    search: Search = field(default_factory=Search)
    truncate: bool = False
    """Cut texts that are longer than the model takes, instead of refusing them."""
    output_bias: Literal["zeros", "frequencies"] = "zeros"
    """The initial output bias: zeros, or the logarithm of each token's frequency."""

    def __post_init__(self) -> None:
        if self.model.shared or self.model.one_tokenizer:
            raise ValueError(
                f"{self.model.name} needs one vocabulary; set model.shared to false"
            )
        self.alone(self.data.names[0])  # refuses what no single language can have

    def alone(self, language: str) -> Seq2Seq:
        """Return the run file of one language."""
        settings = vars(self) | {"task": "seq2seq", "data": self.data.alone(language)}
        sides = TokenizerPair(settings.pop("source"), settings.pop("target"))
        return Seq2Seq(tokenizers=sides, **settings)


def load_tokenizers(folder: RunDirectory, config: MultiTarget) -> ByLanguage:
    """Load the run's tokenizers by language."""
    source = Tokenizer.load(folder.file(SOURCE))
    return {
        name: Tokenizers(source, Tokenizer.load(folder.file(TARGET.format(name))))
        for name in config.data.names
    }


def average_languages(scores: Mapping[str, Mapping[str, float]]) -> Metrics:
    """Return the mean of each metric, and each language's as `metric/language`."""
    metrics = next(iter(scores.values()))
    means = {name: fmean(s[name] for s in scores.values()) for name in metrics}
    return means | {f"{n}/{lang}": s[n] for n in metrics for lang, s in scores.items()}


@dataclass(frozen=True, repr=False)
class MultiTargetPrediction(ShortRepr):
    """The prediction for a text in each language."""

    predictions: Mapping[str, GeneratedText]

    @property
    def text(self) -> str:
        """The lines of all languages."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return a line for each language: its name, a tab and the text."""
        outputs = self.predictions.items()
        return [f"{name}\t{' '.join(output.text.split())}" for name, output in outputs]

    def to_json(self) -> Json:
        """Return plain values for JSON."""
        outputs = self.predictions.items()
        return {"languages": {name: output.to_json() for name, output in outputs}}


class MultiTargetRun(Run[str, MultiTargetPrediction]):
    """A trained model with its tokenizers by language. Examples are texts."""

    config: MultiTarget
    model: OneToMany
    supports = {
        "predict": (*SEARCHING, "beam", "attention"),
        "evaluate": ("files", "beam"),
        "attribute": ("beam", "maps", "kinds"),
    }

    def __init__(self, config: MultiTarget, model: OneToMany, tokenizers: ByLanguage):
        self.config = config
        self.model = model
        self.runs = {
            name: Seq2SeqRun(config.alone(name), model.of(name).eval(), sides)
            for name, sides in tokenizers.items()
        }
        self.first = next(iter(self.runs.values()))

    @classmethod
    def open(cls, folder: RunDirectory, config: MultiTarget) -> "MultiTargetRun":
        """Open the run in a folder, its model with initial weights."""
        tokenizers = load_tokenizers(folder, config)
        models = {
            name: build_model(config.model, sides) for name, sides in tokenizers.items()
        }
        return cls(config, OneToMany(models), tokenizers)

    def parts(self) -> dict[str, Seq2SeqRun]:
        """Return a run for each language, which shares its weights with this one."""
        return self.runs

    def warnings(self, text: str) -> list[str]:
        return self.first.warnings(text)

    def cut(self, text: str) -> str:
        return self.first.cut(text)

    def record(self, example: str) -> Json:
        return self.first.record(example)

    def read(self, files: Sequence[Any], options: EvaluationOptions) -> PairsByLanguage:
        return self.config.data.read(files)

    def _predict(
        self, texts: Sequence[str], options: PredictOptions
    ) -> list[MultiTargetPrediction]:
        """Predict every language; each text is encoded once."""
        runs = self.runs.values()
        search = options.search(self.config.search)
        ids = self.first.encode_sources(texts)
        hypotheses = search_ids([run.model for run in runs], ids, search)
        attention = options.attention is not False
        outputs = []
        for run, results in zip(runs, hypotheses, strict=True):
            groups = run.write_texts(texts, results, attention=attention)
            outputs.append([best for best, *_ in groups])
        return [
            MultiTargetPrediction(dict(zip(self.runs, row, strict=True)))
            for row in zip(*outputs, strict=True)
        ]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute each language's output to the text, one below another."""
        runs = self.runs.items()
        results: Any = {name: run.attribute(example, options) for name, run in runs}
        predictions = {name: part.prediction for name, part in results.items()}
        lookups = []
        pieces = []
        for name, part in results.items():
            lookups += [replace(lookup, name=name) for lookup in part.lookups]
            pieces += [f"{name}: {piece}" for piece in part.weights.target]
        first = next(iter(results.values()))
        weights = np.concatenate([part.weights.weights for part in results.values()])
        return replace(
            first,
            prediction=MultiTargetPrediction(predictions),
            lookups=tuple(lookups),
            weights=Alignment(weights, first.weights.source, tuple(pieces)),
            detail=first.mean_of_heads,
            has_heads=False,
        )

    def _load_validation_set(self, data: Multiparallel) -> PairsByLanguage:
        return {name: sets.valid for name, sets in data.load().items()}

    def compute_metrics(
        self, examples: PairsByLanguage, options: EvaluationOptions
    ) -> Metrics:
        """Return the metrics of pairs by language.

        Raises:
            InputError: There are no pairs for one of the languages.
        """
        scores: dict[str, Metrics] = {}
        for name, run in self.runs.items():
            if not examples.get(name):
                raise InputError(
                    f"there are no pairs to score {name} on; name a test set in data.test"
                )
            # all languages have the same sources, whose cuts are logged once
            with count_together(logged=not scores):
                scores[name] = run.evaluate(examples[name], beam=options.beam)
        return average_languages(scores)


@dataclass(frozen=True, repr=False)
class ManyBatch(Batch):
    """A batch of each language, all with the same sources."""

    parts: Mapping[str, PairBatch]


class MultiTargetObjective(TokenBatchObjective[Pair, ManyBatch]):
    """Maximum likelihood of all targets of a source."""

    def __init__(self, parts: Mapping[str, Seq2SeqObjective]):
        """Join objectives by language, whose models share their encoder."""
        first = next(iter(parts.values()))
        self.parts = parts
        self.metric = first.metric
        self.higher_is_better = first.higher_is_better
        lengths = np.stack([part.lengths for part in parts.values()]).max(0)
        super().__init__(first.train, first.valid, first.settings, lengths, "sources")

    def batch(self, epoch: int, indices: list[int]) -> ManyBatch:
        parts = self.parts.items()
        return ManyBatch({name: part.batch(epoch, indices) for name, part in parts})

    def loss(
        self, model: Any, batch: ManyBatch, update: int, carried: Carried | None = None
    ) -> Loss:
        first = next(iter(batch.parts.values()))
        memory = model.encoder(first.source, first.source_lengths)
        totals = []
        for name, part in self.parts.items():
            reader = EncoderDecoder(nn.Identity(), model.of(name).decoder)
            inputs = (memory,), batch.parts[name], self.settings, update
            totals.append(part.attention_loss.of(reader, *inputs))
        tokens = sum(part.target_tokens for part in batch.parts.values())
        return Loss(torch.stack(totals).sum(), tokens)

    def validate(self, model: Any) -> Metrics:
        parts = self.parts.items()
        scores = {name: part.validate(model.of(name)) for name, part in parts}
        return average_languages(scores)


def setup(config: MultiTarget, folder: RunDirectory, processes: int) -> Setup:
    """Read the data and build tokenizers, model and objective.

    Raises:
        InputError: The data, the model or the search is invalid.
    """
    splits = config.data.load()
    files = {name: TARGET.format(name) for name in splits}
    if all(map(folder.has, (SOURCE, *files.values()))):
        tokenizers = load_tokenizers(folder, config)
    else:
        tokenizers = {
            name: train_tokenizers(config.alone(name), sets.train)
            for name, sets in splits.items()
        }
    parts: Json = {
        name: setup_pairs(config.alone(name), config.data, sets, tokenizers[name], name)
        for name, sets in splits.items()
    }
    targets = {files[name]: sides.target for name, sides in tokenizers.items()}
    first = next(iter(splits))
    return setup_task(
        OneToMany({name: part.model for name, part in parts.items()}),
        MultiTargetObjective({name: part.objective for name, part in parts.items()}),
        splits[first],
        digest(part.digest for part in parts.values()),
        join_summaries([part.data for part in parts.values()]),
        details=[f"in {', '.join(splits)}"],
        tokenizers={SOURCE: tokenizers[first].source, **targets},
        tests={name: sets.test for name, sets in splits.items() if sets.test},
    )


TASK = Task(MultiTarget, setup, MultiTargetRun, command="regard predict {} TEXT")
