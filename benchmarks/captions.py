"""Captions with soft attention, hard, a Transformer's, and none: CIDEr-D, BLEU, ROUGE-L, and where they look.

`python -m benchmarks.captions scenes [SEED...]` on generated scenes, `python -m benchmarks.captions FOLDER [SEED...]`
on the photographs of FOLDER/images with FOLDER/captions.jsonl (`image`, `captions`, `split`).
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import report

SCENES = "scenes"
HARD = "model.align={name: hard, soft_share: 0.5}"
"""Half of the sequences read softly, as in the paper."""
CREDIT = {SCENES: "{reinforce: 0.1, entropy: 0.01}", "captions": "{reinforce: 1.0, draw_entropy: 0.02}"}
EYE = {SCENES: "stages: [32, 64, 128], dropout: 0.1", "captions": "stages: [32, 64, 128], dropout: 0.5"}
PLAIN = "attention_losses={}"


def models(recipe: str) -> dict[str, list[str]]:
    """The settings of each."""
    eye = EYE[recipe]
    return {
        "soft": [],
        "hard": [HARD, f"attention_losses={CREDIT[recipe]}"],
        "transformer": [f"model={{name: grid-transformer, {eye}}}", PLAIN],
        "none": [f"model={{name: show-and-tell, {eye}, embedding: 128, width: 256}}", PLAIN],
    }


def data(folder: str) -> list[str]:
    """The settings that name photographs; none for scenes."""
    if folder == SCENES:
        return []
    path = Path(folder).resolve()
    return [f"data.train={path / 'captions.jsonl'}", f"data.images={path / 'images'}", "data.split=split"]


def main(folder: str, *seeds: str) -> None:
    """Trains what is missing, then prints the table."""
    recipe = SCENES if folder == SCENES else "captions"
    report.head("attention", "seed", "CIDEr-D", "BLEU", "ROUGE-L", "pointing", "training seconds", "parameters")
    rows: list[dict[str, Any]] = []
    for seed in seeds or ("1", "2", "3"):
        for name, settings in models(recipe).items():
            settings = [*data(folder), *settings, f"training.seed={seed}"]
            run = report.trained(recipe, f"{recipe}-{name}-{seed}", settings)
            result = json.loads((run / "result.json").read_text(encoding="utf-8"))
            rows.append({"attention": name, "seed": int(seed)} | result)
            figures = [f"{result[f'test/{each}']:.1f}" for each in ("cider", "bleu", "rouge-l")]
            point = f"{result['test/pointing']:.1f}" if "test/pointing" in result else ""
            report.row(name, seed, *figures, point, f"{result['seconds']:.0f}", f"{result['parameters']:,}")
    if not seeds:
        report.write(f"captions-{recipe}", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
