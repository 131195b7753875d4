"""Translation into several languages: one encoder with a decoder for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.data.batches import PairBatch
from regard.data.pairs import Pair
from regard.data.records import Records
from regard.data.tokens import Tokenizers, count_together
from regard.decoding.texts import search_ids
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.models.catalog import build
from regard.models.one_to_many import OneToMany
from regard.pictures.heatmap import heatmap
from regard.pictures.style import choose_scale_end
from regard.pictures.text import show_invisible
from regard.pictures.views import PAGE_REMEDY, check_size
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    Setup,
    TokenBatchObjective,
    check_beam,
    digest,
    setup_task,
)
from regard.tasks.multi_target.data import MultiTarget
from regard.tasks.options import (
    SAMPLING,
    SHAPING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
)
from regard.tasks.prediction import GeneratedText, ShortRepr
from regard.tasks.run import Run, output_warnings
from regard.tasks.seq2seq.config import Seq2Seq, TokenizerPair
from regard.tasks.seq2seq.metrics import Scoring
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.tasks.seq2seq.training import (
    Seq2SeqObjective,
    digest_pairs,
    sources_of,
    summarize_pairs,
    targets_of,
)
from regard.tasks.summary import join_summaries
from regard.tasks.tokenizers import SOURCE, train_on_examples
from regard.text import Tokenizer
from regard.training.objectives import Carried, Loss
from regard.training.schedules import forcing
from regard.training.settings import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ByLanguage = Mapping[str, Tokenizers]


def target_file(language: str) -> str:
    """Return the name of the file with a language's tokenizer."""
    return f"target.{language}.tokenizer.json"


def load_tokenizers(folder: RunDirectory, config: MultiTarget) -> ByLanguage:
    """Load the run's tokenizers by language."""
    source = Tokenizer.load(folder.file(SOURCE))
    tokenizers = {}
    for name in config.data.names:
        target = Tokenizer.load(folder.file(target_file(name)))
        tokenizers[name] = Tokenizers(source, target)
    return tokenizers


def build_many(config: MultiTarget, tokenizers: ByLanguage) -> OneToMany:
    """Build the model with fresh weights."""
    models = {}
    for name, sides in tokenizers.items():
        models[name] = build(config.model, *sides.sizes, sides.special)
    return OneToMany(models)


def average_languages(
    scores: Mapping[str, Mapping[str, float]],
) -> dict[str, float]:
    """Return the mean of each metric, and each language's own as `metric/language`."""
    names = list(next(iter(scores.values())))
    result = {name: fmean(score[name] for score in scores.values()) for name in names}
    return result | {
        f"{name}/{language}": score[name]
        for name in names
        for language, score in scores.items()
    }


@dataclass(frozen=True, repr=False)
class MultiTargetPrediction(ShortRepr):
    """The prediction for a text in each language."""

    predictions: Mapping[str, GeneratedText]

    @property
    def texts(self) -> dict[str, str]:
        """The text in each language."""
        return {name: output.text for name, output in self.predictions.items()}

    @property
    def text(self) -> str:
        """The lines of all languages."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return a line for each language: its name, a tab and the text."""
        texts = self.texts.items()
        return [f"{language}\t{' '.join(text.split())}" for language, text in texts]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        outputs = self.predictions.items()
        return {"languages": {name: output.to_json() for name, output in outputs}}


