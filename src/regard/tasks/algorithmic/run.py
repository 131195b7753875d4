"""A trained machine with a tape: `load(folder).predict(texts)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.attention.record import record
from regard.maps.tape_use import TapeUse
from regard.models.turing_machine import TuringMachine
from regard.nonfinite import guarded
from regard.pictures.tape import tape
from regard.storage.run_folder import RunDirectory
from regard.tasks.algorithmic.config import Algorithmic
from regard.tasks.algorithmic.data import BitSequence
from regard.tasks.algorithmic.training import collate_bits, figures
from regard.tasks.attribution import Attribution
from regard.tasks.evaluation import for_evaluation
from regard.tasks.options import AttributionOptions, EvaluationOptions, PredictOptions
from regard.tasks.prediction import ShortRepr
from regard.tasks.run import Run


@dataclass(frozen=True, eq=False, repr=False)
class BitPrediction(ShortRepr):
    """Predicted bits: `probabilities` of each that it is 1, and what was read and written on the tape."""

    probabilities: Float[np.ndarray, "position output_width"]
    tape: TapeUse

    @property
    def text(self) -> str:
        """The likelier bits, vectors between blanks."""
        return " ".join(
            "".join(str(int(bit)) for bit in row) for row in self.probabilities > 0.5
        )

    def lines(self) -> list[str]:
        """The bits."""
        return [self.text]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"answer": self.text, "probabilities": self.probabilities.tolist()}


class AlgorithmicRun(Run[str, BitPrediction]):
    """A trained model with its run file. An example is a text as `BitSequences.read` reads it: vectors of bits between
    blanks to copy, with `x3` behind them to repeat three times, or items with commas inside, `?` and one of them."""

    config: Algorithmic
    model: TuringMachine
    supports = {
        "predict": frozenset(),
        "evaluate": frozenset(),
        "attribute": frozenset(),
    }

    def __init__(self, config: Algorithmic, model: TuringMachine):
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: Algorithmic) -> "AlgorithmicRun":
        """The run in a folder, its model with fresh weights."""
        return cls(
            config,
            TuringMachine(
                config.data.input_width, config.data.output_width, config.model
            ),
        )

    def parse(self, line: str, place: str = "text 1") -> str:
        """The line. Raises InputError where it describes no sequence."""
        self.config.data.read(line, place)
        return line

    def record(self, example: str) -> dict[str, Any]:
        return {"bits": example}

    def _evaluate(
        self, examples: Sequence[BitSequence] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        """The cross-entropy of an output in bits, and the shares of wrong bits and of exact matches.

        Raises:
            InputError: there are neither examples nor a test set.
        """
        sequences = for_evaluation(
            examples,
            self.config.data,
            "set data.test",
            tests=lambda: self.config.data.load().test,
            valid=tuple,
        )
        with guarded(self.model):
            return figures(self.model, sequences)

    def _predict(
        self, examples: Sequence[str], options: PredictOptions
    ) -> list[BitPrediction]:
        """The output for each text. A sequence of more steps than the tape has rows is processed on a tape of as many
        rows as steps.

        Raises:
            InputError: a text describes no sequence, or has vectors of another width.
        """
        sequences = [
            self.config.data.read(text, f"text {number}")
            for number, text in enumerate(examples, 1)
        ]
        return [self._prediction(each) for each in sequences]

    def _attribute(self, example: str, options: AttributionOptions) -> Attribution:
        """What every head read from the tape at each step, and where it wrote."""
        (found,) = self._predict([example], PredictOptions())
        return Attribution(
            found,
            example,
            found.tape.lookups(),
            found.tape,
            options,
            draw=lambda title: tape(found.tape, title=title),
        )

    @torch.no_grad()
    def _prediction(self, sequence: BitSequence) -> BitPrediction:
        inputs = collate_bits([sequence]).inputs.to(
            next(self.model.parameters()).device
        )
        with guarded(self.model), record(self.model, only="heads") as maps:
            logits = self.model(inputs, rows=max(self.config.model.rows, len(sequence)))
        outputs = logits[0].double().sigmoid().cpu().numpy()
        weights = maps["heads"][0].double().cpu().numpy()
        reads = self.config.model.reads
        first = len(outputs) - len(sequence.target)
        shown = np.where(np.arange(len(outputs))[:, None] < first, np.nan, outputs)
        return BitPrediction(
            outputs[first:],
            TapeUse(sequence.inputs, shown, weights[:reads], weights[reads:]),
        )
