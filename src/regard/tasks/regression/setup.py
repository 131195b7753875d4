"""Set up training: data, tokenizer, model and objective from a run file."""

from pathlib import Path

from regard.errors import InputError
from regard.storage.run_folder import SCALE, RunDirectory
from regard.tasks.classification.setup import text_setup
from regard.tasks.regression.config import Regression
from regard.tasks.regression.outputs import NumberOutput
from regard.tasks.setup import Setup


def setup(config: Regression, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective; a tokenizer in the folder is reused, and the scale of
    the numbers of a run that training starts from.

    Raises:
        InputError: the texts, the numbers or the model are invalid.
    """
    splits = config.data.load()
    numbers = [each.label for each in splits.train]
    if min(numbers) == max(numbers):
        raise InputError(
            f"{config.data.train}: every label is {numbers[0]:g}; expected different numbers"
        )
    start = (
        None
        if config.training.start is None
        else RunDirectory.open(Path(config.training.start))
    )
    kept = start is not None and start.has(SCALE)
    output = (
        NumberOutput.read(start)
        if start is not None and kept
        else NumberOutput.of(numbers)
    )
    return text_setup(config, folder, splits, output)
