"""The weights of a run that was stopped before its end, from its checkpoints."""

import logging
from collections.abc import Mapping

import torch
from torch import Tensor

from regard.errors import InputError
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.training.settings import Training

log = logging.getLogger("regard")


def weights(folder: RunDirectory, settings: Training) -> dict[str, Tensor]:
    """The weights of the best checkpoint, or of the newest one where none is validated, averaged where the run averages
    them. A line says which checkpoint it is. The folder is only read, since another process may be training the run.

    Raises InputError without a checkpoint, and for a damaged one."""
    found = folder.newest_checkpoint()
    if found is None:
        raise InputError(
            f"{folder.path}: has no {WEIGHTS} yet; finish its training with `regard train ... --out {folder.path} "
            "--resume`"
        )
    which = "newest"
    match found.state:
        case {"selection": {"best": [{"update": int(update)}, *_]}}:
            which, found = (
                "best",
                found if update == found.step else folder.checkpoint(update),
            )
    log.warning(
        "%s: this run is unfinished: its %s checkpoint, of update %d, is used; regard train --out %s --resume goes on",
        *(folder.path, which, found.step, folder.path),
    )
    own = found.tensors("model")
    return averaged(own, found.tensors("average")) if settings.average_decay else own


def averaged(
    own: Mapping[str, Tensor], average: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """A checkpoint's weights with their averages. It has tied weights by each name, their average by one: a weight
    without an average has that of an equal one."""
    rest = [name for name in own if name not in average]
    tied = {
        name: next((one for one in average if torch.equal(own[one], own[name])), None)
        for name in rest
    }
    return {
        **own,
        **average,
        **{name: average[one] for name, one in tied.items() if one is not None},
    }
