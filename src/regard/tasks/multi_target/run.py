"""A trained model of translation into several languages: `load(folder).predict(texts)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.memory import Records
from regard.data.pair import Pair
from regard.data.tokenizer_pair import Tokenizers
from regard.data.truncation import counted_together, report_cut
from regard.decoding.texts import limit_of, search_ids, source_ids
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.models.catalog import build
from regard.models.one_to_many import OneToMany
from regard.nonfinite import guarded
from regard.pictures.heatmap import heatmap
from regard.pictures.labels import visible
from regard.pictures.scale import whole_or_greatest
from regard.pictures.views import WHOLE, check_size
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.evaluation import for_evaluation
from regard.tasks.multi_target.config import MultiTarget
from regard.tasks.multi_target.training import of_all
from regard.tasks.options import (
    SAMPLING,
    SHAPING,
    AttributionOptions,
    EvaluationOptions,
    PredictOptions,
)
from regard.tasks.prediction import ShortRepr
from regard.tasks.run import Run, output_warnings, text_warnings
from regard.tasks.seq2seq.config import Seq2Seq, TokenizerPair
from regard.tasks.seq2seq.prediction import Prediction
from regard.tasks.seq2seq.run import Seq2SeqRun
from regard.tasks.tokenizer_file import SOURCE
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _of_search(prediction: object) -> Prediction:
    assert isinstance(prediction, Prediction)  # no output is forced
    return prediction


def _apart(below: Alignment, languages: Mapping[int, str], title: str) -> "Figure":
    """The map with the languages by their first rows. Raises InputError for one that is too large."""
    check_size(len(below.source), len(below.target), WHOLE)
    return heatmap(
        below, title=title, most=whole_or_greatest(below.weights), groups=languages
    )


def target_file(language: str) -> str:
    """The file that keeps a language's tokenizer."""
    return f"target.{language}.tokenizer.json"


def load_tokenizers(run: RunDirectory, config: MultiTarget) -> dict[str, Tokenizers]:
    """The run's tokenizers. Raises InputError for a file that is damaged or not a tokenizer."""
    source = Tokenizer.load(run.file(SOURCE))
    return {
        name: Tokenizers(source, Tokenizer.load(run.file(target_file(name))))
        for name in config.data.names
    }


def build_many(config: MultiTarget, tokenizers: Mapping[str, Tokenizers]) -> OneToMany:
    """The model, with fresh weights."""
    return OneToMany(
        {
            name: build(config.model, *each.sizes, each.special)
            for name, each in tokenizers.items()
        }
    )


