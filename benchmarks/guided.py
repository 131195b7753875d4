"""Word alignment learnt from given links, English to Czech: the same model with and without them.

`python -m benchmarks.guided FOLDER`; FOLDER holds `gold_alignments` and `multi30k`. All get the same lower-cased
text, Multi30k and the gold sentences; guided training also the links of the first thousand. The others are scored.
"""

import json
import sys
from pathlib import Path

from benchmarks import aligners, report
from benchmarks.alignment import captions
from regard.data.lines import read_lines
from regard.data.links import read_gold
from regard.maps.links import pharaoh, strongest

LANGUAGES = "en", "cs"
GIVEN = 1_000
"""Gold sentences whose links are given."""
COMMON = ["training.steps=1000"]
GUIDED = ["attention_losses.guided=1.0"]


def main(given: str) -> None:
    """Writes the text, trains what is missing, then prints the table."""
    data = Path(given).resolve()
    path = data / "gold_alignments" / "en-cs_czenali.jsonl.gz"
    records = [json.loads(line) for line in read_lines(path)]
    sentences = [(each["src"].lower(), each["tgt"].lower()) for each in records]
    gold = read_gold(path)
    text = [*captions(data, LANGUAGES), *sentences]
    folder, tested = report.ROOT / "runs" / "guided", sentences[GIVEN:]
    aligners.written(folder, LANGUAGES, {"train": text, "valid": tested})
    none = [frozenset() for _ in text]
    links = [*none[: -len(gold)], *(each.sure for each in gold[:GIVEN]), *none[: len(tested)]]
    (folder / "links").write_text("\n".join(map(pharaoh, links)) + "\n", encoding="utf-8")
    found = {name: forward for name, (forward, _) in aligners.statistical(text, tested).items()}
    for name, more in (("alone", []), ("guided", [*GUIDED, f"data.links={folder / 'links'}"])):
        maps = aligners.recurrent(folder, LANGUAGES, f"guided-{name}", [*COMMON, *more], tested)
        found[f"regard, translate-rnn {name}"] = [strongest(each) for each in maps]
    rows = [aligners.scored(name, "to cs", links, gold[GIVEN:]) for name, links in found.items()]
    aligners.show(rows)
    report.write("guided", rows, pairs=len(text), given=GIVEN)


if __name__ == "__main__":
    main(*sys.argv[1:])
