"""A trained model of several labels: `load(folder).predict(texts)`."""

from collections.abc import Sequence
from typing import Any

from regard.models.catalog import build_classifier
from regard.models.classifier import Classifier
from regard.storage.run_folder import RunDirectory
from regard.tasks.classification.run import TextRun
from regard.tasks.multi_label.config import MultiLabel
from regard.tasks.multi_label.outputs import LabelOutputs, LabelsPrediction
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer


class MultiLabelRun(TextRun[LabelsPrediction]):
    """A trained model that predicts the labels of a text or a pair of texts."""

    def __init__(
        self,
        config: MultiLabel,
        model: Classifier,
        tokenizer: Tokenizer,
        labels: Sequence[str],
    ):
        self.labels, self.threshold = tuple(labels), config.threshold
        super().__init__(
            config, model, tokenizer, LabelOutputs(self.labels, config.threshold)
        )

    @classmethod
    def open(cls, run: RunDirectory, config: MultiLabel) -> "MultiLabelRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged file."""
        tokenizer, labels = Tokenizer.load(run.file(TOKENIZER)), run.read_labels()
        return cls(
            config,
            build_classifier(config.classifier, tokenizer.size, len(labels)),
            tokenizer,
            labels,
        )

    def description(self) -> dict[str, Any]:
        return super().description() | {"classes": list(self.labels)}

    def convention(self) -> str | None:
        return f"a text has the labels with a probability of at least {self.threshold:g} (threshold in the run file)"
