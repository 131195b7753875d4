"""A trained model of labelled texts: `load(folder).predict(texts)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.attention.record import Maps, record_breakdown
from regard.attribution.aggregation import AGGREGATIONS, Aggregation, single_map
from regard.attribution.available import BLIND, LAYERED, PLAIN
from regard.attribution.gradients import check_no_maps, contributions, embeddings
from regard.attribution.kinds import VERBS, Kind
from regard.data.memory import Records
from regard.data.truncation import report_cut
from regard.errors import InputError
from regard.maps import Alignment, DocumentWeights, OtherMap, TextWeights
from regard.maps.lookups import READS, Lookups, beside, of_document, of_text
from regard.models.catalog import build_classifier
from regard.models.classifier import Classifier
from regard.nonfinite import guarded
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.class_prediction import ClassPrediction, label_counts, report_constant
from regard.tasks.classification.config import Classification, TextConfig
from regard.tasks.classification.data import Labelled, LabelledData
from regard.tasks.classification.forms.catalog import form_of
from regard.tasks.classification.outputs import ClassOutputs, Outputs
from regard.tasks.classification.training import logits_of
from regard.tasks.evaluation import for_evaluation
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import Prediction
from regard.tasks.run import Run, text_warnings
from regard.tasks.tokenizer_file import TOKENIZER
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
        """The heads, and the text as the class reads it; or else the one map."""
        if self.heads is not None and isinstance(self.weights, TextWeights):
            text = self.weights
            name = self.kind if self.kind == "rollout" else f"{self.kind} of the class"
            own = OtherMap(
                text.weights[None, None, None], (name,), text.labels, (text.name,)
            )
            return replace(
                self.heads, others={**self.heads.others, name: own}, first=name
            )
        if isinstance(self.weights, TextWeights):
            return replace(
                of_text(self.weights, self.kind), verbs=VERBS.get(self.kind, READS)
            )
        if isinstance(self.weights, Alignment):
            return single_map(self.weights, self.kind)
        verbs = VERBS.get(self.kind, READS)
        return replace(
            of_document(self.weights, self.prediction.text), kind=self.kind, verbs=verbs
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
            else {f"text {n}": each for n, each in enumerate(text, 1)}
        )
        pair = [TAB] if isinstance(text, str) and "\t" in text else []
        return pair + text_warnings(self.tokenizer, texts)

    def cut(self, text: Text) -> str:
        example, longest = self._example("text 1", text), self.form.longest
        whole = longest is None or not self.form.is_cut(
            example, self.form.encoded(example)
        )
        return "" if longest is None or whole else longest.report(1, 1)

    def parse(self, line: str, place: str = "text 1") -> Text:
        """One text, or two separated by a tab. Raises InputError for a line without a tab, or with several."""
        text = tuple(line.split("\t")) if self.paired else line
        self._example(place, text)
        return text

    def example(self, values: Mapping[str, Any]) -> Text:
        """One text, or a pair. Raises InputError for another number of texts than the model reads."""
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
            return BLIND
        return LAYERED if self.form.several else PLAIN

    def description(self) -> dict[str, Any]:
        kind, model = "pair" if self.paired else "document", self.config.classifier.name
        return super().description() | {"kind": kind, "model": model}

    def record(self, example: Text) -> dict[str, Any]:
        """The text as its line."""
        return {"text": "\t".join(example) if isinstance(example, tuple) else example}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Labelled[Any]]:
        """The rows of tables with the columns of the run's own. Raises InputError as `LabelledTables.read`."""
        data = self._data(options)
        return [each for file in files for each in data.read(str(file))]

    def _evaluate(
        self, examples: Sequence[Labelled[Any]] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The metrics of the outputs.

        Raises:
            InputError: there are neither examples nor a test set, a label is unknown, or a text is too long.
        """
        texts = for_evaluation(examples, self._data(options), "give a table")
        targets = self.outputs.targets(texts)
        if self.outputs.metric == "accuracy":
            report_constant(label_counts(texts))
        with guarded(self.model):
            return self.outputs.metrics(
                logits_of(self.model, self.form, self._encoded(texts)), targets
            )

    def _predict(self, examples: Sequence[Text], options: PredictOptions) -> list[P]:
        """The prediction for each text or pair of texts.

        Raises:
            InputError: an example is too long or has another number of texts than the model reads.
        """
        encoded = self._encoded(
            [
                self._example(f"text {number}", text)
                for number, text in enumerate(examples, 1)
            ]
        )
        with guarded(self.model):
            return self.outputs.predictions(logits_of(self.model, self.form, encoded))

    def _encoded(self, examples: Sequence[Labelled[Any]]) -> list[Any]:
        """The examples as the model reads them; the log has the number of those that are cut. Raises InputError for one
        that is too long."""
        found = [self.form.encoded(each) for each in examples]
        if longest := self.form.longest:
            cut = sum(
                self.form.is_cut(*each) for each in zip(examples, found, strict=True)
            )
            report_cut(longest, cut, len(found))
        return found

    def _data(self, options: EvaluationOptions) -> LabelledData:
        """The data section with the chosen columns and `skip_bad`."""
        return self.config.data.with_columns(options.columns, skip_bad=options.skip_bad)

    def _attribute(self, text: Text, options: AttributionOptions) -> Attribution:
        """The attention of the model to tokens, words or sentences; for the kind gradient, gradient x input of the
        class's log-probability or of the number.

        Raises:
            InputError: as `predict`; the model does not attend and the kind is not gradient; or the model has no such
                map, or no rollout.
        """
        example = self._example("text 1", text)
        self._encoded([example])
        default: Kind = (
            "rollout" if self.form.several and options.maps is None else "weights"
        )
        found = [
            self._kind(example, kind, options.maps)
            for kind in options.each_kind(default)
        ]
        return Attribution(
            found[0].prediction,
            self.titled(found[0].prediction),
            (beside(*(each.lookups() for each in found)),),
            found[0].weights,
            options,
            has_heads=found[0].heads is not None,
            detail=_DETAILS[default]
            if isinstance(found[0].weights, TextWeights)
            else "",
            sides=("first text", "second text"),
        )

    def titled(self, prediction: Prediction) -> str:
        """The title of a picture of a prediction."""
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
        with torch.no_grad(), guarded(self.model), recording as found:
            (prediction,) = self.outputs.predictions(self._logits(example))
        weights = self.form.attention(
            example, found, lambda found: aggregation.aggregate(found, maps)
        )
        if weights is None:
            raise InputError(
                f"this run's {name} does not attend to what it reads; {SHOWN}"
            )
        # Beside a rollout a page has the weights of every layer and head.
        heads = self._lookups(
            example,
            found,
            AGGREGATIONS["weights"] if kind == "rollout" else aggregation,
        )
        return KindOfAttribution(prediction, kind, weights, heads)

    def _lookups(
        self, example: Labelled[Any], found: Maps, aggregation: Aggregation
    ) -> Lookups | None:
        """The maps of every layer and head; None for a model with one map."""
        read = self.form.side(example)
        if read is None:
            return None
        lookups = found.lookups(read.pieces)
        lookups = aggregation.lookups(
            replace(lookups, breakdown=found.breakdown(lookups.weights))
        )
        return replace(lookups, source_words=read.words, target_words=read.words)

    def _gradient(self, example: Labelled[Any]) -> KindOfAttribution:
        """Gradient x input of the part of the prediction that the outputs name."""
        with guarded(self.model):
            with torch.no_grad():
                logits = self._logits(example)
            (prediction,) = self.outputs.predictions(logits)
            name, _ = self.outputs.explained(prediction, logits)
            found = contributions(
                embeddings(self.model),
                lambda: self.outputs.explained(prediction, self._logits(example))[1],
            )
        return KindOfAttribution(
            prediction, "gradient", self.form.gradient(example, found, name)
        )

    def _logits(self, example: Labelled[Any]) -> Float[Tensor, "1 output"]:
        batch = self.form.collate([(self.form.encoded(example), 0)]).to(
            next(self.model.parameters()).device
        )
        return self.model(*batch.inputs)

    def _example(self, place: str, text: Text) -> Labelled[Any]:
        """The example of a text or a pair. Raises InputError for another number of texts than the model reads."""
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
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizer, labels = Tokenizer.load(run.file(TOKENIZER)), run.read_labels()
        return cls(
            config,
            build_classifier(config.classifier, tokenizer.size, len(labels)),
            tokenizer,
            labels,
        )

    def description(self) -> dict[str, Any]:
        return super().description() | {"classes": list(self.labels)}
