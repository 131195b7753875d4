"""The recipes `questions` and `questions-bottleneck`: exact match, and how much of what is read lies on the answer.

`python -m benchmarks.questions`
"""

import json
from pathlib import Path
from typing import Any

from benchmarks import report
from regard.runs.load import load
from regard.tasks.seq2seq.run import Seq2SeqRun

RECIPES = ("questions", "questions-bottleneck")


def share_on_answer(run: Seq2SeqRun) -> float | None:
    """The mean weight, over the words of the answer, on where they stand in the context, while the run is made to
    write the right answer; None for a model that does not attend."""
    if run.model.decoder.source_attention is None:
        return None
    pairs = run.config.data.load().test
    shares = []
    for pair, weights in zip(pairs, run.word_maps(pairs), strict=True):
        shares += [float(weights[:, target, source].mean()) for source, target in pair.links or ()]
    return sum(shares) / len(shares)


def measure(recipe: str) -> dict[str, Any]:
    """Trains a recipe, or takes the run that is there, and looks at its test set."""
    folder: Path = report.trained(recipe, recipe, [])
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    run = load(folder, task=Seq2SeqRun)
    return {"recipe": recipe, "command": f"regard train {recipe}", "share": share_on_answer(run)} | result


def main() -> None:
    """Trains what is missing, then prints the table."""
    rows = [measure(recipe) for recipe in RECIPES]
    report.head("recipe", "exact match", "weight on the answer", "training seconds", "parameters")
    for row in rows:
        share = "" if row["share"] is None else f"{100 * row['share']:.1f} %"
        match = f"{row['test/exact-match']:.2f} %"
        report.row(f"`{row['recipe']}`", match, share, f"{row['seconds']:.0f}", f"{row['parameters']:,}")
    report.write("questions", rows)


if __name__ == "__main__":
    main()
