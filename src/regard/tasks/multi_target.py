"""Translation into several languages: one encoder with a decoder for each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import nn

from regard.data.batches import Batch, PairBatch
from regard.data.pairs import Pair, Parallel, Table
from regard.data.records import Records
from regard.data.splits import HeldOut, Splits
from regard.data.tables import Tabular
from regard.data.tokens import Tokenizers, count_together
from regard.decoding.search import Search
from regard.decoding.texts import search_ids
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.models.bahdanau import BahdanauConfig
from regard.models.bottleneck import BottleneckConfig
from regard.models.catalog import build
from regard.models.luong import LuongConfig
from regard.models.one_pass import OnePassConfig
from regard.models.one_to_many import OneToMany
from regard.models.transformer import TransformerConfig
from regard.nn.decoders import EncoderDecoder
from regard.pictures.canvas import choose_scale_end
from regard.pictures.heatmap import heatmap
from regard.pictures.text import show_invisible
from regard.pictures.views import PAGE_REMEDY, check_size
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    SOURCE,
    Setup,
    TokenBatchObjective,
    digest,
    setup_task,
    train_on_examples,
)
from regard.tasks.options import (
    SAMPLING,
    SHAPING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
)
from regard.tasks.prediction import GeneratedText, ShortRepr
from regard.tasks.run import LazyTask, Run, output_warnings
from regard.tasks.seq2seq.config import MetricName, Seq2Seq, TokenizerPair
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.tasks.seq2seq.training import (
    Seq2SeqObjective,
    setup_pairs,
    sources_of,
    targets_of,
)
from regard.tasks.summary import join_summaries
from regard.text import Tokenizer, TokenizerSettings
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training, forcing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASK = LazyTask(
    __name__,
    ":MultiTarget",
    ":setup",
    ":MultiTargetRun",
    command="regard predict {} TEXT",
)
TARGET = "target.{}.tokenizer.json"
"""The name of the file with a language's tokenizer."""
Files = str | tuple[str, ...]
"""A table, or files of the source and each language; an empty tuple is none."""
ByLanguage = Mapping[str, Tokenizers]
PairsByLanguage = Mapping[str, Sequence[Pair]]


