"""From a run file to what training needs."""

import hashlib

from regard.models.turing_machine import TuringMachine
from regard.tasks.algorithmic.config import BitSequencing
from regard.tasks.algorithmic.data import BitSequence
from regard.tasks.algorithmic.training import BitSequencesTask
from regard.tasks.setup import Job, digest
from regard.training.parameters import count_parameters


def prepare(config: BitSequencing) -> Job:
    """Generates the data and builds the rest.

    Raises:
        InputError: there is too little data.
    """
    splits = config.data.load()
    model = TuringMachine(config.data.input_width, config.data.output_width, config.model)
    return Job(
        model,
        BitSequencesTask(splits.train, splits.valid, config.training),
        digest(map(line, (*splits.train, *splits.valid))),
        f"{len(splits.train):,} sequences to train on, {len(splits.valid):,} to validate, {len(splits.test):,} to "
        f"test; {count_parameters(model):,} parameters",
        tests=splits.test,
    )


def line(each: BitSequence) -> str:
    """A digest of its numbers."""
    return hashlib.sha256(each.inputs.tobytes() + each.answer.tobytes()).hexdigest() + "\n"
