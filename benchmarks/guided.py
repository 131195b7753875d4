"""Word alignment learnt from given links, English to Czech: the same model with and without them.

`python -m benchmarks.guided FOLDER`; FOLDER holds `gold_alignments` and `multi30k`. All get the same lower-cased
text, Multi30k and the gold sentences; guided training also the links of the first thousand. The others are scored.
"""

import json
import sys
from pathlib import Path

from benchmarks import aligners, report
from benchmarks.aligners import Both, Sentence, swapped
from benchmarks.alignment import captions
from regard.data.lines import read_lines
from regard.data.links import read_gold
from regard.maps.links import Links, turned

LANGUAGES = "en", "cs"
GIVEN = 1_000
"""Gold sentences whose links are given."""
COMMON = ["training.steps=1000"]
GUIDED = ["attention_losses.guided=1.0"]


def pharaoh(links: Links) -> str:
    """A line of `i-j`."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def both(folder: Path, name: str, guided: bool, tested: list[Sentence]) -> Both:
    """The links of the model in both directions."""
    found = []
    for languages in (LANGUAGES, swapped([LANGUAGES])[0]):
        target = languages[1]
        settings = [*COMMON, *GUIDED, f"data.links={folder / f'links.{target}'}"] if guided else COMMON
        given = tested if languages == LANGUAGES else swapped(tested)
        found.append(aligners.recurrent(folder, languages, f"guided-{name}-{target}", settings, given))
    return found[0], [turned(links) for links in found[1]]


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
    for language, some in (("cs", links), ("en", [turned(each) for each in links])):
        (folder / f"links.{language}").write_text("\n".join(map(pharaoh, some)) + "\n", encoding="utf-8")
    systems = aligners.statistical(text, tested)
    for name, guided in (("alone", False), ("guided", True)):
        systems[f"regard, translate-rnn {name}"] = both(folder, name, guided, tested)
    found = [row for name, each in systems.items() for row in aligners.rows(name, each, gold[GIVEN:], LANGUAGES)]
    aligners.show(found)
    report.write("guided", found, pairs=len(text), given=GIVEN)


if __name__ == "__main__":
    main(*sys.argv[1:])
