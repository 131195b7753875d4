"""The meaning of a text model's outputs: classes here; numbers and several labels in their own rooms."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attribution.gradients import select_log_probabilities
from regard.data.batches import (
    batch_size,
    require_room,
    spell_vocabulary,
    token_batches,
)
from regard.data.cache import CachedSet, LazyMap, LazySequence, cache_table
from regard.data.delimited import find_partner
from regard.data.shards import Ragged, Shard, ShardTable
from regard.data.splits import Splits
from regard.data.tables import names_in
from regard.models.catalog import build_classifier
from regard.models.classifier import Classifier
from regard.models.elmo import ElmoEmbedding
from regard.shapes import Float, Int
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.base import Setup, digest_splits
from regard.tasks.class_prediction import (
    ClassPrediction,
    check_distinct,
    compute_class_metrics,
    compute_class_weights,
    count_labels,
    describe_constant_accuracy,
    imbalance,
    index_classes,
    sort_labels,
    warn_labels,
)
from regard.tasks.classification.config import Classification, TextConfig, form_of
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.classification.inputs import Form, LabelledBatch, Target
from regard.tasks.fine_tuning import add_vector_texts, initialize_word_vectors
from regard.tasks.prediction import Prediction
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    abridge,
    describe_rows,
    measure_unknown_shares,
    request_of,
    sample_evenly,
    sort_counts,
    warn_repeated,
    warn_unknown,
)
from regard.tasks.tokenizers import TOKENIZER, load_or_train
from regard.text import Tokenizer
from regard.training.devices import count_parameters
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training
from regard.work import compute_batches


@dataclass(frozen=True)
class LabelSummary:
    """The labels of training examples: how often each class occurs or what the numbers are, the first one, and what is
    probably not meant."""

    counts: Mapping[str, int] = field(default_factory=dict)
    numbers: str = ""
    first: str = ""
    warnings: tuple[str, ...] = ()


T = TypeVar("T", bound=Target)
P = TypeVar("P", bound=Prediction)


class Outputs(ABC, Generic[T, P]):
    """The targets, loss, predictions and metrics of logits `(text, output)`.

    problem: the name of such outputs in published configurations, transformers' `problem_type`.
    metric, higher_is_better: the metric that chooses the best weights.
    """

    problem: str
    metric: str
    higher_is_better = True

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of outputs."""

    @property
    @abstractmethod
    def files(self) -> Mapping[str, Any]:
        """What the run keeps of them, by the names of JSON files."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """A phrase for the log."""

    @abstractmethod
    def targets(self, examples: Sequence[Labelled[Any]]) -> list[T]:
        """Return the target of each example.

        Raises:
            InputError: One that the model cannot predict.
        """

    def labels_of(self, examples: Sequence[Labelled[Any]]) -> LabelSummary:
        """Return what the summary of the data says of the labels of training examples."""
        return LabelSummary()

    @abstractmethod
    def loss(
        self, logits: Float[Tensor, "text output"], targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """Return the loss, summed over the texts; `smoothing` is that of the targets."""

    @abstractmethod
    def predictions(self, logits: Float[Tensor, "text output"]) -> list[P]:
        """Return the prediction for each text."""

    @abstractmethod
    def metrics(
        self, logits: Float[Tensor, "text output"], targets: Sequence[T]
    ) -> dict[str, float]:
        """Return the metrics of at least one text."""

    @abstractmethod
    def explain(
        self, prediction: P, logits: Float[Tensor, "1 output"]
    ) -> tuple[str, Float[Tensor, " 1"]]:
        """Return the part of a prediction that a gradient explains.

        Its name, and its value, a function of the logits.
        """


@dataclass(frozen=True)
class NamedOutputs(Outputs[T, P]):
    """A logit for each of these labels."""

    labels: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.labels)

    @property
    def files(self) -> Mapping[str, Any]:
        return {LABELS: list(self.labels)}


@dataclass(frozen=True)
class ClassOutputs(NamedOutputs[int, ClassPrediction]):
    """A logit for each of several classes of which a text has one.

    `weights` are those of the classes in the loss; none are all 1.
    """

    weights: tuple[float, ...] = ()

    problem, metric = "single_label_classification", "accuracy"

    @property
    def summary(self) -> str:
        return f"{len(self.labels)} classes"

    def targets(self, examples: Sequence[Labelled[str]]) -> list[int]:
        return index_classes(self.labels, examples)

    def labels_of(self, examples: Sequence[Labelled[str]]) -> LabelSummary:
        """The classes with their counts, and labels that are probably no classes."""
        classes = sort_counts(count_labels(examples))
        warnings = warn_labels(classes)
        return LabelSummary(
            classes,
            "",
            examples[0].label,
            (*warnings, *([] if self.weights else imbalance(classes))),
        )

    def loss(
        self, logits: Float[Tensor, "text output"], targets: Tensor, smoothing: float
    ) -> Float[Tensor, ""]:
        """Return the weighted cross-entropy of the classes."""
        weights = logits.new_tensor(self.weights) if self.weights else None
        return functional.cross_entropy(
            logits, targets, weights, reduction="sum", label_smoothing=smoothing
        )

    def predictions(
        self, logits: Float[Tensor, "text output"]
    ) -> list[ClassPrediction]:
        return [
            ClassPrediction.of(self.labels, row) for row in logits.softmax(-1).tolist()
        ]

    def metrics(
        self, logits: Float[Tensor, "text output"], targets: Sequence[int]
    ) -> dict[str, float]:
        """Return accuracy and macro-averaged F1, in per cent."""
        return compute_class_metrics(logits.softmax(-1), targets)

    def explain(
        self, prediction: ClassPrediction, logits: Float[Tensor, "1 output"]
    ) -> tuple[str, Float[Tensor, " 1"]]:
        """Return the log-probability of the most likely class."""
        return prediction.label, select_log_probabilities(
            logits, [self.labels.index(prediction.label)]
        )


Example = tuple[Any, Target]
"""An example encoded by the model's form, and its target."""


