"""Set up training: environments, model and objective from a run file."""

import hashlib

from regard.storage.run_folder import RunDirectory
from regard.tasks.meta_rl.config import MetaRL
from regard.tasks.meta_rl.environments import Environments
from regard.tasks.meta_rl.training import MetaRLObjective, environments_of
from regard.tasks.setup import Setup, digest
from regard.tasks.summary import DataSummary, Lengths, Rows
from regard.training.state import count_parameters


def setup(config: MetaRL, folder: RunDirectory, processes: int) -> Setup:
    """Sample the environments for validation and test, and build model and objective.

    Raises:
        InputError: there are too few environments.
    """
    data, actor = config.data, config.actor()
    valid, tests = (
        environments_of(data, count, name)
        for count, name in ((data.valid, "valid"), (data.test, "test"))
    )
    return Setup(
        actor,
        MetaRLObjective(actor, valid, config),
        digest(map(line, valid)),
        f"{data.train:,} environments an epoch, {data.valid:,} to validate, {data.test:,} to test; {data.steps} steps "
        f"in each; {count_parameters(actor):,} parameters",
        tests=tests,
        data=DataSummary(
            unit="environments",
            rows={
                name: Rows(getattr(data, name), "generated")
                for name in ("train", "valid", "test")
            },
            lengths={"environment in steps": Lengths.of([data.steps])},
        ),
    )


def line(environments: Environments) -> str:
    """The digest of environments."""
    numbers = (
        environments.means.numpy().tobytes()
        + environments.transitions.numpy().tobytes()
    )
    return hashlib.sha256(numbers).hexdigest() + "\n"
