"""Set up training: data, tokenizer, model and objective from a run file."""

from regard.data.stored import remembered
from regard.errors import InputError
from regard.storage.run_folder import RunDirectory
from regard.tasks.class_prediction import in_order_of
from regard.tasks.classification.setup import text_setup
from regard.tasks.multi_label.config import MultiLabel
from regard.tasks.multi_label.outputs import LabelOutputs
from regard.tasks.setup import Setup


def setup(config: MultiLabel, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective; a tokenizer in the folder is reused.

    Raises:
        InputError: the texts or the model are invalid, or no training text has a label.
    """
    splits = config.data.load()
    train = splits.train
    labels = remembered(
        train,
        "labels of sets",
        lambda: sorted({label for each in train for label in each.label}),
    )
    if not labels:
        raise InputError(
            f"{config.data.train}: no text has a label; expected some in the column data.label"
        )
    labels = in_order_of(config.training.start, labels)
    return text_setup(
        config, folder, splits, LabelOutputs(tuple(labels), config.threshold)
    )
