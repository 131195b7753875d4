"""A trained machine with a tape, opened: `load(folder).predict(texts)`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from regard.attention.record import record
from regard.errors import InputError
from regard.maps.tape_use import TapeUse
from regard.models.turing_machine import TuringMachine
from regard.nonfinite import guarded
from regard.storage.run_folder import RunDirectory
from regard.tasks.algorithmic.batch import collate_bits
from regard.tasks.algorithmic.config import Algorithmic
from regard.tasks.algorithmic.data import BitSequence
from regard.tasks.algorithmic.training import figures
from regard.tasks.run import Run, refuse_one_text


@dataclass(frozen=True, eq=False)
class Said:
    """An answer: `probabilities` of each bit that it is 1, and what was done on the tape on the way."""

    probabilities: Float[np.ndarray, "position output_width"]
    tape: TapeUse

    @property
    def text(self) -> str:
        """The likelier bits, vectors between blanks."""
        return " ".join("".join(str(int(bit)) for bit in row) for row in self.probabilities > 0.5)


class AlgorithmicRun(Run):
    """A trained model with its run file."""

    def __init__(self, config: Algorithmic, model: TuringMachine):
        self.config, self.model = config, model

    @classmethod
    def open(cls, run: RunDirectory, config: Algorithmic) -> "AlgorithmicRun":
        """The run in a folder, its model with fresh weights."""
        return cls(config, TuringMachine(config.data.input_width, config.data.output_width, config.model))

    def evaluate(self, examples: Sequence[BitSequence] | None = None, *, rows: int | None = None) -> dict[str, float]:
        """What an answer costs in bits, by default on the run's own test set, and on a tape of so many `rows`, by
        default the run's own.

        Raises:
            InputError: the run has no test set and no sequences are given.
        """
        sequences = self.config.data.load().test if examples is None else examples
        if not sequences:
            raise InputError("there is no test set in the run file and no sequences are given; set data.test")
        with guarded(self.model):
            return figures(self.model, sequences, rows)

    def predict(self, texts: Sequence[str]) -> list[Said]:
        """The answer to each text: vectors of bits between blanks to copy, with `x3` behind them to say three times, or
        items with commas inside, `?` and one of them. A sequence of more steps than the tape has rows gets one of as
        many rows as steps.

        Raises:
            TypeError: `texts` is one text; put it in a list.
            InputError: a text is none of these, or has vectors of another width.
        """
        refuse_one_text(texts)
        asked = [self.config.data.read(text, f"text {number}") for number, text in enumerate(texts, 1)]
        return [self._said(each) for each in asked]

    @torch.no_grad()
    def _said(self, asked: BitSequence) -> Said:
        inputs = collate_bits([asked]).inputs.to(next(self.model.parameters()).device)
        with guarded(self.model), record(self.model, only="heads") as maps:
            logits = self.model(inputs, rows=max(self.config.model.rows, len(asked)))
        outputs = logits[0].double().sigmoid().cpu().numpy()
        weights = maps["heads"][0].double().cpu().numpy()
        reads = self.config.model.reads
        first = len(outputs) - len(asked.answer)
        shown = np.where(np.arange(len(outputs))[:, None] < first, np.nan, outputs)
        return Said(outputs[first:], TapeUse(asked.inputs, shown, weights[:reads], weights[reads:]))