class MultiTargetRun(Run[str, MultiTargetPrediction]):
    """A trained model with its tokenizers by language. Examples are texts."""

    config: MultiTarget
    model: OneToMany
    supports = {
        "predict": frozenset({"beam", *SAMPLING, *SHAPING, "attention"}),
        "evaluate": frozenset({"files", "beam"}),
        "attribute": frozenset({"beam", "maps", "kinds"}),
    }
    data_hint = "give a table, or a file of each language"

    def __init__(self, config: MultiTarget, model: OneToMany, tokenizers: ByLanguage):
        self.config = config
        self.model = model
        self.tokenizers = tokenizers
        self.runs: dict[str, Seq2SeqRun] = {}
        for name, sides in tokenizers.items():
            alone = Seq2Seq(
                data=config.data.alone(name),
                tokenizers=TokenizerPair(config.source, config.target),
                model=config.model,
                metrics=config.metrics,
                training=config.training,
                search=config.search,
                truncate=config.truncate,
            )
            self.runs[name] = Seq2SeqRun(alone, model.of(name).eval(), sides)
        self.first = next(iter(self.runs.values()))

    @classmethod
    def open(cls, folder: RunDirectory, config: MultiTarget) -> "MultiTargetRun":
        """Open the run in a folder, its model with fresh weights."""
        tokenizers = load_tokenizers(folder, config)
        return cls(config, build_many(config, tokenizers), tokenizers)

    def parts(self) -> dict[str, Seq2SeqRun]:
        """Return a run for each language, which shares its weights with this one."""
        return self.runs

    def warnings(self, text: str) -> list[str]:
        return self.first.warnings(text)

    def prediction_warnings(self, prediction: MultiTargetPrediction) -> list[str]:
        warnings: list[str] = []
        for language, text in prediction.texts.items():
            warnings += output_warnings(text, f"the prediction in {language}")
        return warnings

    def cut(self, text: str) -> str:
        return self.first.cut(text)

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"source": example}

    def read(self, files: Sequence[Path | Records], options: EvaluationOptions) -> Any:
        """Read pairs by language from a table, or files of all sides."""
        return self.config.data.read(files)

    def _predict(
        self, texts: Sequence[str], options: PredictOptions
    ) -> list[MultiTargetPrediction]:
        """Predict every language; each text is encoded once."""
        search = options.search(self.config.search)
        models = [run.model for run in self.runs.values()]
        hypotheses = search_ids(models, self.first.encode_sources(texts), search)
        attention = options.attention is not False
        outputs = [
            run.write_texts(texts, best, attention=attention)
            for run, best in zip(self.runs.values(), hypotheses, strict=True)
        ]
        rows = zip(*outputs, strict=True)
        return [
            MultiTargetPrediction(
                {name: best for name, (best, *_) in zip(self.runs, row, strict=True)}
            )
            for row in rows
        ]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute each language's output to the text, one below another."""
        predictions: dict[str, Any] = {}
        lookups = []
        weights = []
        pieces = []
        groups = {}
        detail = ""
        source: tuple[str, ...] = ()
        for language, run in self.runs.items():
            part = run.attribute(example, options)
            predictions[language] = part.prediction
            lookups += [replace(lookup, name=language) for lookup in part.lookups]
            weights.append(part.weights.weights)
            groups[len(pieces)] = language
            pieces += map(show_invisible, part.weights.target)
            source = part.weights.source
            detail = part.mean_of_heads
        stacked = Alignment(np.concatenate(weights), source, tuple(pieces))

        def draw(title: str) -> "Figure":
            check_size(len(source), len(pieces), PAGE_REMEDY)
            end = choose_scale_end(stacked.weights)
            return heatmap(stacked, title=title, vmax=end, groups=groups)

        prediction = MultiTargetPrediction(predictions)
        tuples = tuple(lookups)
        return Attribution(
            prediction, example, tuples, stacked, options, draw=draw, detail=detail
        )

    def _load_test_set(self, data: Any) -> Mapping[str, Sequence[Pair]]:
        splits = data.load().items()
        return {name: sets.test for name, sets in splits if sets.test}

    def _load_validation_set(self, data: Any) -> Mapping[str, Sequence[Pair]]:
        return {name: sets.valid for name, sets in data.load().items()}

    def compute_metrics(
        self, examples: Mapping[str, Sequence[Pair]], options: EvaluationOptions
    ) -> dict[str, float]:
        """Score pairs by language.

        Raises:
            InputError: There are no pairs for one of the languages.
        """
        for name in self.tokenizers:
            if not examples.get(name):
                raise InputError(
                    f"there are no pairs to score {name} on; name a test set in "
                    "data.test"
                )
        scores: dict[str, dict[str, float]] = {}
        for name, run in self.runs.items():
            # all languages have the same sources, whose cuts are logged once
            with count_together(logged=not scores):
                scores[name] = run.evaluate(examples[name], beam=options.beam)
        return average_languages(scores)


