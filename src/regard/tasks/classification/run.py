"""Labels of texts: the meaning of a model's outputs, the training, and the trained run."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention.record import record
from regard.attribution.attention import (
    attribute_text,
    check_kinds,
    choose_measure,
    text_kinds,
    to_single_map,
)
from regard.attribution.effects import choose_cuts, measure_effects
from regard.attribution.gradients import (
    Contribution,
    compute_contributions,
    find_embeddings,
    select_log_probabilities,
)
from regard.attribution.kinds import GRADIENTS, KIND_VERBS, WHOLE_MODEL, Kind
from regard.data.batches import spell_vocabulary
from regard.data.cache import Chunks, split_into_chunks
from regard.data.records import Records
from regard.data.splits import Splits
from regard.data.tokens import report_cut
from regard.errors import InputError, quote
from regard.maps import Alignment, AlternativeMap, TextWeights
from regard.maps.lookups import (
    ATTENDS_TO,
    Lookups,
    lookups_from_document,
    lookups_from_text,
    with_maps,
)
from regard.maps.reductions import GRADIENT, refuse_maps
from regard.metrics import Metrics
from regard.models.catalog import CLASSIFIERS
from regard.models.classifier import Classifier
from regard.models.elmo import ElmoEmbedding
from regard.shapes import Float
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.attribution import Attribution
from regard.tasks.base import (
    TOKENIZER,
    ReadingObjective,
    ReadingRun,
    Setup,
    TextBatch,
    digest_splits,
    setup_task,
)
from regard.tasks.class_prediction import (
    LISTED,
    ClassPrediction,
    compute_class_metrics,
    compute_class_weights,
    count_labels,
    describe_constant_accuracy,
    index_classes,
    log_constant_accuracy,
    sort_labels,
)
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.inputs import (
    CLASS,
    Classification,
    Example,
    Form,
    RowTexts,
    TextConfig,
    Weights,
)
from regard.tasks.options import (
    AttributionOptions,
    EvaluationOptions,
    Json,
    Prediction,
    PredictOptions,
)
from regard.tasks.run import ScoredOutput, Task, text_warnings
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    count_classes,
    describe_tokens,
    request_of,
    sample_evenly,
    summarize_texts,
)
from regard.text import Tokenizer
from regard.training.objectives import Loss

P = TypeVar("P", bound=Prediction)
DETAILS: dict[Kind, str] = {
    "rollout": "attention rollout over all layers",
    "weights": "attention weights of the prediction",
}
Text = str | tuple[str, ...] | list[str]
"""One text, a pair of them, or a document as the list of its sentences."""
POSITIONS = 2**16
"""Largest number of positions in a batch of inference."""
FEW = 20
"""The fewest rows whose classes are compared with their number."""
Logits = Float[Tensor, "text output"]


class Outputs(ABC):
    """The targets, loss, predictions and metrics of the logits of a model.

    Attributes:
        problem: Their name in published configurations, transformers' `problem_type`.
        metric: The metric that chooses the best weights.
        labels: The name of each output; empty for a number.
    """

    problem: str
    metric: str
    higher_is_better = True
    labels: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of outputs."""
        return len(self.labels) or 1

    @property
    def files(self) -> Json:
        """What the run keeps of them, by the names of JSON files."""
        return {LABELS: list(self.labels)}

    @property
    @abstractmethod
    def summary(self) -> str:
        """A phrase for the log."""

    @abstractmethod
    def targets(self, examples: Sequence[Labelled]) -> list[Any]:
        """Return the target of each example.

        Raises:
            InputError: The model cannot predict one.
        """

    @abstractmethod
    def describe(self, examples: Sequence[Labelled]) -> Json:
        """Return the fields of a `DataSummary` on the labels of training examples."""

    @abstractmethod
    def loss(
        self, logits: Logits, targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """Return the loss, summed over the texts; `smoothing` is that of the targets."""

    @abstractmethod
    def predictions(self, logits: Logits) -> list[Any]:
        """Return the prediction for each text."""

    @abstractmethod
    def score(self, logits: Logits) -> Logits:
        """Return the log-probability of each label, or the predicted number."""

    @abstractmethod
    def metrics(self, logits: Logits, targets: Sequence[Any]) -> Metrics:
        """Return the metrics of at least one text."""

    @abstractmethod
    def explain(
        self, prediction: Any, logits: Logits
    ) -> tuple[str, Float[Tensor, "1"]]:
        """Return the name and the value of what a gradient explains of one text."""


@dataclass(frozen=True)
class ClassOutputs(Outputs):
    """A logit for each of several classes of which a text has one."""

    labels: tuple[str, ...]
    weights: tuple[float, ...] = ()
    """The weights of the classes in the loss; none are all 1."""

    problem, metric = "single_label_classification", "accuracy"

    @property
    def summary(self) -> str:
        return f"{len(self.labels)} classes"

    def targets(self, examples: Sequence[Labelled]) -> list[int]:
        return index_classes(self.labels, examples)

    def describe(self, examples: Sequence[Labelled]) -> Json:
        return {"classes": count_classes(count_labels(examples))}

    def loss(
        self, logits: Logits, targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """Return the weighted cross-entropy of the classes."""
        weights = logits.new_tensor(self.weights) if self.weights else None
        return functional.cross_entropy(
            logits, targets, weights, reduction="sum", label_smoothing=smoothing
        )

    def predictions(self, logits: Logits) -> list[ClassPrediction]:
        rows = logits.softmax(-1).tolist()
        return [ClassPrediction.of(self.labels, row) for row in rows]

    def score(self, logits: Logits) -> Logits:
        return logits.log_softmax(-1)

    def metrics(self, logits: Logits, targets: Sequence[int]) -> Metrics:
        """Return accuracy and macro-averaged F1, in percent."""
        return compute_class_metrics(logits.softmax(-1), targets)

    def explain(
        self, prediction: ClassPrediction, logits: Logits
    ) -> tuple[str, Float[Tensor, "1"]]:
        """Return the log-probability of the most likely class."""
        label = prediction.label
        return label, select_log_probabilities(logits, [self.labels.index(label)])


class OutputsRun(ReadingRun[Text, P], Generic[P]):
    """A trained model with its tokenizer, its outputs and its run file."""

    config: Any
    model: Classifier
    inputs = {"text": str, "second": str | None}
    data_hint = "give a table"

    def __init__(
        self,
        config: Any,
        model: Any,
        tokenizer: Tokenizer,
        outputs: Outputs,
    ):
        super().__init__(config, model, tokenizer)
        self.outputs = outputs
        self.metric = outputs.metric
        self.higher_is_better = outputs.higher_is_better
        self.form: Form = config.form(tokenizer)

    @classmethod
    def open(cls, run: RunDirectory, config: Any) -> "OutputsRun[P]":
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

    def encode_all(self, examples: Sequence[Labelled]) -> Chunks[Example]:
        """Encode examples with their targets; those on disk are encoded once.

        Raises:
            InputError: The model cannot take or predict an example.
        """
        form, outputs = self.form, self.outputs
        name = f"texts {type(form).__name__} {self.tokenizer.digest} {form.config} "
        return split_into_chunks(
            examples,
            f"{name}{form.truncate} {outputs.files}",
            lambda example: [(form.encode(example), *outputs.targets([example]))],
            lambda pair: form.positions(pair[0]),
            lambda *pair: pair,
        )

    def collate(self, parts: Sequence[Example]) -> TextBatch:
        return self.form.collate(parts)

    def compute_loss(self, outputs: Logits, batch: TextBatch) -> Loss:
        smoothing = self.config.training.label_smoothing
        total = self.outputs.loss(outputs, batch.targets, smoothing)
        return Loss(total, len(batch.targets), read=batch.size)

    @property
    def paired(self) -> bool:
        """Whether an example is two texts."""
        return self.config.data.second is not None

    def warnings(self, example: Text) -> list[str]:
        texts = {f"text {number}": text for number, text in enumerate(example, 1)}
        if isinstance(example, str):
            texts = {"text": example}
        return text_warnings(self.tokenizer, texts)

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

    def parse_arguments(self, texts: Sequence[str]) -> list[Text]:
        """Return one text each, or of two texts their pair."""
        if self.paired and len(texts) == 2 and "\t" not in "".join(texts):
            texts = ["\t".join(texts)]
        return super().parse_arguments(texts)

    def example(self, values: Json) -> Text:
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
        kinds = text_kinds(self.model, self.form.attention_modules)
        is_row = isinstance(self.form, RowTexts)
        return tuple(kind for kind in kinds if is_row or kind != "effect")

    @property
    def cut_modules(self) -> Sequence[str]:
        modules = self.form.attention_modules
        return (str(modules),) * ("effect" in text_kinds(self.model, modules))

    @property
    def effect_modules(self) -> Sequence[str]:
        return self.cut_modules if "effect" in self.kinds else ()

    def input_of(self, example: Labelled) -> str | tuple[str, ...]:
        return example.texts if example.texts[1:] else example.texts[0]

    def description(self) -> Json:
        return super().description() | {
            "kind": "pair" if self.paired else "document",
            "model": self.config.sizes.name,
            **({"classes": [*self.outputs.labels]} if self.outputs.labels else {}),
        }

    def record(self, example: Text) -> Json:
        """Return the text as its line."""
        return {"text": "\t".join(example) if isinstance(example, tuple) else example}

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Labelled]:
        """Return the rows of tables with the columns of the run's own."""
        data = self.config.data.with_columns(options.columns, skip_bad=options.skip_bad)
        return [example for file in files for example in data.read(str(file))]

    def log_examples(self, examples: Sequence[Labelled]) -> None:
        if isinstance(self.outputs, ClassOutputs):
            log_constant_accuracy(count_labels(examples))
        self._report_cut(examples)

    def compute_metrics(
        self, examples: Sequence[Labelled], options: EvaluationOptions
    ) -> Metrics:
        """Return the metrics of the outputs."""
        targets = self.outputs.targets(examples)
        return self.outputs.metrics(self.compute_logits(examples), targets)

    def compute_logits(self, examples: Sequence[Labelled]) -> Logits:
        """Return the logits of examples, on the CPU.

        Raises:
            InputError: An example is longer than the model takes, without `truncate`.
        """
        parts = [(self.form.encode(example), 0) for example in examples]
        longest = max((self.form.positions(text) for text, _ in parts), default=1)
        rows = max(1, min(self.rows, POSITIONS // longest))
        empty = torch.zeros(0, self.outputs.count)
        return torch.stack([*self.compute_outputs(parts, rows)]) if parts else empty

    def _report_cut(self, examples: Sequence[Labelled]) -> None:
        if limit := self.form.limit():
            report_cut(limit, sum(map(self.form.is_cut, examples)), len(examples))

    def _predict(self, examples: Sequence[Text], options: PredictOptions) -> list[P]:
        numbered = enumerate(examples, 1)
        texts = [self._label(text, f"text {number}") for number, text in numbered]
        logits = self.compute_logits(texts)
        self._report_cut(texts)
        return self.outputs.predictions(logits)

    def _find_output(
        self, example: Text, options: AttributionOptions, forced: int
    ) -> ScoredOutput:
        labelled = self._label(example)

        def predict() -> tuple[list[str], Any]:
            (prediction,) = self._predict([example], PredictOptions())
            return [prediction.text], prediction

        return ScoredOutput(
            predict()[0],
            self.outputs.labels or ["number"],
            lambda: self.outputs.score(self._logits(labelled))[0],
            predict,
            largest=LISTED,
            is_number=not self.outputs.labels,
            plan=partial(self.form.plan, labelled),
        )

    def _attribute(self, text: Text, options: AttributionOptions) -> Attribution:
        """Return the attention to tokens, words or sentences, or their gradients.

        Raises:
            InputError: The model has no such kind or no such map.
        """
        example = self._label(text)
        maps = options.maps
        several = self.form.several and maps is None
        default: Kind = "rollout" if several else "weights"
        kinds = options.list_kinds(default)
        check_kinds(kinds, self.kinds)
        (prediction,) = self._predict([text], PredictOptions())
        lookups, weights = zip(
            *(
                self._attribute_kind(example, prediction, kind, maps, options.cut)
                for kind in kinds
            ),
            strict=True,
        )
        return Attribution(
            prediction,
            str(prediction),
            (with_maps(*lookups),),
            weights[0],
            options,
            has_heads=self.form.several and kinds[0] not in WHOLE_MODEL,
            detail=DETAILS[default] if isinstance(weights[0], TextWeights) else "",
            sides=("first text", "second text"),
        )

    def _attribute_kind(
        self,
        example: Labelled,
        prediction: Any,
        kind: Kind,
        maps: Sequence[int] | None,
        cut: str,
    ) -> tuple[Lookups, Weights]:
        """Return the maps of every layer and head of one kind, and one map."""
        form = self.form
        if kind in WHOLE_MODEL:
            names = []

            def explain() -> torch.Tensor:
                name, value = self.outputs.explain(prediction, self._logits(example))
                names[:] = [name]
                return value

            if kind == "effect":
                assert isinstance(form, RowTexts)
                modules = str(form.attention_modules)
                cuts = choose_cuts(cut, form.side(example))
                with torch.no_grad():
                    effects = measure_effects(
                        self.model, modules, lambda _: explain()[None], cuts, maps
                    )
                amounts = torch.from_numpy(effects)[:, None]
                contributions = [Contribution(None, amounts)]
            else:
                refuse_maps(maps, GRADIENT)
                contributions = compute_contributions(
                    find_embeddings(self.model), explain, GRADIENTS[kind]
                )
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
        """Return every layer and head, and what the class attends to in the text."""

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
        return self.call([(self.form.encode(example), 0)])

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
                expected = (
                    "two: 'FIRST' 'SECOND', in a line with a tab between, or in "
                    "Python [(FIRST, SECOND)]"
                )
            raise InputError(f"{place}: is {count}; the model classifies {expected}")
        return Labelled(texts, "", place, sentences)


class ClassificationRun(OutputsRun[ClassPrediction]):
    """A trained model that chooses the class of a text or a pair of texts."""

    does = "Chooses the class of a text, or of two texts."

    @classmethod
    def load_outputs(cls, folder: RunDirectory, config: Any) -> ClassOutputs:
        return ClassOutputs(tuple(folder.read_labels()))


def setup(config: Classification, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    Raises:
        InputError: The texts or the model are invalid.
    """
    splits = config.data.load()
    counts = count_labels(splits.train)
    rows = sum(counts.values())
    single = [label for label, count in counts.items() if count == 1]
    if rows >= FEW and 2 * len(single) > rows:
        raise InputError(
            f"{config.data.train}: {len(single):,} of {rows:,} training rows have a class "
            f"of their own, such as {quote(single[0])}; expected a few classes: set "
            "data.label to their column, or learn numbers by the recipe regression"
        )
    labels = sort_labels(counts, config.data.train, config.training.start)
    weights = compute_class_weights(config.class_weights, labels, counts)
    result = text_setup(config, folder, splits, ClassOutputs(tuple(labels), weights))
    simplest = describe_constant_accuracy(count_labels(splits.valid))
    return replace(result, simplest=simplest)


def text_setup(
    config: TextConfig,
    folder: RunDirectory,
    splits: Splits[Labelled],
    outputs: Outputs,
) -> Setup:
    """Build tokenizer, model and objective for texts whose labels are these outputs.

    Raises:
        InputError: The texts or the model are invalid.
    """
    tokenizer, model = config.build(
        folder,
        splits.train,
        lambda examples: (text for example in examples for text in example.texts),
        lambda sizes, words: CLASSIFIERS.build(sizes, words, outputs.count),
    )
    for module in model.modules():
        if isinstance(module, ElmoEmbedding):
            module.spellings.copy_(spell_vocabulary(tokenizer, module.elmo.characters))
    run = ClassificationRun(config, model, tokenizer, outputs)
    # all sets must fit before training begins
    parts, *_ = map(run.encode_all, (splits.train, splits.valid, splits.test))
    return setup_task(
        run,
        ReadingObjective(run, splits, parts),
        splits,
        digest_splits(
            splits,
            lambda e: "\0".join((*e.texts, *e.sentences, str(e.label))) + "\n",
        ),
        summarize(run, splits),
        details=[outputs.summary],
        files=outputs.files,
        fresh=("pooler.", "output."),
        pretrained={} if config.states is None else {"embedding.elmo": ""},
    )


def summarize(run: OutputsRun[Any], splits: Splits[Labelled]) -> DataSummary:
    """Summarize the texts, as the model reads them, and their labels."""
    form = run.form
    sample = sample_evenly(splits.train)
    positions = [form.positions(form.tokenize(item)) for item in sample]
    cut = 100 * sum(map(form.is_cut, sample)) / len(sample)
    first = splits.train[0]
    rows = [run.tokenizer.encode(text) for text in first.texts]
    if isinstance(form, RowTexts):
        rows = [form.row(first)]
    label = ", ".join(first.label) if isinstance(first.label, tuple) else first.label
    tokens = "  |  ".join(describe_tokens(run.tokenizer, ids) for ids in rows)
    return summarize_texts(
        run.config.data,
        splits,
        {"text": (run.tokenizer, lambda item: " ".join(item.texts))},
        unit="texts" if len(first.texts) == 1 else "pairs of texts",
        example={"text": tokens, "label": str(label)},
        lengths={"text": replace(Lengths.of(positions), cut=cut)},
        request=request_of(**dict(zip(run.inputs, first.texts, strict=False))),
        **run.outputs.describe(splits.train),
    )


TASK = Task(Classification, setup, ClassificationRun, command="")
