"""The recipe `dialogue` by how many turns it knows: the perplexity of held-out replies.

`python -m benchmarks.dialogue FILE [TURNS...]`; FILE is a text of conversations, tiny_shakespeare's input.txt.gz say.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import report

TURNS = "0", "1", "2", "3"


def train(file: str, turns: str) -> dict[str, Any]:
    """The figures of a run that knows so many turns, trained if it is not there."""
    run = report.trained("dialogue", f"dialogue-{turns}", [f"data.train={file}", f"data.turns={turns}"])
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    command = f"regard train dialogue --set data.train={Path(file).name} --set data.turns={turns}"
    return {"turns": int(turns), "command": command} | result


def main(file: str, *turns: str) -> None:
    """Trains what is missing, then prints the table."""
    rows = [train(str(Path(file).resolve()), each) for each in turns or TURNS]
    report.head("turns known", "perplexity", "training seconds", "parameters")
    for row in rows:
        report.row(row["turns"], f"{row['valid/perplexity']:.2f}", f"{row['seconds']:.0f}", f"{row['parameters']:,}")
    if not turns:
        report.write("dialogue", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
