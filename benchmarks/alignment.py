"""Word alignment on gold links of the Canadian Hansards, English to French: regard's runs beside statistical aligners.

`python -m benchmarks.alignment FOLDER`; FOLDER holds `gold_alignments`, `parallel_text` and `multi30k`. All systems get
the same lower-cased text: Hansards, Multi30k, and the gold sentences without their links. eflomal is used if installed.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import report
from regard.data.lines import read_lines
from regard.data.links import read_gold
from regard.data.pair import Pair
from regard.maps.averages import average_heads
from regard.maps.links import Gold, Links, grow_diag_final_and, intersection, score_links, strongest, turned
from regard.runs import load
from regard.tasks.text_to_text.run import TextToTextRun

Sentence = tuple[str, str]
"""English and French, words between blanks."""
_WORD = re.compile(r"\w+'?|[^\w\s]")
ITERATIONS = 5


def read(folder: Path) -> tuple[list[Sentence], list[Sentence], list[Gold]]:
    """The text to learn from, and the gold sentences with their links."""
    path = folder / "gold_alignments" / "en-fr_hansards_test.jsonl.gz"
    records = [json.loads(line) for line in read_lines(path)]
    tested = [(each["src"].lower(), each["tgt"].lower()) for each in records]
    hansards = [line.lower().split("\t") for line in read_lines(folder / "parallel_text" / "hansards.en-fr.tsv.gz")]
    captions = zip(
        *(read_lines(folder / "multi30k" / f"train.{language}.gz") for language in ("en", "fr")), strict=True
    )
    text = [(english, french) for english, french in hansards]
    text += [(words(english), words(french)) for english, french in captions]
    return [*text, *tested], tested, read_gold(path)


def words(text: str) -> str:
    """Lower-cased words and marks with blanks between, as the Hansards have them."""
    return " ".join(_WORD.findall(text.lower()))


def model_one(text: Sequence[Sentence], tested: Sequence[Sentence]) -> list[Links]:
    """Brown 1993's first model, by expectation maximisation: each target word with its most probable source word."""
    pairs = [([*source.split(), ""], target.split()) for source, target in text]
    probability: dict[Sentence, float] = defaultdict(lambda: 1.0)
    for _ in range(ITERATIONS):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for word in target:
                whole = sum(probability[word, other] for other in source)
                for other in source:
                    share = probability[word, other] / whole
                    counts[word, other] += share
                    totals[other] += share
        probability = defaultdict(float, {key: count / totals[key[1]] for key, count in counts.items()})
    found = []
    for source, target in ([[*one.split(), ""], two.split()] for one, two in tested):
        best = [max(range(len(source)), key=lambda at, word=word: probability[word, source[at]]) for word in target]
        found.append(frozenset((at, place) for place, at in enumerate(best) if at < len(source) - 1))
    return found


def eflomal(text: Sequence[Sentence], tested: Sequence[Sentence]) -> tuple[list[Links], list[Links]]:
    """Both directions of eflomal (Ostling and Tiedemann 2016); the tested sentences stand last in the text."""
    from eflomal import Aligner  # pyright: ignore[reportMissingImports]

    folder = report.ROOT / "runs" / "alignment"
    files = [str(folder / name) for name in ("forward", "backward")]
    Aligner().align(
        [source + "\n" for source, _ in text],
        [target + "\n" for _, target in text],
        links_filename_fwd=files[0],
        links_filename_rev=files[1],
    )
    return tuple(
        [frozenset(tuple(map(int, link.split("-"))) for link in line.split()) for line in found][-len(tested) :]
        for found in (Path(file).read_text(encoding="utf-8").splitlines() for file in files)
    )  # type: ignore[return-value]


def recurrent(folder: Path, language: str, tested: Sequence[Sentence]) -> list[Links]:
    """What the recurrent model reads while it is made to write the tested sentences into the language."""
    order = ("en", "fr") if language == "fr" else ("fr", "en")
    settings = [
        f"data.{part}={json.dumps([str(folder / f'{part}.{name}') for name in order])}" for part in ("train", "valid")
    ]
    settings += ["training.steps=2000", "tokenizers.source.dropout=0.0", "tokenizers.source.size=8000"]
    run = load(report.trained("translate-rnn", f"alignment-{language}", settings), task=TextToTextRun)
    given = tested if language == "fr" else swapped(tested)
    found = run.word_maps([Pair(*pair, f"gold {number}") for number, pair in enumerate(given, 1)])
    links = [strongest(average_heads(maps)) for maps in found]
    return links if language == "fr" else [turned(each) for each in links]


def swapped(text: Sequence[Sentence]) -> list[Sentence]:
    """French and English."""
    return [(french, english) for english, french in text]


def rows(
    system: str, forward: Sequence[Links], backward: Sequence[Links], gold: Sequence[Gold]
) -> list[dict[str, Any]]:
    """The figures of both directions, and of them joined in two ways."""
    joined = {
        "to French": forward,
        "to English": backward,
        "intersection": [intersection(*pair) for pair in zip(forward, backward, strict=True)],
        "grow-diag-final-and": [grow_diag_final_and(*pair) for pair in zip(forward, backward, strict=True)],
    }
    scores = {name: score_links(links, gold) for name, links in joined.items()}
    return [
        {"system": system, "links": name, "aer": each.aer, "precision": each.precision, "recall": each.recall}
        for name, each in scores.items()
    ]


def main(given: str) -> None:
    """Writes the text, trains what is missing, then prints the table."""
    text, tested, gold = read(Path(given).resolve())
    folder = report.ROOT / "runs" / "alignment"
    folder.mkdir(parents=True, exist_ok=True)
    for place, language in enumerate(("en", "fr")):
        for part, some in (("train", text), ("valid", tested)):
            content = "\n".join(pair[place] for pair in some) + "\n"
            (folder / f"{part}.{language}").write_text(content, encoding="utf-8")
    back = [turned(links) for links in model_one(swapped(text), swapped(tested))]
    found = rows("IBM model 1", model_one(text, tested), back, gold)
    if find_spec("eflomal"):
        found += rows("eflomal", *eflomal(text, tested), gold)
    found += rows("regard, translate-rnn", *(recurrent(folder, language, tested) for language in ("fr", "en")), gold)
    report.head("system", "links", "AER", "precision", "recall")
    for row in found:
        figures = (f"{100 * row[name]:.1f}" for name in ("aer", "precision", "recall"))
        report.row(row["system"], row["links"], *figures)
    report.write("alignment", found, pairs=len(text))


if __name__ == "__main__":
    main(*sys.argv[1:])