@dataclass(frozen=True, repr=False)
class MultiTargetPrediction(ShortRepr):
    """The prediction for a text in each language."""

    predictions: Mapping[str, Prediction]

    @property
    def texts(self) -> dict[str, str]:
        """The text in each language."""
        return {language: each.text for language, each in self.predictions.items()}

    @property
    def text(self) -> str:
        """The lines of all languages."""
        return "\n".join(self.lines())

    @property
    def score(self) -> float:
        """The sum of the log-probabilities."""
        return sum(each.score for each in self.predictions.values())

    @property
    def finished(self) -> bool:
        """Whether the output is finished in every language."""
        return all(each.finished for each in self.predictions.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """Always empty: no phrases constrain several languages."""
        return ()

    @property
    def alternatives(self) -> tuple["MultiTargetPrediction", ...]:
        """Always empty: each language has one prediction."""
        return ()

    def lines(self) -> list[str]:
        """A line a language: its name and the text with a tab between."""
        return [
            f"{language}\t{' '.join(text.split())}"
            for language, text in self.texts.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "languages": {
                language: each.to_json() for language, each in self.predictions.items()
            }
        }


class MultiTargetRun(Run[str, MultiTargetPrediction]):
    """A trained model with its tokenizers, by language, and its run file. Examples are texts."""

    config: MultiTarget
    model: OneToMany
    supports = {
        "predict": frozenset({"beam", *SAMPLING, *SHAPING, "attention"}),
        "evaluate": frozenset({"files", "beam"}),
        "attribute": frozenset({"beam", "maps", "kinds"}),
    }

    def __init__(
        self,
        config: MultiTarget,
        model: OneToMany,
        tokenizers: Mapping[str, Tokenizers],
    ):
        self.config, self.model, self.tokenizers = config, model, tokenizers

    @classmethod
    def open(cls, run: RunDirectory, config: MultiTarget) -> "MultiTargetRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizers = load_tokenizers(run, config)
        return cls(config, build_many(config, tokenizers), tokenizers)

    def of(self, language: str) -> Seq2SeqRun:
        """The run of one language, which shares its weights with this one.

        Raises:
            InputError: the run has no such language.
        """
        config = self.config
        if language not in config.data.names:
            raise InputError(
                f"{language!r} is not a language of this run; it has {', '.join(config.data.names)}"
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
        return Seq2SeqRun(
            alone, self.model.of(language).eval(), self.tokenizers[language]
        )

    def parts(self) -> dict[str, Seq2SeqRun]:
        """A run for each language."""
        return {language: self.of(language) for language in self.tokenizers}

    def warnings(self, text: str) -> list[str]:
        return text_warnings(
            next(iter(self.tokenizers.values())).source, {"text": text}
        )

    def prediction_warnings(self, prediction: MultiTargetPrediction) -> list[str]:
        texts = prediction.texts.items()
        return [
            each
            for name, text in texts
            for each in output_warnings(text, f"the prediction in {name}")
        ]

    def cut(self, text: str) -> str:
        return next(iter(self.parts().values())).cut(text)

    def parse(self, line: str, place: str = "text 1") -> str:
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"source": example}

    def read(self, files: Sequence[Path | Records], options: EvaluationOptions) -> Any:
        """The pairs by language of a source's file and one for each language, or of a table. Raises InputError as
        `Multiparallel.read`."""
        return self.config.data.read(files)

    def _predict(
        self, texts: Sequence[str], options: PredictOptions
    ) -> list[MultiTargetPrediction]:
        """The output for each text in each language; each text is encoded once.

        Raises:
            InputError: a text is longer than the model can take.
        """
        runs = {language: self.of(language) for language in self.tokenizers}
        tokenizers = next(iter(self.tokenizers.values()))
        with guarded(self.model):
            ids, cut = source_ids(
                self.model.max_source, tokenizers, texts, truncate=self.config.truncate
            )
            if limit := limit_of(self.model.max_source):
                report_cut(limit, cut, len(texts))
            search = options.search(self.config.search)
            found = search_ids([run.model for run in runs.values()], ids, search)
        attention = options.attention is not False
        outputs = [
            run.predictions(texts, each, attention=attention)
            for run, each in zip(runs.values(), found, strict=True)
        ]
        return [
            MultiTargetPrediction(dict(zip(runs, row, strict=True)))
            for row in zip(*outputs, strict=True)
        ]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """The attention of every language's output to the text, one below another; a page has each language's layers
        and heads. Raises InputError as the run of one language does."""
        found = {
            language: run.attribute(example, options)
            for language, run in self.parts().items()
        }
        prediction = MultiTargetPrediction(
            {language: _of_search(each.prediction) for language, each in found.items()}
        )
        lookups = [
            replace(some, name=language)
            for language, each in found.items()
            for some in each.lookups
        ]
        maps = [each.weights for each in found.values()]
        pieces = tuple(visible(piece) for each in maps for piece in each.target)
        below = Alignment(
            np.concatenate([each.weights for each in maps]), maps[0].source, pieces
        )
        firsts = np.cumsum([0, *(len(each.target) for each in maps[:-1])]).tolist()
        draw = partial(_apart, below, dict(zip(firsts, found, strict=True)))
        detail = next(iter(found.values())).mean_of_heads
        return Attribution(
            prediction,
            example,
            tuple(lookups),
            below,
            options,
            draw=draw,
            detail=detail,
        )

    def _evaluate(
        self, examples: Mapping[str, Sequence[Pair]] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The metrics on pairs by language: their means, and each language's as `metric/language`.

        Raises:
            InputError: there are neither pairs nor a test set, or not for each of the languages.
        """
        sets = {} if examples is not None else self.config.data.load()
        tests = {name: each.test for name, each in sets.items() if each.test}
        valid = {name: each.valid for name, each in sets.items()}
        examples = for_evaluation(
            examples,
            self.config.data,
            "give a table, or a file of each language",
            tests=lambda: tests,
            valid=lambda: valid,
        )
        if missing := [name for name in self.tokenizers if not examples.get(name)]:
            raise InputError(
                f"there are no pairs to score {missing[0]} on; name a test set in data.test"
            )
        found: dict[str, dict[str, float]] = {}
        for name in self.tokenizers:
            with counted_together(
                logged=not found
            ):  # all languages have the same sources
                found[name] = self.of(name).evaluate(examples[name], beam=options.beam)
        return of_all(found)
