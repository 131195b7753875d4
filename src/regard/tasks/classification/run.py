"""A trained model that tells classes, opened: `load(folder).classify(texts)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.labelled import Labelled
from regard.data.marked import marked
from regard.errors import InputError
from regard.inference.within import Reading, within
from regard.models.bert_classifier import BertClassifier
from regard.nonfinite import guarded
from regard.tasks.classification.run_file import Classification
from regard.tasks.classification.task import encoded, figures, numbers, probabilities
from regard.tasks.run import Run, refuse_one_text
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer
from regard.training.run_directory import RunDirectory

LABELS = "labels.json"


@dataclass(frozen=True)
class Classified:
    """The most likely class, and the probability of every class, the most likely first."""

    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """That of the label."""
        return self.probabilities[self.label]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))


def classified(labels: Sequence[str], row: Sequence[float]) -> Classified:
    """The classes of a row of probabilities."""
    ranked = dict(sorted(zip(labels, row, strict=True), key=lambda pair: -pair[1]))
    return Classified(next(iter(ranked)), ranked)


class ClassificationRun(Run):
    """A trained model with its tokenizer, its labels and its run file."""

    def __init__(self, config: Classification, model: BertClassifier, tokenizer: Tokenizer, labels: Sequence[str]):
        self.config, self.model, self.tokenizer, self.labels = config, model, tokenizer, tuple(labels)

    @classmethod
    def open(cls, run: RunDirectory, config: Classification) -> "ClassificationRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged tokenizer."""
        tokenizer, labels = Tokenizer.load(run.file(TOKENIZER)), run.read_json(LABELS)
        return cls(config, BertClassifier(tokenizer.size, len(labels), config.encoder), tokenizer, labels)

    def evaluate(self, examples: Sequence[Labelled] | None = None) -> dict[str, float]:
        """How often the class is right, by default on the run's own test set.

        Raises:
            InputError: the run has no test set and no texts are given, or a label is not known or a text too long.
        """
        given = self.config.data.tests() if examples is None else examples
        if not given:
            raise InputError("there is no test set in the run file and no file is given; give a table")
        classes = numbers(self.labels, given)
        with guarded(self.model):
            return figures(probabilities(self.model, self._encoded(given)), classes)

    def classify(self, texts: Sequence[str | tuple[str, ...]]) -> list[Classified]:
        """The class of each text, or of each pair of texts.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: a text is given where the model was trained on pairs, or the other way round, or is too long.
        """
        refuse_one_text(texts)
        with guarded(self.model):
            found = probabilities(self.model, self._encoded(self._given(texts)))
        return [classified(self.labels, row) for row in found.tolist()]

    def look(self, text: str | tuple[str, ...], maps: Sequence[int] | None = None) -> Reading:
        """The class of a text, or of a pair of them, and which of its tokens, marks included, read which: the mean of
        all maps, or of those whose numbers, layer x heads + head, are given.

        Raises:
            InputError: as `classify`, and where the model has no such map.
        """
        (encoded,) = self._encoded(self._given([text]))
        with guarded(self.model):
            row, attention = within(
                self.model,
                self.model.self_attention,
                self.tokenizer.pieces(marked(*encoded)[0]),
                lambda: probabilities(self.model, [encoded])[0].tolist(),
                maps,
            )
        found = classified(self.labels, row)
        return Reading(f"{found.label}\t{found.probability:.4f}", attention)

    def _given(self, texts: Sequence[str | tuple[str, ...]]) -> list[Labelled]:
        """Raises InputError for one text where two are told of, and the other way round."""
        parts = [(each,) if isinstance(each, str) else tuple(each) for each in texts]
        expected = 1 if self.config.data.second is None else 2
        for number, each in enumerate(parts, 1):
            if len(each) != expected:
                raise InputError(
                    f"text {number}: is {'one text' if len(each) == 1 else f'{len(each)} texts'}; the model tells the "
                    f"class of {'one text' if expected == 1 else 'two, with a tab between on the command line'}"
                )
        return [Labelled(each, "", f"text {number}") for number, each in enumerate(parts, 1)]

    def _encoded(self, examples: Sequence[Labelled]):
        return encoded(examples, self.tokenizer, self.config.encoder.context, truncate=self.config.truncate)
