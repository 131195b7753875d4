"""The translation recipes as they are shipped, on two languages of one folder: BLEU, seconds, parameters.

`python -m benchmarks.translation FOLDER [RECIPE...]`; FOLDER holds {train,val,test_2016_flickr}.{de,en}.gz of Multi30k.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import report

RECIPES = ("translate-rnn", "translate-transformer", "translate-bahdanau", "translate-luong")
SETS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
FIGURES = ("test/bleu", "test/chrf", "valid/bleu", "seconds", "tokens_per_second", "steps", "parameters")


def settings(folder: str) -> list[str]:
    """Those that name the data."""
    files = {name: [f"{folder}/{stem}.{language}.gz" for language in ("de", "en")] for name, stem in SETS.items()}
    return [f"data.{name}=[{', '.join(pair)}]" for name, pair in files.items()]


def train(recipe: str, folder: str) -> dict[str, Any]:
    """Trains a recipe into runs/, or takes the run that is there; the figures of its `result.json`."""
    run = report.trained(recipe, recipe, settings(folder))
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    command = " ".join([f"regard train {recipe}", *(f"--set {setting}" for setting in settings("multi30k"))])
    return {"recipe": recipe, "command": command, "threads": environment["threads"]} | {k: result[k] for k in FIGURES}


def main(folder: str, *recipes: str) -> None:
    """Trains one recipe after the other, then prints the table."""
    rows = [train(recipe, str(Path(folder).resolve())) for recipe in recipes or RECIPES]
    report.head("recipe", "BLEU", "chrF", "training seconds", "tokens/s", "parameters")
    for row in rows:
        report.row(
            f"`{row['recipe']}`",
            f"{row['test/bleu']:.2f}",
            f"{row['test/chrf']:.2f}",
            f"{row['seconds']:.0f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['parameters']:,}",
        )
    if not recipes:
        report.write("translation", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
