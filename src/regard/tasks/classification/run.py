"""A trained model of labelled texts: `load(folder).predict(texts)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.attention.record import Maps, record_breakdown
from regard.attribution.aggregation import (
    AGGREGATIONS,
    GRADIENT_ONLY,
    LAYERED,
    PLAIN,
    RETURNED,
    Aggregation,
    to_single_map,
)
from regard.attribution.gradients import (
    check_no_maps,
    compute_contributions,
    find_embeddings,
)
from regard.attribution.kinds import KIND_VERBS, Kind
from regard.data.records import Records
from regard.data.tokens import report_cut
from regard.errors import InputError
from regard.maps import Alignment, AlternativeMap, DocumentWeights, TextWeights
from regard.maps.lookups import (
    ATTENDS_TO,
    Lookups,
    lookups_from_document,
    lookups_from_text,
    with_maps,
)
from regard.models.catalog import build_classifier
from regard.models.classifier import Classifier
from regard.models.pretrained import Pretrained
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.class_prediction import (
    ClassPrediction,
    count_labels,
    log_constant_accuracy,
)
from regard.tasks.classification.config import Classification, TextConfig, form_of
from regard.tasks.classification.data import Labelled, LabelledData
from regard.tasks.classification.training import ClassOutputs, Outputs, logits_of
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import Prediction
from regard.tasks.run import Run, text_warnings
from regard.tasks.tokenizers import TOKENIZER
from regard.text import Tokenizer

SHOWN = "models that do are bert, gpt2, han, flat-attention and rocktaschel"
_DETAILS: dict[Kind, str] = {
    "rollout": "attention rollout: what the prediction reads through all layers",
    "weights": "attention weights: what the prediction reads",
}
TAB = "the text has a tab, and this model reads one text and no pairs; the tab is a blank for it"
P = TypeVar("P", bound=Prediction)
Text = str | tuple[str, ...] | list[str]
"""One text, a pair of them, or a document as the list of its sentences."""


@dataclass(frozen=True, eq=False)
class KindOfAttribution:
    """The attribution of the prediction for an example in one kind: one map, and all maps of a model with several
    layers and heads."""

    prediction: Prediction
    kind: Kind
    weights: Alignment | DocumentWeights | TextWeights
    heads: Lookups | None = None

    def lookups(self) -> Lookups:
        """Return the heads, and the text as the class reads it; or else the one map."""
        if self.heads is not None and isinstance(self.weights, TextWeights):
            text = self.weights
            name = self.kind if self.kind == "rollout" else f"{self.kind} of the class"
            current = AlternativeMap(
                text.weights[None, None, None], (name,), text.labels, (text.name,)
            )
            return replace(
                self.heads, others={**self.heads.others, name: current}, first=name
            )
        if isinstance(self.weights, TextWeights):
            return replace(
                lookups_from_text(self.weights, self.kind),
                verbs=KIND_VERBS.get(self.kind, ATTENDS_TO),
            )
        if isinstance(self.weights, Alignment):
            return to_single_map(self.weights, self.kind)
        verbs = KIND_VERBS.get(self.kind, ATTENDS_TO)
        return replace(
            lookups_from_document(self.weights, self.prediction.text),
            kind=self.kind,
            verbs=verbs,
        )


class TextRun(Run[Text, P]):
    """A trained model with its tokenizer, its outputs and its run file."""

    config: TextConfig
    model: Classifier
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset({"files", "columns", "skip_bad"}),
        "attribute": frozenset({"kinds", "maps"}),
    }
    inputs = {"text": str, "second": str | None}
    data_hint = "give a table"

    def __init__(
        self,
        config: TextConfig,
        model: Classifier,
        tokenizer: Tokenizer,
        outputs: Outputs[Any, P],
    ):
        self.config, self.model, self.tokenizer, self.outputs = (
            config,
            model,
            tokenizer,
            outputs,
        )
        self.form = form_of(config.classifier, tokenizer, truncate=config.truncate)

    @property
    def paired(self) -> bool:
        """Whether an example is two texts."""
        return self.config.data.second is not None

    def warnings(self, text: Text) -> list[str]:
        texts = (
            {"text": text}
            if isinstance(text, str)
            else {f"text {n}": item for n, item in enumerate(text, 1)}
        )
        pair = [TAB] if isinstance(text, str) and "\t" in text else []
        return pair + text_warnings(self.tokenizer, texts)

    def cut(self, text: Text) -> str:
        example, longest = self._example("text 1", text), self.form.longest
        full = longest is None or not self.form.is_cut(
            example, self.form.encode(example)
        )
        return "" if longest is None or full else longest.report(1, 1)

    def parse(self, line: str, place: str = "text 1") -> Text:
        """Return one text, or two separated by a tab.

        Raises:
            InputError: A line without a tab, or with several.
        """
        text = tuple(line.split("\t")) if self.paired else line
        self._example(place, text)
        return text

    def example(self, values: Mapping[str, Any]) -> Text:
        """Return one text, or a pair.

        Raises:
            InputError: Another number of texts than the model reads.
        """
        text, second = values["text"], values["second"]
        if self.paired != (second is not None):
            raise InputError(
                "second is missing: two texts are read"
                if self.paired
                else "second is given: one text is read"
            )
        return text if second is None else (text, second)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if self.form.attention_modules is None:
            return GRADIENT_ONLY
        if isinstance(self.model, Pretrained):
            return RETURNED
        return LAYERED if self.form.several else PLAIN

    def description(self) -> dict[str, Any]:
        kind, model = "pair" if self.paired else "document", self.config.classifier.name
        return super().description() | {"kind": kind, "model": model}

    def record(self, example: Text) -> dict[str, Any]:
        """Return the text as its line."""
        return {"text": "\t".join(example) if isinstance(example, tuple) else example}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Labelled[Any]]:
        """Return the rows of tables with the columns of the run's own.

        Raises:
            InputError: As `LabelledTables.read`.
        """
        data = self._data(options)
        return [item for file in files for item in data.read(str(file))]

    def compute_metrics(
        self, examples: Sequence[Labelled[Any]], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the metrics of the outputs.

        Raises:
            InputError: A label is unknown, or a text is too long.
        """
        targets = self.outputs.targets(examples)
        if self.outputs.metric == "accuracy":
            log_constant_accuracy(count_labels(examples))
        logits = logits_of(self.model, self.form, self._encode(examples))
        return self.outputs.metrics(logits, targets)

    def _predict(self, examples: Sequence[Text], options: PredictOptions) -> list[P]:
        """Return the prediction for each text or pair of texts.

        Raises:
            InputError: an example is too long or has another number of texts than the model reads.
        """
        encoded = self._encode(
            [
                self._example(f"text {number}", text)
                for number, text in enumerate(examples, 1)
            ]
        )
        return self.outputs.predictions(logits_of(self.model, self.form, encoded))

    def _encode(self, examples: Sequence[Labelled[Any]]) -> list[Any]:
        """Return the examples as the model reads them.

        The log has the number of those that are cut.

        Raises:
            InputError: One that is too long.
        """
        results = [self.form.encode(example) for example in examples]
        if longest := self.form.longest:
            cut = sum(
                self.form.is_cut(*item) for item in zip(examples, results, strict=True)
            )
            report_cut(longest, cut, len(results))
        return results

    def _data(self, options: EvaluationOptions) -> LabelledData:
        """Return the data section with the chosen columns and `skip_bad`."""
        return self.config.data.with_columns(options.columns, skip_bad=options.skip_bad)

    def _attribute(self, text: Text, options: AttributionOptions) -> Attribution:
        """Return the attention of the model to tokens, words or sentences.

        For the kind gradient, gradient x input of the class's log-probability or of the
        number.

        Raises:
            InputError: as `predict`; the model does not attend and the kind is not gradient; or the model has no such
                map, or no rollout.
        """
        example = self._example("text 1", text)
        self._encode([example])
        default: Kind = (
            "rollout" if self.form.several and options.maps is None else "weights"
        )
        results = [
            self._kind(example, kind, options.maps)
            for kind in options.list_kinds(default)
        ]
        return Attribution(
            results[0].prediction,
            self.make_title(results[0].prediction),
            (with_maps(*(item.lookups() for item in results)),),
            results[0].weights,
            options,
            has_heads=results[0].heads is not None,
            detail=_DETAILS[default]
            if isinstance(results[0].weights, TextWeights)
            else "",
            sides=("first text", "second text"),
        )

    def make_title(self, prediction: Prediction) -> str:
        """Return the title of a picture of a prediction."""
        return str(prediction)

    def _kind(
        self, example: Labelled[Any], kind: Kind, maps: Sequence[int] | None
    ) -> KindOfAttribution:
        name = self.config.classifier.name
        if kind == "gradient":
            check_no_maps(maps)
            return self._gradient(example)
        if self.form.attention_modules is None:
            raise InputError(
                f"this run's {name} does not attend to what it reads; {SHOWN}"
            )
        if maps is not None and not self.form.several:
            raise InputError(
                f"a map is chosen, but this run's {name} has only one; choose no map"
            )
        if kind == "rollout" and not self.form.several:
            raise InputError(
                f"a rollout needs self-attention layers with residuals, which this run's {name} lacks"
            )
        aggregation, attention_modules = AGGREGATIONS[kind], self.form.attention_modules
        recording = record_breakdown(
            self.model, attention_modules, aggregation.measure(self.model)
        )
        with torch.no_grad(), recording as outcome:
            (prediction,) = self.outputs.predictions(self._logits(example))
        weights = self.form.attention(
            example, outcome, lambda result: aggregation.aggregate(result, maps)
        )
        if weights is None:
            raise InputError(
                f"this run's {name} does not attend to what it reads; {SHOWN}"
            )
        # Beside a rollout a page has the weights of every layer and head.
        heads = self._lookups(
            example,
            outcome,
            AGGREGATIONS["weights"] if kind == "rollout" else aggregation,
        )
        return KindOfAttribution(prediction, kind, weights, heads)

    def _lookups(
        self, example: Labelled[Any], result: Maps, aggregation: Aggregation
    ) -> Lookups | None:
        """Return the maps of every layer and head; None for a model with one map."""
        read = self.form.side(example)
        if read is None:
            return None
        lookups = result.lookups(read.pieces)
        lookups = aggregation.lookups(
            replace(lookups, breakdown=result.breakdown(lookups.weights))
        )
        return replace(lookups, source_words=read.words, target_words=read.words)

    def _gradient(self, example: Labelled[Any]) -> KindOfAttribution:
        """Return gradient x input of the part of the prediction that the outputs name."""
        with torch.no_grad():
            logits = self._logits(example)
        (prediction,) = self.outputs.predictions(logits)
        name, _ = self.outputs.explain(prediction, logits)
        result = compute_contributions(
            find_embeddings(self.model),
            lambda: self.outputs.explain(prediction, self._logits(example))[1],
        )
        return KindOfAttribution(
            prediction, "gradient", self.form.gradient(example, result, name)
        )

    def _logits(self, example: Labelled[Any]) -> Float[Tensor, "1 output"]:
        batch = self.form.collate([(self.form.encode(example), 0)]).to(self.device)
        return self.model(*batch.inputs)

    def _example(self, place: str, text: Text) -> Labelled[Any]:
        """Return the example of a text or a pair.

        Raises:
            InputError: Another number of texts than the model reads.
        """
        expected = 2 if self.paired else 1
        if isinstance(text, list):
            texts, sentences = (" ".join(text),), tuple(text)
        else:
            texts, sentences = (text,) if isinstance(text, str) else text, ()
        if len(texts) != expected:
            raise InputError(
                f"{place}: is {'one text' if len(texts) == 1 else f'{len(texts)} texts'}; the model classifies "
                f"{'one text' if expected == 1 else 'two, with a tab between on the command line'}"
            )
        return Labelled(texts, "", place, sentences)


class ClassificationRun(TextRun[ClassPrediction]):
    """A trained classifier of texts."""

    def __init__(
        self,
        config: Classification,
        model: Classifier,
        tokenizer: Tokenizer,
        labels: Sequence[str],
    ):
        self.labels = tuple(labels)
        super().__init__(config, model, tokenizer, ClassOutputs(self.labels))

    @classmethod
    def open(cls, run: RunDirectory, config: Classification) -> "ClassificationRun":
        """Return the run in a folder, its model with fresh weights.

        Raises:
            InputError: A damaged tokenizer.
        """
        tokenizer, labels = Tokenizer.load(run.file(TOKENIZER)), run.read_labels()
        return cls(
            config,
            build_classifier(config.classifier, tokenizer.size, len(labels)),
            tokenizer,
            labels,
        )

    def description(self) -> dict[str, Any]:
        return super().description() | {"classes": list(self.labels)}