@dataclass(frozen=True, kw_only=True)
class Multiparallel(HeldOut, Tabular):
    """Texts in several languages: for each set files aligned by line, or a table.

    A language is named by its column: by the last part of a key in JSON, or by its
    number. Without `valid`, rows of the training set are held out.
    """

    kind: Literal["multiparallel"] = "multiparallel"
    languages: tuple[str | int, ...]
    """The columns of a table, by name or number from 1, or names for the files."""
    train: Files = ()
    """A table, or the source's file and one for each of `languages` in their order."""
    valid: Files = ()
    test: Files = ()
    source: str | int = "source"
    """The column of the source in a table, or its number from 1."""

    def __post_init__(self) -> None:
        names = self.names
        if not names or len(set(names)) < len(names):
            raise InputError(
                f"multiparallel: languages are {', '.join(names) or 'none'}; name each "
                "once"
            )
        for name in names:
            if not re.fullmatch(r"[^\W_][\w-]*", name):
                raise InputError(
                    f"multiparallel: languages has {name!r}, which is no language's "
                    "name; use letters, digits, hyphens and underscores"
                )
        for key in ("train", "valid", "test"):
            self._check_count(key, getattr(self, key))
        if self.skip_bad:
            raise InputError(
                "multiparallel: skip_bad would leave a row out of some languages only; "
                "correct the bad rows"
            )

    def _check_count(self, key: str, files: Files) -> None:
        """Raise InputError for files that are neither a table nor one a side."""
        expected = len(self.names) + 1
        if files and not isinstance(files, str) and len(files) != expected:
            raise InputError(
                f"multiparallel: {key} has {len(files)} files; expected {expected}, the "
                "source's and one for each language, or one table"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the languages."""
        return tuple(str(name).rpartition(".")[2] for name in self.languages)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of a table."""
        targets = {f"languages[{n}]": name for n, name in enumerate(self.languages)}
        return {"source": self.source} | targets

    def load(self) -> dict[str, Splits[Pair]]:
        """Read pairs by language, all with the same sources.

        Raises:
            InputError: A record is invalid; it names file and line.
        """
        if not self.train:
            files = ", ".join(["SOURCE", *map(str.upper, self.names)])
            raise InputError(
                "data.train is not given; expected a table, or files as "
                f"--set 'data.train=[{files}]'"
            )
        if isinstance(self.train, str):  # check the columns under their own keys
            next(self.stream_rows(self.train, self.columns))
        return {name: self.alone(name).load() for name in self.names}

    def read(self, files: Sequence[Path | Records]) -> PairsByLanguage:
        """Read the pairs by language of other files, or of a table.

        Raises:
            InputError: A record is invalid; it names file and line.
        """
        paths = tuple(map(str, files))
        test = paths[0] if len(paths) == 1 else paths
        self._check_count("evaluation", test)
        data = replace(self, train=(), valid=(), test=test)
        return {name: data.alone(name).tests() for name in self.names}

    def alone(self, language: str) -> Parallel | Table:
        """Return the data section of one language."""
        index = self.names.index(language)
        sets: dict[str, Any] = {}
        for key in ("train", "valid", "test"):
            files = getattr(self, key)
            if isinstance(files, str):
                sets[key] = files
            elif files:
                sets[key] = (files[0], files[index + 1])
        sets |= {"held_out": self.held_out, "split_seed": self.split_seed}
        if not isinstance(self.train or self.test, str):
            return Parallel(**sets)
        return Table(
            source=self.source,
            target=self.languages[index],
            delimiter=self.delimiter,
            quoting=self.quoting,
            **sets,
        )


@dataclass(frozen=True, kw_only=True)
class MultiTarget:
    """The run file of translation into several languages."""

    task: Literal["multi-target"] = "multi-target"
    data: Multiparallel
    source: TokenizerSettings
    """The tokenizer of the source."""
    target: TokenizerSettings
    """The tokenizer of each language."""
    model: (
        BahdanauConfig
        | LuongConfig
        | BottleneckConfig
        | OnePassConfig
        | TransformerConfig
    )
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
        if not self.metrics:
            raise ValueError("`metrics` is empty; name at least one")
        if self.model.shared:
            raise ValueError(
                "model.shared needs one vocabulary, but each language has its own; set "
                "it to false"
            )

    def alone(self, language: str) -> Seq2Seq:
        """Return the run file of one language."""
        return Seq2Seq(
            data=self.data.alone(language),
            tokenizers=TokenizerPair(self.source, self.target),
            model=self.model,
            metrics=self.metrics,
            training=self.training,
            search=self.search,
            truncate=self.truncate,
            output_bias=self.output_bias,
        )


def load_tokenizers(folder: RunDirectory, config: MultiTarget) -> ByLanguage:
    """Load the run's tokenizers by language."""
    source = Tokenizer.load(folder.file(SOURCE))
    return {
        name: Tokenizers(source, Tokenizer.load(folder.file(TARGET.format(name))))
        for name in config.data.names
    }


def build_many(config: MultiTarget, tokenizers: ByLanguage) -> OneToMany:
    """Build the model with fresh weights."""
    return OneToMany(
        {
            name: build(config.model, *sides.sizes, sides.special)
            for name, sides in tokenizers.items()
        }
    )


def average_languages(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric, and each language's as `metric/language`."""
    means = {}
    parts = {}
    for name in next(iter(scores.values())):
        means[name] = fmean(score[name] for score in scores.values())
        for language, score in scores.items():
            parts[f"{name}/{language}"] = score[name]
    return means | parts


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
        self.runs = {
            name: Seq2SeqRun(config.alone(name), model.of(name).eval(), sides)
            for name, sides in tokenizers.items()
        }
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

    def cut(self, text: str) -> str:
        return self.first.cut(text)

    def prediction_warnings(self, prediction: MultiTargetPrediction) -> list[str]:
        warnings: list[str] = []
        for language, text in prediction.texts.items():
            warnings += output_warnings(text, f"the prediction in {language}")
        return warnings

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
        rows: list[dict[str, GeneratedText]] = [{} for _ in texts]
        for (name, run), results in zip(self.runs.items(), hypotheses, strict=True):
            outputs = run.write_texts(texts, results, attention=attention)
            for row, (best, *_) in zip(rows, outputs, strict=True):
                row[name] = best
        return list(map(MultiTargetPrediction, rows))

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """Attribute each language's output to the text, one below another."""
        lookups = []
        pieces: list[str] = []
        groups = {}
        parts = {
            name: run.attribute(example, options) for name, run in self.runs.items()
        }
        for language, part in parts.items():
            lookups += [replace(lookup, name=language) for lookup in part.lookups]
            groups[len(pieces)] = language
            pieces += map(show_invisible, part.weights.target)
        first = next(iter(parts.values()))
        source = first.weights.source
        weights = np.concatenate([part.weights.weights for part in parts.values()])
        stacked = Alignment(weights, source, tuple(pieces))
        predictions: dict[str, Any] = {
            language: part.prediction for language, part in parts.items()
        }

        def draw(title: str) -> "Figure":
            check_size(len(source), len(pieces), PAGE_REMEDY)
            end = choose_scale_end(stacked.weights)
            return heatmap(stacked, title=title, vmax=end, groups=groups)

        return Attribution(
            MultiTargetPrediction(predictions),
            example,
            tuple(lookups),
            stacked,
            options,
            draw=draw,
            detail=first.mean_of_heads,
        )

    def _load_test_set(self, data: Multiparallel) -> PairsByLanguage:
        splits = data.load().items()
        return {name: sets.test for name, sets in splits if sets.test}

    def _load_validation_set(self, data: Multiparallel) -> PairsByLanguage:
        return {name: sets.valid for name, sets in data.load().items()}

    def compute_metrics(
        self, examples: PairsByLanguage, options: EvaluationOptions
    ) -> dict[str, float]:
        """Score pairs by language.

        Raises:
            InputError: There are no pairs for one of the languages.
        """
        scores: dict[str, dict[str, float]] = {}
        for name, run in self.runs.items():
            if not examples.get(name):
                raise InputError(
                    f"there are no pairs to score {name} on; name a test set in "
                    "data.test"
                )
            # all languages have the same sources, whose cuts are logged once
            with count_together(logged=not scores):
                scores[name] = run.evaluate(examples[name], beam=options.beam)
        return average_languages(scores)


@dataclass(frozen=True, repr=False)
class ManyBatch(Batch):
    """A batch of each language, all with the same sources."""

    parts: Mapping[str, PairBatch]


class MultiTargetObjective(TokenBatchObjective[Pair, Any]):
    """Maximum likelihood of all targets of a source."""

    def __init__(self, parts: Mapping[str, Seq2SeqObjective], settings: Training):
        """Join objectives by language, whose models share their encoder."""
        self.parts = parts
        first = next(iter(parts.values()))
        self.metric = first.metric
        self.higher_is_better = first.higher_is_better
        lengths = np.stack([part.lengths for part in parts.values()]).max(0)
        super().__init__(
            first.train,
            first.valid,
            settings,
            lengths,
            "sources",
        )

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
        memory = model.encoder(first.source, first.source_lengths)
        share = forcing(self.settings, update)
        totals = []
        smoothing = self.settings.label_smoothing
        for name, part in batch.parts.items():
            decoder = model.of(name).decoder
            reader = EncoderDecoder(nn.Identity(), decoder)
            features = reader.features(memory, part.target_in, forcing=share)
            loss, _ = decoder.output.loss(features, part.target_out, smoothing)
            totals.append(loss)
        tokens = sum(part.target_tokens for part in batch.parts.values())
        return Loss(torch.stack(totals).sum(), tokens)

    def validate(self, model: Any) -> dict[str, float]:
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
    files = {name: TARGET.format(name) for name in splits}
    if all(map(folder.has, (SOURCE, *files.values()))):
        tokenizers = load_tokenizers(folder, config)
    else:
        source = train_on_examples(first.train, config.source, "source", sources_of)
        tokenizers = {}
        for name, sets in splits.items():
            target = train_on_examples(sets.train, config.target, "target", targets_of)
            tokenizers[name] = Tokenizers(source, target)
    parts = {
        name: setup_pairs(
            config.alone(name),
            config.data,
            sets,
            tokenizers[name],
            name,
        )
        for name, sets in splits.items()
    }
    summaries: Any = [part.data for part in parts.values()]
    models: Any = {name: part.model for name, part in parts.items()}
    objectives: Any = {name: part.objective for name, part in parts.items()}
    targets = {files[name]: sides.target for name, sides in tokenizers.items()}
    return setup_task(
        OneToMany(models),
        MultiTargetObjective(objectives, config.training),
        first,
        digest(part.digest for part in parts.values()),
        join_summaries(summaries),
        details=[f"in {', '.join(splits)}"],
        tokenizers={SOURCE: next(iter(tokenizers.values())).source, **targets},
        tests={name: sets.test for name, sets in splits.items() if sets.test},
    )
