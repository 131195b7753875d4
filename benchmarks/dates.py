"""The four date recipes as they are shipped: exact match, seconds, parameters. `python -m benchmarks.dates`."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import report

RECIPES = ("dates", "dates-luong", "dates-transformer", "dates-bottleneck")


def train(recipe: str, folder: Path) -> dict[str, Any]:
    """Trains a recipe by the command line, in a fresh process; the figures of its `result.json`, and its threads."""
    command = [sys.executable, "-m", "regard", "train", recipe, "--out", str(folder)]
    subprocess.run(command, env=report.environment(), stdout=subprocess.DEVNULL, check=True)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    threads = json.loads((folder / "environment.json").read_text(encoding="utf-8"))["threads"]
    return {"recipe": recipe, "command": f"regard train {recipe}", "threads": threads, **result}


def main() -> None:
    """Trains one recipe after the other, then prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [train(recipe, Path(folder) / recipe) for recipe in RECIPES]
    report.head("recipe", "exact match", "training seconds", "parameters")
    for row in rows:
        match, parameters = f"{row['test/exact-match']:.2f} %", f"{row['parameters']:,}"
        report.row(f"`{row['recipe']}`", match, f"{row['seconds']:.1f}", parameters)
    report.write("dates", rows)


if __name__ == "__main__":
    main()
