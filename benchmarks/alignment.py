"""Word alignment on gold links of the Canadian Hansards, English to French: regard's runs beside statistical aligners.

`python -m benchmarks.alignment FOLDER`; FOLDER holds `gold_alignments`, `parallel_text` and `multi30k`. All systems get
the same lower-cased text: Hansards, Multi30k, the gold sentences without their links. `pip install eflomal` adds it.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import aligners, report
from benchmarks.aligners import Sentence, swapped
from regard.data.lines import read_lines
from regard.data.links import read_gold
from regard.maps.links import Gold, agreement, grow_diag_final_and, pharaoh, strongest, turned

LANGUAGES = "en", "fr"
STEPS = "training.steps=1500"
GUIDED = ["attention_losses.guided=1.0"]
_WORD = re.compile(r"\w+'?|[^\w\s]")


def read(folder: Path) -> tuple[list[Sentence], list[Sentence], list[Gold]]:
    """The text to learn from, and the gold sentences with their links."""
    path = folder / "gold_alignments" / "en-fr_hansards_test.jsonl.gz"
    records = [json.loads(line) for line in read_lines(path)]
    tested = [(each["src"].lower(), each["tgt"].lower()) for each in records]
    hansards = [line.lower().split("\t") for line in read_lines(folder / "parallel_text" / "hansards.en-fr.tsv.gz")]
    text = [(english, french) for english, french in hansards] + captions(folder, LANGUAGES)
    return [*text, *tested], tested, read_gold(path)


def captions(folder: Path, languages: Sentence) -> list[Sentence]:
    """Multi30k, lower-cased words and marks with blanks between, as the Hansards have them."""
    files = (read_lines(folder / "multi30k" / f"train.{language}.gz") for language in languages)
    return [(words(source), words(target)) for source, target in zip(*files, strict=True)]


def words(text: str) -> str:
    """Lower-cased words and marks with blanks between."""
    return " ".join(_WORD.findall(text.lower()))


def main(given: str) -> None:
    """Writes the text, trains what is missing, then prints the table."""
    text, tested, gold = read(Path(given).resolve())
    folder = report.ROOT / "runs" / "alignment"
    aligners.written(folder, LANGUAGES, {"train": text, "valid": tested})
    systems, rule = aligners.statistical(text, tested), aligners.both_ways(text, text, aligners.TENSION)
    systems["IBM model 2 near the diagonal"] = rule[0][-len(tested) :], rule[1][-len(tested) :]
    found = [row for name, both in systems.items() for row in aligners.rows(name, both, gold, LANGUAGES)]
    found += networks(folder, "alignment", tested, gold, {})
    links = [grow_diag_final_and(*pair) for pair in zip(*rule, strict=True)]
    files = {"fr": folder / "links.fr", "en": folder / "links.en"}
    files["fr"].write_text("".join(f"{pharaoh(each)}\n" for each in links), encoding="utf-8")
    files["en"].write_text("".join(f"{pharaoh(turned(each))}\n" for each in links), encoding="utf-8")
    found += networks(folder, "guided", tested, gold, files)
    aligners.show(found)
    report.write("alignment", found, pairs=len(text))


def networks(
    folder: Path, name: str, tested: Sequence[Sentence], gold: Sequence[Gold], links: Mapping[str, Path]
) -> list[dict[str, Any]]:
    """The figures of a model of each direction, trained with the `links` of its target language where there are
    some, and of both joined."""
    maps: dict[str, list[np.ndarray]] = {}
    for languages, sentences in ((LANGUAGES, tested), (swapped([LANGUAGES])[0], swapped(tested))):
        to = languages[1]
        guided = [*GUIDED, f"data.links={links[to]}"] if links else []
        maps[to] = aligners.recurrent(folder, languages, f"{name}-{to}", [STEPS, *guided], sentences)
    both = [strongest(each) for each in maps["fr"]], [turned(strongest(each)) for each in maps["en"]]
    system = "regard, translate-rnn" + (", guided by model 2" if links else "")
    agreed = [agreement(*pair) for pair in zip(maps["fr"], maps["en"], strict=True)]
    return [*aligners.rows(system, both, gold, LANGUAGES), aligners.scored(system, "agreement", agreed, gold)]


if __name__ == "__main__":
    main(*sys.argv[1:])
