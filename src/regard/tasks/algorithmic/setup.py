"""Set up training: data, model and objective from a run file."""

import hashlib

from regard.models.turing_machine import TuringMachine
from regard.storage.run_folder import RunDirectory
from regard.tasks.algorithmic.config import Algorithmic
from regard.tasks.algorithmic.data import BitSequence
from regard.tasks.algorithmic.training import AlgorithmicObjective
from regard.tasks.setup import Setup, digest
from regard.training.state import count_parameters


def setup(config: Algorithmic, folder: RunDirectory, processes: int) -> Setup:
    """Generate the data and build model and objective.

    Raises:
        InputError: there is too little data.
    """
    splits = config.data.load()
    model = TuringMachine(config.data.input_width, config.data.output_width, config.model)
    return Setup(
        model,
        AlgorithmicObjective(splits.train, splits.valid, config.training),
        digest(map(line, (*splits.train, *splits.valid))),
        f"{len(splits.train):,} sequences to train on, {len(splits.valid):,} to validate, {len(splits.test):,} to "
        f"test; {count_parameters(model):,} parameters",
        tests=splits.test,
    )


def line(each: BitSequence) -> str:
    """The digest of a sequence."""
    return hashlib.sha256(each.inputs.tobytes() + each.target.tobytes()).hexdigest() + "\n"
