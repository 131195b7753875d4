"""The training of text models, and the meaning of their outputs: classes here."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attribution.gradients import select_log_probabilities
from regard.data.batches import spell_vocabulary
from regard.data.cache import Chunks, split_into_chunks
from regard.data.splits import Splits
from regard.errors import InputError, quote
from regard.models.catalog import CLASSIFIERS
from regard.models.elmo import ElmoEmbedding
from regard.shapes import Float
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.base import (
    TOKENIZER,
    Setup,
    TextBatch,
    TokenBatchObjective,
    compute_outputs,
    digest_splits,
    setup_task,
)
from regard.tasks.class_prediction import (
    ClassPrediction,
    compute_class_metrics,
    compute_class_weights,
    count_labels,
    describe_constant_accuracy,
    index_classes,
    sort_labels,
)
from regard.tasks.classification.config import Classification, TextConfig
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.inputs import Example, Form, RowTexts, Texts
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    count_classes,
    describe_tokens,
    request_of,
    sample_evenly,
    summarize_texts,
)
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training

ROWS, POSITIONS = 64, 2**16
"""Largest number of texts in a batch of inference, and of their positions."""
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
    def files(self) -> Mapping[str, Any]:
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
    def describe(self, examples: Sequence[Labelled]) -> dict[str, Any]:
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
    def metrics(self, logits: Logits, targets: Sequence[Any]) -> dict[str, float]:
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

    def describe(self, examples: Sequence[Labelled]) -> dict[str, Any]:
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

    def metrics(self, logits: Logits, targets: Sequence[int]) -> dict[str, float]:
        """Return accuracy and macro-averaged F1, in percent."""
        return compute_class_metrics(logits.softmax(-1), targets)

    def explain(
        self, prediction: ClassPrediction, logits: Logits
    ) -> tuple[str, Float[Tensor, "1"]]:
        """Return the log-probability of the most likely class."""
        label = prediction.label
        return label, select_log_probabilities(logits, [self.labels.index(label)])


def encode_texts(
    examples: Sequence[Labelled], form: Form, outputs: Outputs
) -> Chunks[Example]:
    """Encode examples with their targets; those on disk are encoded once.

    Raises:
        InputError: The model cannot take or predict an example.
    """

    def encode(example: Labelled) -> list[Example]:
        return [(form.encode(example), *outputs.targets([example]))]

    name = f"texts {type(form).__name__} {form.tokenizer.digest} {form.config} "
    name += f"{form.truncate} {outputs.files}"
    return split_into_chunks(
        examples,
        name,
        encode,
        lambda pair: form.positions(pair[0]),
        lambda *pair: pair,
    )


class TextObjective(TokenBatchObjective[Example, TextBatch]):
    """The loss of the model's outputs for labelled texts."""

    def __init__(
        self,
        splits: Splits[Labelled],
        form: Form,
        outputs: Outputs,
        settings: Training,
    ):
        """Encode the examples of training and validation.

        Raises:
            InputError: There are no texts, or the model cannot take one.
        """
        self.examples = splits.train
        self.form = form
        self.outputs = outputs
        self.metric = outputs.metric
        self.higher_is_better = outputs.higher_is_better
        train = encode_texts(splits.train, form, outputs)
        valid = encode_texts(splits.valid, form, outputs)
        super().__init__(
            train,
            valid,
            settings,
            train.sides,
            "texts",
        )

    def place(self, index: int) -> str:
        return self.examples[index].place

    def collate(self, examples: Sequence[Example]) -> TextBatch:
        return self.form.collate(examples)

    def loss(
        self,
        model: nn.Module,
        batch: TextBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        logits = model(*batch.inputs)
        smoothing = self.settings.label_smoothing
        total = self.outputs.loss(logits, batch.targets, smoothing)
        return Loss(total, len(batch.targets), read=batch.size)

    def validate(self, model: nn.Module) -> dict[str, float]:
        logits = compute_logits(model, self.form, [texts for texts, _ in self.valid])
        return self.outputs.metrics(logits, [target for _, target in self.valid])


def compute_logits(model: Any, form: Form, texts: Sequence[Texts]) -> Logits:
    """Return the logits of encoded texts, on the CPU."""
    examples = [[(text, 0) for text in group] for group in group_texts(texts, form)]
    batches = compute_outputs(model, form.collate, examples)
    return torch.cat([torch.zeros(0, model.output.out_features), *batches])


def group_texts(texts: Sequence[Texts], form: Form) -> Iterator[list[Texts]]:
    """Yield consecutive texts, as many as fit into a batch."""
    group: list[Texts] = []
    for text in texts:
        positions = sum(map(form.positions, [*group, text]))
        if group and (len(group) == ROWS or positions > POSITIONS):
            yield group
            group = []
        group.append(text)
    if group:
        yield group


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
    form = config.form(tokenizer)
    objective = TextObjective(splits, form, outputs, config.training)
    encode_texts(splits.test, form, outputs)  # it must fit before training begins
    return setup_task(
        model,
        objective,
        splits,
        digest_splits(
            splits,
            lambda e: "\0".join((*e.texts, *e.sentences, str(e.label))) + "\n",
        ),
        summarize(config, splits, form, outputs),
        details=[outputs.summary, f"a vocabulary of {tokenizer.size:,}"],
        tokenizers={TOKENIZER: tokenizer},
        files=outputs.files,
        fresh=("pooler.", "output."),
        pretrained={} if config.states is None else {"embedding.elmo": ""},
    )


def summarize(
    config: TextConfig,
    splits: Splits[Labelled],
    form: Form,
    outputs: Outputs,
) -> DataSummary:
    """Summarize the texts, as the model reads them, and their labels."""
    sample = sample_evenly(splits.train)
    tokenizer = form.tokenizer
    lengths = Lengths.of([form.positions(form.tokenize(item)) for item in sample])
    cut = sum(map(form.is_cut, sample))
    first = splits.train[0]
    rows = [tokenizer.encode(text) for text in first.texts]
    if isinstance(form, RowTexts):
        rows = [form.row(first)]
    label = ", ".join(first.label) if isinstance(first.label, tuple) else first.label
    tokens = "  |  ".join(describe_tokens(tokenizer, ids) for ids in rows)
    summary = summarize_texts(
        config.data,
        splits,
        {"text": (tokenizer, lambda item: " ".join(item.texts))},
        unit="texts" if len(first.texts) == 1 else "pairs of texts",
        example={"text": tokens, "label": str(label)},
        **outputs.describe(splits.train),
    )
    return replace(
        summary,
        lengths={"text": replace(lengths, cut=100 * cut / len(sample))},
        request=request_of(**dict(zip(("text", "second"), first.texts, strict=False))),
    )
