"""The recipe `pronouns`: which of two nouns each head reads at "it", and which one reaches it through both layers.

`python -m benchmarks.pronouns [SEED...]` trains what is missing, three seeds without arguments.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from regard.data.generated.pronouns import PronounSentence, generate
from regard.maps.rollout import rollout
from regard.runs.load import load
from regard.tasks.tagging.generated import Pronouns
from regard.tasks.tagging.run import TaggingRun

SEEDS = 1, 2, 3


def reads(run: TaggingRun, sentence: PronounSentence) -> tuple[np.ndarray, np.ndarray]:
    """What "it" reads of the noun that it stands for, and of the other noun: the weights `(2, layer, head)`, and the
    shares `(2,)` of the rollout."""
    (lookups, *_) = run.attribute(sentence.text).lookups
    words, weights = list(lookups.source), np.asarray(lookups.weights)
    nouns = [words.index(noun) for noun in (sentence.referent, sentence.other)]
    row = weights[:, :, words.index("it")]
    return np.stack([row[..., noun] for noun in nouns]), rollout(weights)[words.index("it"), nouns]


def measure(seed: int) -> dict[str, Any]:
    """Train a seed, or take the run that is there, and find the head that reads the right noun most often."""
    folder: Path = report.trained("pronouns", f"pronouns-{seed}", [f"training.seed={seed}"])
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    run = load(folder, task=TaggingRun)
    found = [reads(run, each) for each in generate(Pronouns().sizes, Pronouns().seed)[2]]
    heads, rolled = (np.stack(each) for each in zip(*found, strict=True))
    right = (heads[:, 0] > heads[:, 1]).mean(0)
    layer, head = np.unravel_index(right.argmax(), right.shape)
    return {
        "seed": seed,
        "head": f"layer {layer}, head {head}",
        "head_right": float(right.max()),
        "rollout_right": float((rolled[:, 0] > rolled[:, 1]).mean()),
        "rollout": [float(share) for share in rolled.mean(0)],
        **result,
    }


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    rows = [measure(int(seed)) for seed in arguments or SEEDS]
    report.head("seed", "F1", "best head", "it reads the right noun", "rollout does", "its shares", "seconds")
    for row in rows:
        right, rolled = (f"{100 * row[name]:.1f} %" for name in ("head_right", "rollout_right"))
        shares = " and ".join(f"{share:.3f}" for share in row["rollout"])
        report.row(row["seed"], f"{row['test/f1']:.1f}", row["head"], right, rolled, shares, f"{row['seconds']:.0f}")
    if not arguments:
        report.write("pronouns", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
