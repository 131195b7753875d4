"""How likely a run finds given targets by a compiled graph, in a process of its own: the tests' check of shapes cannot
be compiled."""

import json
import warnings

import torch

import regard
from regard.data.pairs import Pair


def main(path: str, *sources: str) -> None:
    """Print the scores as JSON; the target of each source is its reverse."""
    warnings.simplefilter("error")
    run = regard.load(path, "cpu")
    run.model.forward = torch.compile(run.model.forward, backend="eager", dynamic=True)
    print(json.dumps(run.score([Pair(source, source[::-1], "1") for source in sources])))
