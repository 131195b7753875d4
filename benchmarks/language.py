"""The language-model recipes as they are shipped, on WikiText-2: perplexity, seconds, parameters.

`python -m benchmarks.language FOLDER [RECIPE...]`; FOLDER holds {train,valid,test}.txt.gz. The cache beside the LSTM is
chosen on the validation set. What a tape adds to an LSTM is seen beside one LSTM of the LSTMN's sizes that has none.
"""

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import report
from regard.runs.load import load
from regard.tasks.language_model.run import LanguageModelRun

RECIPES = ("language-lstm", "language-attention", "language-lstmn", "language-gpt2")
WITHOUT_TAPE = (
    "window=35",
    "model={name: recurrent, cell: lstm, embedding: 256, width: 384, layers: 1, dropout: 0.3, "
    "softmax: {kind: adaptive, cutoffs: [4000, 12000]}}",
)
"""The LSTM of the recipe `language-lstmn`, with its state alone."""
FIGURES = ("valid/perplexity", "test/perplexity", "seconds", "tokens_per_second", "steps", "parameters")
CACHES = [(2000, share, sharpness) for share, sharpness in product((0.1, 0.2, 0.3), (0.05, 0.1, 0.2, 0.4))]
CHOSEN_ON = 400
"""Lines of the validation set that the cache is chosen on."""


def train(recipe: str, folder: str, name: str, *more: str) -> tuple[Path, dict[str, Any]]:
    """The run in runs/, trained if it is not there, and the figures of its `result.json`."""
    settings = [f"data.{part}={folder}/{part}.txt.gz" for part in ("train", "valid", "test")]
    run = report.trained(recipe, name, [*settings, *more])
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    own = " ".join(f"--set '{each}'" for each in more)
    command = f"regard train {recipe} --set data.train=train.txt.gz --set data.valid=valid.txt.gz {own}".strip()
    return run, {"recipe": recipe, "command": command} | {figure: result[figure] for figure in FIGURES}


def with_cache(run: Path) -> dict[str, Any]:
    """The best cache on part of the validation set, and the perplexity of both sets with it."""
    trained = load(run, task=LanguageModelRun)
    valid = trained.config.data.load().valid
    best = min(CACHES, key=lambda cache: trained.evaluate(valid[:CHOSEN_ON], cache=cache)["perplexity"])
    figures = {name: trained.evaluate(texts, cache=best) for name, texts in (("valid", valid), ("test", None))}
    shown = dict(zip(("size", "share", "sharpness"), best, strict=True))
    return {"cache": shown} | {f"{name}/perplexity": each["perplexity"] for name, each in figures.items()}


def main(folder: str, *recipes: str) -> None:
    """Trains one recipe after the other, then prints the table."""
    rows, data = [], str(Path(folder).resolve())
    for recipe in recipes or RECIPES:
        run, row = train(recipe, data, recipe)
        rows.append(row)
        if recipe == "language-lstm":
            rows.append(row | {"recipe": f"{recipe} and a cache"} | with_cache(run))
        if recipe == "language-lstmn":
            _, row = train("language-lstm", data, "language-lstm-one", *WITHOUT_TAPE)
            rows.append(row | {"recipe": f"{recipe} without its tape"})
    report.head("recipe", "valid perplexity", "test perplexity", "training seconds", "tokens/s", "parameters")
    for row in rows:
        speed, parameters = f"{row['tokens_per_second']:,.0f}", f"{row['parameters']:,}"
        perplexities = [f"{row[name]:.2f}" for name in FIGURES[:2]]
        report.row(f"`{row['recipe']}`", *perplexities, f"{row['seconds']:.0f}", speed, parameters)
    if not recipes:
        report.write("language", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
