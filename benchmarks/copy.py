"""The recipe `copy` from several seeds: whether it is learned, and what answers cost beyond the lengths of training.

`python -m benchmarks.copy [LONGEST...]`, by default 8 from ten seeds and 20 from three.
"""

import json
import sys
from typing import Any

from benchmarks import report
from regard.runs import load
from regard.tasks.bit_sequences.run import BitSequencesRun

SEEDS = {8: range(1, 11), 20: range(1, 4)}
SETTINGS = {
    8: [
        "data.most=8",
        "model.rows=16",
        "training.steps=800",
        "training.batch_tokens=640",
        "training.validate_every=200",
    ],
    20: [],
}
LENGTHS = (8, 20, 30, 50, 80, 120)
SEQUENCES, ROWS = 50, 128
"""Of each length, and on the tape that they are measured with."""


def measure(longest: int, seed: int) -> dict[str, Any]:
    """Trains on rows of up to `longest` vectors, or takes the run that is there, and measures it on each length."""
    settings = [*SETTINGS[longest], f"training.seed={seed}", f"data.seed={seed}", "training.threads=1"]
    folder = report.trained("copy", f"copy-{longest}-{seed}", settings)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    run = load(folder, "cpu", task=BitSequencesRun)
    beyond = {}
    for length in LENGTHS:
        found = run.evaluate(run.config.data.some(SEQUENCES, (length, length), seed=1), rows=ROWS)
        beyond[length] = found["bits-per-sequence"]
    return {
        "longest": longest,
        "seed": seed,
        "exact_match": result["test/exact-match"],
        "seconds": result["seconds"],
        "steps": result["steps"],
        "bits_per_sequence": beyond,
    }


def main(*longest: str) -> None:
    """Trains what is missing, then prints the table."""
    report.head("trained up to", "seed", "exact match", "seconds", *(f"bits at {length}" for length in LENGTHS))
    rows = []
    for most in map(int, longest or ("8", "20")):
        for seed in SEEDS[most]:
            row = measure(most, seed)
            costs = [f"{row['bits_per_sequence'][length]:.2f}" for length in LENGTHS]
            report.row(most, seed, f"{row['exact_match']:.1f} %", f"{row['seconds']:.0f}", *costs)
            rows.append(row)
    if not longest:
        report.write("copy", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
