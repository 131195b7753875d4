"""Translation into several languages: one encoder with a decoder for each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.data.batches import PairBatch, token_batches
from regard.data.cache import cache_value
from regard.data.pairs import Pair
from regard.data.records import Records
from regard.data.splits import Splits
from regard.data.tokens import Tokenizers, count_together, report_cut
from regard.decoding.texts import limit_of, search_ids, source_ids
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
from regard.tasks.base import Setup, digest
from regard.tasks.multi_target.data import MultiTarget
from regard.tasks.options import (
    SAMPLING,
    SHAPING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
)
from regard.tasks.prediction import GeneratedText, ShortRepr
from regard.tasks.run import Run, output_warnings, text_warnings
from regard.tasks.seq2seq.config import Seq2Seq, TokenizerPair
from regard.tasks.seq2seq.metrics import Scoring
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.tasks.seq2seq.training import (
    Seq2SeqObjective,
    check_search,
    pairs_summary,
    sources_of,
    targets_of,
)
from regard.tasks.summary import join_summaries
from regard.tasks.tokenizers import SOURCE, train_on_examples
from regard.text import Tokenizer
from regard.training.devices import count_parameters
from regard.training.objectives import Carried, Loss
from regard.training.schedules import forcing
from regard.training.settings import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def target_file(language: str) -> str:
    """Return the name of the file with a language's tokenizer."""
    return f"target.{language}.tokenizer.json"


def load_tokenizers(folder: RunDirectory, config: MultiTarget) -> dict[str, Tokenizers]:
    """Load the run's tokenizers by language."""
    source = Tokenizer.load(folder.file(SOURCE))
    return {
        name: Tokenizers(source, Tokenizer.load(folder.file(target_file(name))))
        for name in config.data.names
    }


def build_many(config: MultiTarget, tokenizers: Mapping[str, Tokenizers]) -> OneToMany:
    """Build the model with fresh weights."""
    models = {
        name: build(config.model, *sides.sizes, sides.special)
        for name, sides in tokenizers.items()
    }
    return OneToMany(models)


def average_languages(
    scores: Mapping[str, Mapping[str, float]],
) -> dict[str, float]:
    """Return the mean of each metric, and each language's own as `metric/language`."""
    names = list(next(iter(scores.values())))
    result = {name: fmean(score[name] for score in scores.values()) for name in names}
    for name in names:
        for language, score in scores.items():
            result[f"{name}/{language}"] = score[name]
    return result


