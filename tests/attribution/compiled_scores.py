"""How likely a run finds given targets by a compiled graph, in a process of its own: the tests' check of shapes cannot
be compiled. As a script: `compiled_scores.py RUN SOURCE...`, of which each target is the reverse; prints JSON."""

import json
import sys
import warnings

import torch

import regard
from regard.data.pair import Pair


def main(path: str, sources: list[str]) -> list[list[float]]:
    run = regard.load(path, "cpu")
    run.model.forward = torch.compile(run.model.forward, backend="eager", dynamic=True)
    return run.score([Pair(source, source[::-1], "1") for source in sources])


if __name__ == "__main__":
    warnings.simplefilter("error")
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