@dataclass(frozen=True, eq=False)
class TrainingTexts:
    """The texts of examples, one after the other, as often as they are iterated over."""

    examples: Sequence[Labelled[Any]]

    def __iter__(self) -> Iterator[str]:
        return (text for item in self.examples for text in item.texts)


@dataclass(frozen=True, eq=False)
class EncodedTexts(LazySequence[Example]):
    """Examples of a table on disk: each in JSON, and its number of positions in a batch. JSON has no tuples, so `kind`
    is what the form makes of an example, tuple or list."""

    table: ShardTable
    kind: type

    def __len__(self) -> int:
        return len(self.table)

    def item(self, index: int) -> Example:
        """Return the example at an index."""
        shard, place = self.table.at(index)
        encoded, target = json.loads(shard.columns["example"].text(place))
        return self.kind(encoded), target

    @property
    def positions(self) -> Int[np.ndarray, " example"]:
        """The positions of each example in a batch."""
        return np.concatenate(
            [shard.columns["positions"].values for shard in self.table.shards]
        )


def encode_texts(
    examples: Sequence[Labelled[Any]], form: Form[Any], outputs: Outputs[Any, Any]
) -> Sequence[Example]:
    """Return examples with their targets; those on disk are encoded once.

    Raises:
        InputError: An example that the model cannot take or predict.
    """

    def encode(group: Sequence[Labelled[Any]]) -> Shard:
        rows = [form.encode(item) for item in group]
        pairs = zip(rows, outputs.targets(group), strict=True)
        columns = {
            "example": Ragged.of_texts(json.dumps(pair) for pair in pairs),
            "positions": Ragged.of_ids([[form.positions(row)] for row in rows]),
        }
        return Shard(columns, {})

    if not isinstance(examples, CachedSet):
        return list(
            zip(map(form.encode, examples), outputs.targets(examples), strict=True)
        )
    name = f"{type(form).__name__} {form.tokenizer.digest} {form.config} {form.truncate} {outputs.files}"
    return EncodedTexts(
        cache_table(examples, name, encode), type(form.encode(examples[0]))
    )


def lengths_of(
    examples: Sequence[Example], form: Form[Any]
) -> Int[np.ndarray, "example 2"]:
    """Return the positions of each example, twice: as a source and as a target."""
    if isinstance(examples, EncodedTexts):
        positions = examples.positions
    else:
        positions = np.array(
            [form.positions(item) for item, _ in examples], dtype=np.int32
        )
    return np.stack([positions, positions], 1)


MOSTLY = 80.0
"""Per cent of the texts that are cut, worth a warning."""


