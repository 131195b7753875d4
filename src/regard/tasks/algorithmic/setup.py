"""Set up training: data, model and objective from a run file."""

import hashlib

from regard.data.splits import Splits
from regard.models.turing_machine import TuringMachine
from regard.storage.run_folder import RunDirectory
from regard.tasks.algorithmic.config import Algorithmic
from regard.tasks.algorithmic.data import BitSequence, Vectors
from regard.tasks.algorithmic.training import AlgorithmicObjective
from regard.tasks.setup import Setup, digest
from regard.tasks.summary import DataSummary, Lengths, abridged, rows
from regard.training.state import count_parameters


def setup(config: Algorithmic, folder: RunDirectory, processes: int) -> Setup:
    """Generate the data and build model and objective.

    Raises:
        InputError: there is too little data.
    """
    splits = config.data.load()
    model = TuringMachine(
        config.data.input_width, config.data.output_width, config.model
    )
    return Setup(
        model,
        AlgorithmicObjective(splits.train, splits.valid, config.training),
        digest(map(line, (*splits.train, *splits.valid))),
        f"{len(splits.train):,} sequences to train on, {len(splits.valid):,} to validate, {len(splits.test):,} to "
        f"test; {count_parameters(model):,} parameters",
        tests=splits.test,
        data=summary(config, splits),
    )


def summary(config: Algorithmic, splits: Splits[BitSequence]) -> DataSummary:
    """The sequences before training."""
    first = splits.train[0]
    return DataSummary(
        unit="sequences",
        rows=rows(config.data, splits),
        lengths={
            "inputs": Lengths.of([len(each) for each in splits.train]),
            "target": Lengths.of([len(each.target) for each in splits.train]),
        },
        example={"inputs": _bits(first.inputs), "target": _bits(first.target)},
    )


def _bits(vectors: Vectors) -> str:
    """The bits of some vectors, each without blanks."""
    return abridged(
        ["".join(f"{bit:.0f}" for bit in vector) for vector in vectors], len(vectors)
    )


def line(each: BitSequence) -> str:
    """The digest of a sequence."""
    return (
        hashlib.sha256(each.inputs.tobytes() + each.target.tobytes()).hexdigest() + "\n"
    )
