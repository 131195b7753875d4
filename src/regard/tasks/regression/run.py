"""A trained model of a number: `load(folder).predict(texts)`."""

from regard.models.catalog import build_classifier
from regard.models.classifier import Classifier
from regard.storage.run_folder import RunDirectory
from regard.tasks.classification.run import TextRun
from regard.tasks.prediction import Prediction
from regard.tasks.regression.config import Regression
from regard.tasks.regression.outputs import NumberOutput, NumberPrediction
from regard.tasks.tokenizer_file import TOKENIZER
from regard.text import Tokenizer


class RegressionRun(TextRun[NumberPrediction]):
    """A trained model that predicts the number of a text or a pair of texts."""

    def __init__(
        self,
        config: Regression,
        model: Classifier,
        tokenizer: Tokenizer,
        output: NumberOutput,
    ):
        super().__init__(config, model, tokenizer, output)
        self.column = config.data.label

    @classmethod
    def open(cls, run: RunDirectory, config: Regression) -> "RegressionRun":
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged file."""
        tokenizer, output = Tokenizer.load(run.file(TOKENIZER)), NumberOutput.read(run)
        return cls(
            config,
            build_classifier(config.classifier, tokenizer.size, output.count),
            tokenizer,
            output,
        )

    def titled(self, prediction: Prediction) -> str:
        """The number with the name of its column, or as a predicted number where the name says nothing."""
        if isinstance(self.column, int) or self.column == "label":
            return str(prediction)
        return f"predicted {self.column.replace('_', ' ')}: {prediction.text}"