def text_summary(
    config: TextConfig,
    splits: Splits[Labelled[Any]],
    form: Form[Any],
    outputs: Outputs[Any, Any],
) -> DataSummary:
    """The summary of texts and their labels, whose lengths are those of the inputs of the model's form."""
    labels = outputs.labels_of(splits.train)
    unknown = measure_unknown_shares(
        form.tokenizer,
        {
            name: [" ".join(item.texts) for item in sample_evenly(group)]
            for name, group in splits.named.items()
        },
    )
    first, lengths = splits.train[0], _lengths(sample_evenly(splits.train), form)
    return DataSummary(
        unit=unit_of(first),
        rows=describe_rows(config.data, splits),
        classes=labels.counts,
        labels=labels.numbers,
        lengths={"text": lengths},
        unknown=unknown,
        unknown_unit=form.tokenizer.unknown_unit,
        example={
            "text": example(first, form),
            "label": labels.first or str(first.label),
        },
        request=request_of(**dict(zip(("text", "second"), first.texts, strict=False))),
        warnings=(
            *labels.warnings,
            *_unread(config),
            *mostly_cut(config.classifier, lengths),
            *warn_repeated(config.data, splits, lambda entry: entry.texts),
            *warn_unknown(form.tokenizer, unknown),
        ),
    )


def unit_of(example: Labelled[Any]) -> str:
    """Return what the examples of a set are, as this one."""
    return "texts" if len(example.texts) == 1 else "pairs of texts"


def _unread(config: TextConfig) -> list[str]:
    """Return a warning where the table has the other text of pairs.

    It the run file does not name.
    """
    data = config.data
    if (
        not isinstance(data, LabelledTables)
        or data.second is not None
        or data.train is None
        or isinstance(data.text, int)
    ):
        return []
    second = find_partner(data.text, names_in(data.train))
    if second is None:
        return []
    return [
        f"{data.train} has a column {second!r} beside {data.text!r}, which is not read: this model reads one text; for "
        f"pairs set data.second={second} and choose a model of two texts"
    ]


def mostly_cut(model: Any, lengths: Lengths) -> list[str]:
    """Return a warning where a model with a context reads nearly all texts in part."""
    context = getattr(model, "context", None)
    if lengths.cut < MOSTLY or context is None:
        return []
    return [
        f"{lengths.cut:.3g} % of the texts are cut to model.context, {context}; a larger one reads more of them"
    ]


def _lengths(group: Sequence[Labelled[Any]], form: Form[Any]) -> Lengths:
    """Positions of whole examples, special tokens included, and the share of those that the model reads in part."""
    result = Lengths.of([form.whole(item) for item in group])
    cut = sum(form.is_cut(entry, form.encode(entry)) for entry in group)
    return Lengths(result.median, result.longest, 100 * cut / len(group))


def example(first: Labelled[Any], form: Form[Any]) -> str:
    """Return the tokens of an example as the model reads them."""
    full = form.pieces(first)
    if full is not None:
        return abridge(full, len(full))
    texts = [form.tokenizer.pieces(form.tokenizer.encode(text)) for text in first.texts]
    return "  |  ".join(abridge(pieces, len(pieces)) for pieces in texts)


ROWS, POSITIONS = 64, 2**16
"""The maximum of texts in a batch of evaluation, and of their positions unless one text has more."""


class TextObjective:
    """The loss of the model's outputs."""

    def __init__(
        self,
        train: Sequence[Example],
        valid: Sequence[Example],
        form: Form[Any],
        outputs: Outputs[Any, Any],
        settings: Training,
        *,
        places: Sequence[str],
    ):
        """`places` are the files and lines of the training texts.

        Raises:
            InputError: No texts, and for one longer than a batch.
        """
        self.train, self.valid, self.form, self.outputs = train, valid, form, outputs
        self.settings, self.places = settings, places
        self.metric, self.higher_is_better = outputs.metric, outputs.higher_is_better
        self.lengths = lengths_of(train, form)
        self.tokens = batch_size(self.lengths, settings.batch_tokens, "training texts")
        require_room(self.lengths, settings.batch_tokens, self.place, "text")

    def place(self, index: int) -> str:
        """Return where a training text came from."""
        return self.places[index]

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> LabelledBatch:
        return self.form.collate([self.train[index] for index in indices])

    def loss(
        self,
        model: nn.Module,
        batch: LabelledBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        total = self.outputs.loss(
            model(*batch.inputs), batch.targets, self.settings.label_smoothing
        )
        return Loss(total, len(batch.targets), read=batch.size)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Classifier)
        result = logits_of(model, self.form, [item for item, _ in self.valid])
        return self.outputs.metrics(result, [entry for _, entry in self.valid])


