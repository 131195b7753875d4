"""Set up training: data, model and objective from a run file."""

from regard.data.splits import Splits
from regard.models.pointer_network import PointerNetwork
from regard.storage.run_folder import RunDirectory
from regard.tasks.pointer.config import Pointer
from regard.tasks.pointer.data import PointedSet
from regard.tasks.pointer.training import PointerObjective
from regard.tasks.setup import Setup, digest
from regard.tasks.summary import DataSummary, Lengths, rows
from regard.training.state import count_parameters


def setup(config: Pointer, folder: RunDirectory, processes: int) -> Setup:
    """Generate the data and build model and objective.

    Raises:
        InputError: there is too little data.
    """
    splits = config.data.load()
    model = PointerNetwork(config.data.width, config.model)
    return Setup(
        model,
        PointerObjective(splits.train, splits.valid, config.training),
        digest(_line(each) for each in (*splits.train, *splits.valid)),
        f"{len(splits.train):,} sets to train on, {len(splits.valid):,} to validate, {len(splits.test):,} to test; "
        f"{count_parameters(model):,} parameters",
        tests=splits.test,
        data=summary(config, splits),
    )


def summary(config: Pointer, splits: Splits[PointedSet]) -> DataSummary:
    """The sets before training."""
    first = splits.train[0]
    return DataSummary(
        unit="sets",
        rows=rows(config.data, splits),
        lengths={"set": Lengths.of([len(each.elements) for each in splits.train])},
        example={
            "set": "  ".join(
                " ".join(f"{number:.2f}" for number in element)
                for element in first.elements
            ),
            "places": " ".join(map(str, first.target)),
        },
    )


def _line(each: PointedSet) -> str:
    return f"{each.elements}\0{each.target}\n"
