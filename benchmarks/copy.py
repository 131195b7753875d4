"""The recipe `copy` from several seeds: whether it is learned, and what answers cost beyond the lengths of training.

`python -m benchmarks.copy [CASE...]`, by default `8`, rows of up to 8 vectors, from ten seeds and `20` from three. The
other cases are the recipes `repeat-copy` and `recall`, from three seeds each: more vectors and more repeats than in
training, and more items (Graves 2014, figures 8 and 11).
"""

import json
import sys
from typing import Any

import numpy as np

from benchmarks import report
from regard.runs.load import load
from regard.tasks.algorithmic.data import BitSequence, BitSequences, RepeatCopy, bits
from regard.tasks.algorithmic.run import AlgorithmicRun
from regard.tasks.algorithmic.training import figures

SEEDS = {"8": range(1, 11), "20": range(1, 4), "repeat-copy": range(1, 4), "recall": range(1, 4)}
SHORT = [
    "data.most=8",
    "model.rows=16",
    "training.steps=800",
    "training.batch_tokens=640",
    "training.validate_every=200",
]
LENGTHS = {"copy": (8, 20, 30, 50, 80, 120), "recall": (6, 8, 10, 12, 15, 20)}
"""In vectors and in items, of which training has up to 6."""
REPEATS = (10, 10), (20, 10), (10, 15), (10, 20)
"""Vectors and how often they are to be said; training has up to ten of each."""
SEQUENCES, ROWS = 50, 128
"""Of each length, and on the tape that they are measured with."""


def beyond(data: BitSequences, recipe: str) -> dict[str, list[BitSequence]]:
    """What answers are expected, by the name in the table."""
    if isinstance(data, RepeatCopy):
        random = np.random.default_rng(1)
        return {
            f"{length} x {times}": [data.of(bits(random, length, data.width), times) for _ in range(SEQUENCES)]
            for length, times in REPEATS
        }
    return {str(length): data.some(SEQUENCES, (length, length), seed=1) for length in LENGTHS[recipe]}


def measure(case: str, seed: int) -> dict[str, Any]:
    """Trains on a case, or takes the run that is there, and measures it beyond what it was trained on."""
    recipe = "copy" if case.isdecimal() else case
    settings = [f"training.seed={seed}", f"data.seed={seed}", "training.threads=1"]
    name = f"copy-{case}-{seed}" if recipe == "copy" else f"{recipe}-{seed}"
    folder = report.trained(recipe, name, [*SHORT, *settings] if case == "8" else settings)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    run = load(folder, "cpu", task=AlgorithmicRun)
    sets = beyond(run.config.data, recipe)
    return {
        "case": case,
        "seed": seed,
        "exact_match": result["test/exact-match"],
        "seconds": result["seconds"],
        "steps": result["steps"],
        "bits_per_sequence": {name: figures(run.model, some, ROWS)["bits-per-sequence"] for name, some in sets.items()},
    }


def main(*cases: str) -> None:
    """Trains what is missing, then prints a table a case."""
    if unknown := set(cases) - set(SEEDS):
        raise SystemExit(f"no case: {', '.join(sorted(unknown))}; expected some of {', '.join(SEEDS)}")
    rows = []
    for case in cases or ("8", "20"):
        for seed in SEEDS[case]:
            row = measure(case, seed)
            costs = row["bits_per_sequence"]
            if seed == 1:
                report.head("case", "seed", "exact match", "seconds", *(f"bits at {each}" for each in costs))
            bits = [f"{cost:.2f}" for cost in costs.values()]
            report.row(case, seed, f"{row['exact_match']:.1f} %", f"{row['seconds']:.0f}", *bits)
            rows.append(row)
    if not cases:
        report.write("copy", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
