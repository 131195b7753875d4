"""A trained model of labelled texts: `load(folder).predict(texts)`."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.attention.record import record
from regard.attribution.aggregation import (
    GRADIENT_ONLY,
    LAYERED,
    PLAIN,
    RETURNED,
    check_kinds,
    choose_measure,
    to_single_map,
)
from regard.attribution.gradients import (
    check_no_maps,
    compute_contributions,
    find_embeddings,
)
from regard.attribution.kinds import KIND_VERBS, Kind
from regard.attribution.self_attention import attribute_text
from regard.data.records import Records
from regard.data.tokens import report_cut
from regard.errors import InputError
from regard.maps import Alignment, AlternativeMap, TextWeights
from regard.maps.lookups import (
    ATTENDS_TO,
    Lookups,
    lookups_from_document,
    lookups_from_text,
    with_maps,
)
from regard.models.catalog import CLASSIFIERS
from regard.models.classifier import Classifier
from regard.models.pretrained import Pretrained
from regard.storage.run_folder import RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import TOKENIZER, ReadingRun
from regard.tasks.class_prediction import (
    count_labels,
    log_constant_accuracy,
)
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.inputs import CLASS, RowTexts, Texts, Weights
from regard.tasks.classification.training import (
    ClassOutputs,
    Logits,
    Outputs,
    compute_logits,
)
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.run import text_warnings
from regard.text import Tokenizer

DETAILS: dict[Kind, str] = {
    "rollout": "attention rollout: what the prediction reads through all layers",
    "weights": "attention weights: what the prediction reads",
}
TAB = "the text has a tab, and this model reads one text and no pairs; the tab is a blank for it"
Text = str | tuple[str, ...] | list[str]
"""One text, a pair of them, or a document as the list of its sentences."""


class LabelledTextRun(ReadingRun[Text, Any]):
    """A trained model with its tokenizer, its outputs and its run file."""

    config: Any
    model: Classifier
    inputs = {"text": str, "second": str | None}
    data_hint = "give a table"

    def __init__(
        self,
        config: Any,
        model: Classifier,
        tokenizer: Tokenizer,
        outputs: Outputs,
    ):
        super().__init__(config, model, tokenizer)
        self.outputs = outputs
        self.form = self.config.form(tokenizer)

    @classmethod
    def open(cls, run: RunDirectory, config: Any) -> "LabelledTextRun":
        """Open the run in a folder, its model with fresh weights.

        Raises:
            InputError: A file is damaged.
        """
        tokenizer = Tokenizer.load(run.file(TOKENIZER))
        outputs = cls.load_outputs(run, config)
        model = CLASSIFIERS.build(config.sizes, tokenizer.size, outputs.count)
        return cls(config, model, tokenizer, outputs)

    @classmethod
    @abstractmethod
    def load_outputs(cls, folder: RunDirectory, config: Any) -> Outputs:
        """Load the meaning of the model's outputs from the run's folder."""

    @property
    def paired(self) -> bool:
        """Whether an example is two texts."""
        return self.config.data.second is not None

    def warnings(self, example: Text) -> list[str]:
        texts = {f"text {number}": text for number, text in enumerate(example, 1)}
        if isinstance(example, str):
            texts = {"text": example}
        tab = [TAB] if "\t" in texts.get("text", "") else []
        return tab + text_warnings(self.tokenizer, texts)

    def cut(self, example: Text) -> str:
        limit = self.form.limit()
        labelled = self._label(example)
        if limit is None or not self.form.is_cut(labelled):
            return ""
        return limit.report(1, 1)

    def parse(self, line: str, place: str = "text 1") -> Text:
        """Return one text, or two separated by a tab.

        Raises:
            InputError: There is another number of texts than the model reads.
        """
        text = tuple(line.split("\t")) if self.paired else line
        self._label(text, place)
        return text

    def example(self, values: Mapping[str, Any]) -> Text:
        """Return one text, or a pair.

        Raises:
            InputError: There is another number of texts than the model reads.
        """
        second = values["second"]
        text = values["text"] if second is None else (values["text"], second)
        self._label(text)
        return text

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if self.form.attention_modules is None:
            return GRADIENT_ONLY
        if isinstance(self.model, Pretrained):
            return RETURNED
        return LAYERED if self.form.several else PLAIN

    def description(self) -> dict[str, Any]:
        return super().description() | {
            "kind": "pair" if self.paired else "document",
            "model": self.config.sizes.name,
            **({"classes": [*self.outputs.labels]} if self.outputs.labels else {}),
        }

    def record(self, example: Text) -> dict[str, Any]:
        """Return the text as its line."""
        return {"text": "\t".join(example) if isinstance(example, tuple) else example}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Labelled]:
        """Return the rows of tables with the columns of the run's own."""
        data = self.config.data.with_columns(options.columns, skip_bad=options.skip_bad)
        return [example for file in files for example in data.read(str(file))]

    def compute_metrics(
        self, examples: Sequence[Labelled], options: EvaluationOptions
    ) -> dict[str, float]:
        """Return the metrics of the outputs."""
        targets = self.outputs.targets(examples)
        if isinstance(self.outputs, ClassOutputs):
            log_constant_accuracy(count_labels(examples))
        logits = compute_logits(self.model, self.form, self._encode(examples))
        return self.outputs.metrics(logits, targets)

    def _predict(self, examples: Sequence[Text], options: PredictOptions) -> list[Any]:
        numbered = enumerate(examples, 1)
        texts = [self._label(text, f"text {number}") for number, text in numbered]
        logits = compute_logits(self.model, self.form, self._encode(texts))
        return self.outputs.predictions(logits)

    def _encode(self, examples: Sequence[Labelled]) -> list[Texts]:
        """Return the examples as the model reads them, and log how many are cut.

        Raises:
            InputError: An example is too long.
        """
        texts = [self.form.encode(example) for example in examples]
        if limit := self.form.limit():
            report_cut(limit, sum(map(self.form.is_cut, examples)), len(texts))
        return texts

    def _attribute(self, text: Text, options: AttributionOptions) -> Attribution:
        """Return the attention to tokens, words or sentences, or their gradients.

        Raises:
            InputError: The model has no such kind or no such map.
        """
        example = self._label(text)
        self._encode([example])
        maps = options.maps
        several = self.form.several and maps is None
        default: Kind = "rollout" if several else "weights"
        kinds = options.list_kinds(default)
        check_kinds(kinds, self.kinds)
        with torch.no_grad():
            (prediction,) = self.outputs.predictions(self._logits(example))
        lookups, weights = zip(
            *(self._attribute_kind(example, prediction, kind, maps) for kind in kinds),
            strict=True,
        )
        return Attribution(
            prediction,
            str(prediction),
            (with_maps(*lookups),),
            weights[0],
            options,
            has_heads=self.form.several and kinds[0] != "gradient",
            detail=DETAILS[default] if isinstance(weights[0], TextWeights) else "",
            sides=("first text", "second text"),
        )

    def _attribute_kind(
        self,
        example: Labelled,
        prediction: Any,
        kind: Kind,
        maps: Sequence[int] | None,
    ) -> tuple[Lookups, Weights]:
        """Return the maps of every layer and head of one kind, and one map."""
        form = self.form
        if kind == "gradient":
            check_no_maps(maps)
            names = []

            def explain() -> torch.Tensor:
                name, value = self.outputs.explain(prediction, self._logits(example))
                names.append(name)
                return value

            contributions = compute_contributions(find_embeddings(self.model), explain)
            weights = form.gradient(example, contributions, names[0])
        elif isinstance(form, RowTexts):
            return self._attribute_row(form, example, kind, maps)
        elif maps is not None:
            name = self.config.sizes.name
            raise InputError(
                f"a map is chosen, but this run's {name} has only one; choose no map"
            )
        else:
            modules = str(form.attention_modules)
            measure = choose_measure(self.model, kind)
            recording = record(self.model, modules, measure=measure, breakdown=True)
            with torch.no_grad(), recording as recorded:
                self._logits(example)
            weights = form.attention(example, recorded)
        if isinstance(weights, Alignment):
            return to_single_map(weights, kind), weights
        if isinstance(weights, TextWeights):
            lookups = lookups_from_text(weights, kind)
        else:
            document = lookups_from_document(weights, prediction.text)
            lookups = replace(document, kind=kind)
        return replace(lookups, verbs=KIND_VERBS.get(kind, ATTENDS_TO)), weights

    def _attribute_row(
        self,
        form: RowTexts,
        example: Labelled,
        kind: Kind,
        maps: Sequence[int] | None,
    ) -> tuple[Lookups, TextWeights]:
        """Return every layer and head, beside what the class reads of the text."""

        def attribute(kind: Kind) -> tuple[Lookups, Alignment]:
            return attribute_text(
                self.model,
                form.attention_modules,
                form.side(example),
                lambda: self._logits(example),
                maps,
                kind=kind,
            )

        lookups, joined = attribute(kind)
        position = form.class_position
        reads = joined.weights
        row = reads.mean(0) if position is None else reads[position]
        text = form.shade(example, row, CLASS)
        name = f"{kind} of the class"
        if kind == "rollout":  # a page has the weights of every head beside it
            name = kind
            lookups, _ = attribute("weights")
        weights = text.weights[None, None, None]
        chosen = AlternativeMap(weights, (name,), text.labels, (text.name,))
        maps_by_name = {**lookups.alternatives, name: chosen}
        return replace(lookups, alternatives=maps_by_name, first=name), text

    def _logits(self, example: Labelled) -> Logits:
        batch = self.form.collate([(self.form.encode(example), 0)]).to(self.device)
        return self.model(*batch.inputs)

    def _label(self, text: Text, place: str = "text 1") -> Labelled:
        """Return an example without a label.

        Raises:
            InputError: There is another number of texts than the model reads.
        """
        sentences: tuple[str, ...] = ()
        if isinstance(text, list):
            sentences = tuple(text)
            text = " ".join(text)
        texts = (text,) if isinstance(text, str) else text
        if len(texts) != 1 + self.paired:
            count = "one text" if len(texts) == 1 else f"{len(texts)} texts"
            expected = "one text"
            if self.paired:
                expected = "two, with a tab between on the command line"
            raise InputError(f"{place}: is {count}; the model classifies {expected}")
        return Labelled(texts, "", place, sentences)


class ClassificationRun(LabelledTextRun):
    """A trained classifier of texts."""

    @classmethod
    def load_outputs(cls, folder: RunDirectory, config: Any) -> ClassOutputs:
        return ClassOutputs(tuple(folder.read_labels()))
