"""The language-model recipes as they are shipped, on WikiText-2: perplexity, seconds, parameters.

`python -m benchmarks.language FOLDER [RECIPE...]`; FOLDER holds {train,valid,test}.txt.gz. The cache beside the LSTM is
chosen on the validation set.
"""

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import report
from regard.inference.cache import Cache
from regard.runs import load
from regard.tasks.language_model.run import LanguageModelRun

RECIPES = ("language-lstm", "language-attention", "language-lstmn", "language-gpt2")
FIGURES = ("valid/perplexity", "test/perplexity", "seconds", "tokens_per_second", "steps", "parameters")
CACHES = [Cache(2000, share, sharpness) for share, sharpness in product((0.1, 0.2, 0.3), (0.05, 0.1, 0.2, 0.4))]
CHOSEN_ON = 400
"""Lines of the validation set that the cache is chosen on."""


def train(recipe: str, folder: str) -> tuple[Path, dict[str, Any]]:
    """The run in runs/, trained if it is not there, and the figures of its `result.json`."""
    settings = [f"data.{name}={folder}/{name}.txt.gz" for name in ("train", "valid", "test")]
    run = report.trained(recipe, recipe, settings)
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    command = f"regard train {recipe} --set data.train=train.txt.gz --set data.valid=valid.txt.gz"
    return run, {"recipe": recipe, "command": command} | {name: result[name] for name in FIGURES}


def with_cache(run: Path) -> dict[str, Any]:
    """The best cache on part of the validation set, and the perplexity of both sets with it."""
    trained = load(run, task=LanguageModelRun)
    valid = trained.config.data.load().valid
    best = min(CACHES, key=lambda cache: trained.evaluate(valid[:CHOSEN_ON], cache=cache)["perplexity"])
    figures = {name: trained.evaluate(texts, cache=best) for name, texts in (("valid", valid), ("test", None))}
    shown = {"size": best.size, "share": best.share, "sharpness": best.sharpness}
    return {"cache": shown} | {f"{name}/perplexity": each["perplexity"] for name, each in figures.items()}


def main(folder: str, *recipes: str) -> None:
    """Trains one recipe after the other, then prints the table."""
    rows = []
    for recipe in recipes or RECIPES:
        run, row = train(recipe, str(Path(folder).resolve()))
        rows.append(row)
        if recipe == "language-lstm":
            rows.append(row | {"recipe": f"{recipe} and a cache"} | with_cache(run))
    report.head("recipe", "valid perplexity", "test perplexity", "training seconds", "tokens/s", "parameters")
    for row in rows:
        speed, parameters = f"{row['tokens_per_second']:,.0f}", f"{row['parameters']:,}"
        perplexities = [f"{row[name]:.2f}" for name in FIGURES[:2]]
        report.row(f"`{row['recipe']}`", *perplexities, f"{row['seconds']:.0f}", speed, parameters)
    if not recipes:
        report.write("language", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