@dataclass(frozen=True)
class ManyBatch:
    """A batch of each language, all with the same sources."""

    parts: Mapping[str, PairBatch]

    def to(self, device: torch.device | str) -> "ManyBatch":
        """Move the batch to a device."""
        return ManyBatch({name: part.to(device) for name, part in self.parts.items()})


class MultiTargetObjective(TokenBatchObjective[Pair, Any]):
    """Maximum likelihood of all targets of a source."""

    def __init__(self, parts: Mapping[str, Seq2SeqObjective], settings: Training):
        """Join objectives by language, whose models share their encoder."""
        self.parts = parts
        first = next(iter(parts.values()))
        self.metric = first.metric
        self.higher_is_better = first.higher_is_better
        lengths = np.stack([part.lengths for part in parts.values()]).max(0)
        super().__init__(first.train, first.valid, settings, lengths, "sources")

    def batch(self, epoch: int, indices: list[int]) -> ManyBatch:
        parts = self.parts.items()
        return ManyBatch({name: part.batch(epoch, indices) for name, part in parts})

    def loss(
        self,
        model: Any,
        batch: ManyBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        first = next(iter(batch.parts.values()))
        features = model.features(
            first.source,
            first.source_lengths,
            {name: part.target_in for name, part in batch.parts.items()},
            forcing(self.settings, update),
        )
        totals = []
        tokens = 0
        smoothing = self.settings.label_smoothing
        for name, part in batch.parts.items():
            output = model.output(name)
            totals.append(output.loss(features[name], part.target_out, smoothing)[0])
            tokens += part.target_tokens
        return Loss(torch.stack(totals).sum(), tokens)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, OneToMany)
        parts = self.parts.items()
        return average_languages(
            {name: part.validate(model.of(name)) for name, part in parts}
        )


def setup(config: MultiTarget, folder: RunDirectory, processes: int) -> Setup:
    """Read the data and build tokenizers, model and objective.

    Raises:
        InputError: The data, the model or the search is invalid.
    """
    splits = config.data.load()
    first = next(iter(splits.values()))
    if folder.has(SOURCE) and all(folder.has(target_file(name)) for name in splits):
        tokenizers = load_tokenizers(folder, config)
    else:
        source = train_on_examples(first.train, config.source, "source", sources_of)
        tokenizers = {}
        for name, sets in splits.items():
            target = train_on_examples(sets.train, config.target, "target", targets_of)
            tokenizers[name] = Tokenizers(source, target)
    model = build_many(config, tokenizers)
    scoring = Scoring(config.metrics, config.search.with_beam(beam=1), config.truncate)
    files = {SOURCE: next(iter(tokenizers.values())).source}
    parts = {}
    summaries = []
    for name, sets in splits.items():
        sides = tokenizers[name]
        alone = model.of(name)
        check_beam(config.search.beam, sides.target.size, "target vocabulary")
        parts[name] = Seq2SeqObjective(
            sets,
            sides,
            config.training,
            scoring,
            model=alone,
        )
        if config.output_bias == "frequencies":
            alone.decoder.output.start_from(parts[name].frequencies())
        files[target_file(name)] = sides.target
        summaries.append(summarize_pairs(config.data, sets, sides, target=name))
    tests = {name: sets.test for name, sets in splits.items()} if first.test else {}
    return setup_task(
        model,
        MultiTargetObjective(parts, config.training),
        first,
        digest(map(digest_pairs, splits.values())),
        join_summaries(summaries),
        details=[f"in {', '.join(splits)}"],
        tokenizers=files,
        tests=tests,
    )