@dataclass(frozen=True, repr=False)
class MultiTargetPrediction(ShortRepr):
    """The prediction for a text in each language."""

    predictions: Mapping[str, GeneratedText]

    @property
    def texts(self) -> dict[str, str]:
        """The text in each language."""
        return {
            language: prediction.text
            for language, prediction in self.predictions.items()
        }

    @property
    def text(self) -> str:
        """The lines of all languages."""
        return "\n".join(self.lines())

    @property
    def score(self) -> float:
        """The sum of the log-probabilities."""
        return sum(prediction.score for prediction in self.predictions.values())

    @property
    def finished(self) -> bool:
        """Whether the output is finished in every language."""
        return all(prediction.finished for prediction in self.predictions.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """Always empty: no phrases constrain several languages."""
        return ()

    @property
    def alternatives(self) -> tuple["MultiTargetPrediction", ...]:
        """Always empty: each language has one prediction."""
        return ()

    def lines(self) -> list[str]:
        """Return a line for each language: its name, a tab and the text."""
        texts = self.texts.items()
        return [f"{language}\t{' '.join(text.split())}" for language, text in texts]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        predictions = self.predictions.items()
        return {
            "languages": {
                language: prediction.to_json() for language, prediction in predictions
            }
        }


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

    def __init__(
        self,
        config: MultiTarget,
        model: OneToMany,
        tokenizers: Mapping[str, Tokenizers],
    ):
        self.config, self.model, self.tokenizers = config, model, tokenizers

    @classmethod
    def open(cls, folder: RunDirectory, config: MultiTarget) -> "MultiTargetRun":
        """Open the run in a folder, its model with fresh weights."""
        tokenizers = load_tokenizers(folder, config)
        return cls(config, build_many(config, tokenizers), tokenizers)

    def of(self, language: str) -> Seq2SeqRun:
        """Return the run of one language, which shares its weights with this one.

        Raises:
            InputError: The run has no such language.
        """
        config = self.config
        if language not in config.data.names:
            raise InputError(
                f"{language!r} is not a language of this run; it has "
                f"{', '.join(config.data.names)}"
            )
        alone = Seq2Seq(
            data=config.data.alone(language),
            tokenizers=TokenizerPair(config.source, config.target),
            model=config.model,
            metrics=config.metrics,
            training=config.training,
            search=config.search,
            truncate=config.truncate,
        )
        model = self.model.of(language).eval()
        return Seq2SeqRun(alone, model, self.tokenizers[language])

    def parts(self) -> dict[str, Seq2SeqRun]:
        """Return a run for each language."""
        return {language: self.of(language) for language in self.tokenizers}

    @property
    def _first(self) -> Tokenizers:
        return next(iter(self.tokenizers.values()))

    def warnings(self, text: str) -> list[str]:
        return text_warnings(self._first.source, {"text": text})

    def prediction_warnings(self, prediction: MultiTargetPrediction) -> list[str]:
        warnings: list[str] = []
        for language, text in prediction.texts.items():
            warnings += output_warnings(text, f"the prediction in {language}")
        return warnings

    def cut(self, text: str) -> str:
        return next(iter(self.parts().values())).cut(text)

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
        runs = self.parts()
        longest = self.model.max_source
        truncate = self.config.truncate
        ids, cut = source_ids(longest, self._first, texts, truncate=truncate)
        if limit := limit_of(longest):
            report_cut(limit, cut, len(texts))
        search = options.search(self.config.search)
        hypotheses = search_ids([run.model for run in runs.values()], ids, search)
        attention = options.attention is not False
        outputs = [
            run.predictions(texts, best, attention=attention)
            for run, best in zip(runs.values(), hypotheses, strict=True)
        ]
        return [
            MultiTargetPrediction(dict(zip(runs, row, strict=True)))
            for row in zip(*outputs, strict=True)
        ]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute each language's output to the text, one below another."""
        parts = {
            name: run.attribute(example, options) for name, run in self.parts().items()
        }
        predictions: dict[str, GeneratedText] = {}
        lookups, weights, pieces, first_rows = [], [], [], {}
        for language, part in parts.items():
            assert isinstance(part.prediction, GeneratedText)  # no output is forced
            predictions[language] = part.prediction
            lookups += [replace(lookup, name=language) for lookup in part.lookups]
            weights.append(part.weights.weights)
            first_rows[len(pieces)] = language
            pieces += [show_invisible(piece) for piece in part.weights.target]
        first = next(iter(parts.values()))
        stacked = Alignment(
            np.concatenate(weights), first.weights.source, tuple(pieces)
        )

        def draw(title: str) -> "Figure":
            check_size(len(stacked.source), len(stacked.target), PAGE_REMEDY)
            end = choose_scale_end(stacked.weights)
            return heatmap(stacked, title=title, vmax=end, groups=first_rows)

        return Attribution(
            MultiTargetPrediction(predictions),
            example,
            tuple(lookups),
            stacked,
            options,
            draw=draw,
            detail=first.mean_of_heads,
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
        for name, run in self.parts().items():
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


class MultiTargetObjective:
    """Maximum likelihood of all targets of a source."""

    def __init__(
        self,
        splits: Mapping[str, Splits[Pair]],
        tokenizers: Mapping[str, Tokenizers],
        settings: Training,
        scoring: Scoring,
        *,
        model: OneToMany,
        truncate: bool = False,
    ):
        self.settings = settings
        self.parts = {
            name: Seq2SeqObjective(
                sets,
                tokenizers[name],
                settings,
                scoring,
                model=model.of(name),
                truncate=truncate,
            )
            for name, sets in splits.items()
        }
        self.first = next(iter(self.parts.values()))
        self.metric = self.first.metric
        self.higher_is_better = self.first.higher_is_better
        self.lengths = np.stack([part.lengths for part in self.parts.values()]).max(0)

    def place(self, index: int) -> str:
        """Return the file and line of a source."""
        return self.first.place(index)

    def batches(self, epoch: int) -> Sequence[list[int]]:
        tokens, seed = self.settings.batch_tokens, self.settings.seed
        return token_batches(self.lengths, tokens, seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> ManyBatch:
        parts = self.parts.items()
        return ManyBatch({name: part.batch(epoch, indices) for name, part in parts})

    def loss(
        self,
        model: nn.Module,
        batch: ManyBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, OneToMany)
        first = next(iter(batch.parts.values()))
        features = model.features(
            first.source,
            first.source_lengths,
            {name: part.target_in for name, part in batch.parts.items()},
            forcing(self.settings, update),
        )
        totals, tokens = [], 0
        for name, part in batch.parts.items():
            smoothing = self.settings.label_smoothing
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
    if folder.has(SOURCE) and all(folder.has(target_file(name)) for name in splits):
        tokenizers = load_tokenizers(folder, config)
    else:
        tokenizers = train_tokenizers(config, splits)
    model = build_many(config, tokenizers)
    for name, sides in tokenizers.items():
        check_search(config.search, sides.target.size, model.of(name))
    objective = MultiTargetObjective(
        splits,
        tokenizers,
        config.training,
        Scoring(config.metrics, config.search.with_beam(beam=1)),
        model=model,
        truncate=config.truncate,
    )
    if config.output_bias == "frequencies":
        for name, part in objective.parts.items():
            model.of(name).decoder.output.start_from(part.frequencies())
    first = next(iter(splits.values()))
    files = {SOURCE: next(iter(tokenizers.values())).source}
    for name, sides in tokenizers.items():
        files[target_file(name)] = sides.target
    summaries = [
        pairs_summary(config.data, sets, tokenizers[name], target=name)
        for name, sets in splits.items()
    ]
    return Setup(
        model,
        objective,
        _digest(splits),
        f"{len(first.train):,} sources to train on, {len(first.valid):,} to validate, "
        f"{len(first.test):,} to test, in {', '.join(splits)}; "
        f"{count_parameters(model):,} parameters",
        files,
        {name: sets.test for name, sets in splits.items()} if first.test else {},
        data=join_summaries(summaries),
    )


def train_tokenizers(
    config: MultiTarget, splits: Mapping[str, Splits[Pair]]
) -> dict[str, Tokenizers]:
    """Train the tokenizers on the training texts."""
    first = next(iter(splits.values())).train
    source = train_on_examples(first, config.source, "source", sources_of)
    tokenizers = {}
    for name, sets in splits.items():
        target = train_on_examples(sets.train, config.target, "target", targets_of)
        tokenizers[name] = Tokenizers(source, target)
    return tokenizers


def _digest(splits: Mapping[str, Splits[Pair]]) -> str:
    """Identify the training and validation pairs of all languages."""

    def lines(pairs: Iterable[Pair]) -> Iterable[str]:
        return (f"{pair.source}\0{pair.target}\n" for pair in pairs)

    sets = list(splits.values())
    valid = digest(lines(chain.from_iterable(split.valid for split in sets)))
    pairs = chain.from_iterable(chain(split.train, split.valid) for split in sets)
    name = f"digest {[*splits]} {valid}"
    return cache_value(sets[0].train, name, lambda: digest(lines(pairs)))
