"""Keep the tables and pictures of experiments for the page `experiments`: `python -m docs.making.experiments FOLDER`.

FOLDER is the one that `regard experiment NAME --out FOLDER` has written.
"""

import csv
import json
import shutil
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "gallery" / "experiments"


def keep(source: Path, target: Path = FOLDER) -> list[str]:
    """Write the rows of each result as CSV with four significant figures, and copy its picture. Return the names."""
    names = []
    for path in sorted(source.glob("*.json")):
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        with (target / f"{path.stem}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(rows[0])
            writer.writerows([f"{x:.4g}" if isinstance(x, float) else x for x in row.values()] for row in rows)
        shutil.copy(path.with_suffix(".png"), target)
        names.append(path.stem)
    return names


if __name__ == "__main__":
    print(*keep(Path(sys.argv[1])))