@torch.no_grad()
def logits_of(
    model: Classifier, form: Form[Any], texts: Sequence[Any]
) -> Float[Tensor, "text output"]:
    """Return the logits of each encoded text."""
    device = next(model.parameters()).device

    def logits(group: list[Any]) -> Tensor:
        return model(
            *form.collate([(item, 0) for item in group]).to(device).inputs
        ).cpu()

    return torch.cat(
        [
            torch.zeros(0, model.output.out_features),
            *compute_batches(logits, parts(texts, form)),
        ]
    )


def parts(texts: Sequence[Any], form: Form[Any]) -> Iterator[list[Any]]:
    """Return consecutive texts, as many in a batch as fit."""
    group: list[Any] = []
    positions = 0
    for text in texts:
        extra = form.positions(text)
        if group and (len(group) == ROWS or positions + extra > POSITIONS):
            yield group
            group, positions = [], 0
        group.append(text)
        positions += extra
    if group:
        yield group


PRETRAINED = {"embedding.elmo": ""}
"""The part of a model that is pretrained, with the prefix of its parameters in the run of its states."""


def setup(config: Classification, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective.

    A tokenizer in the folder is reused.

    Raises:
        InputError: the texts or the model are invalid.
    """
    splits = config.data.load()
    counts = count_labels(splits.train)
    check_distinct(counts, config.data.train)
    labels = sort_labels(counts, config.data.train, config.training.start)
    weights = compute_class_weights(config.class_weights, labels, counts)
    result = text_setup(config, folder, splits, ClassOutputs(tuple(labels), weights))
    return replace(
        result, simplest=describe_constant_accuracy(count_labels(splits.valid))
    )


def text_setup(
    config: TextConfig,
    folder: RunDirectory,
    splits: Splits[Labelled[Any]],
    outputs: Outputs[Any, Any],
) -> Setup:
    """Build tokenizer, model and objective for texts whose labels are these outputs.

    Raises:
        InputError: As `setup`.
    """
    texts = TrainingTexts(splits.train)
    extra = (
        ()
        if config.vectors is None
        else add_vector_texts(config.vectors, list(texts), folder)
    )
    tokenizer = load_or_train(folder, config.tokenizer_settings, extra or texts)
    model = build_classifier(config.classifier, tokenizer.size, outputs.count)
    initialize_word_vectors(model, config.vectors, tokenizer, extra, folder)
    spell_out(model, tokenizer)
    form = form_of(config.classifier, tokenizer, truncate=config.truncate)
    train, valid, _ = (
        encode_texts(group, form, outputs)
        for group in (splits.train, splits.valid, splits.test)
    )
    return Setup(
        model,
        TextObjective(
            train,
            valid,
            form,
            outputs,
            config.training,
            places=LazyMap(splits.train, place_of),
        ),
        texts_digest(splits),
        f"{len(train):,} {unit_of(splits.train[0])} to train on, {len(valid):,} to validate, {len(splits.test):,} to "
        f"test; {outputs.summary}; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        files=outputs.files,
        fresh=("pooler.", "output."),
        data=text_summary(config, splits, form, outputs),
        pretrained={} if config.states is None else PRETRAINED,
    )


def place_of(example: Labelled[Any]) -> str:
    """Return the file and line of an example."""
    return example.place


def texts_digest(splits: Splits[Labelled[Any]]) -> str:
    """Return the digest of the training and the validation texts."""
    return digest_splits(splits, _written)


def _written(item: Labelled[Any]) -> str:
    return "\0".join((*item.texts, *item.sentences, str(item.label))) + "\n"


def spell_out(model: nn.Module, tokenizer: Tokenizer) -> None:
    """Set the spellings of each ELMo embedding of the model to those of the tokenizer's vocabulary."""
    for module in model.modules():
        if isinstance(module, ElmoEmbedding):
            module.spellings.copy_(spell_vocabulary(tokenizer, module.elmo.characters))
