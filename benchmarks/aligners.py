"""Aligners that the benchmarks share: statistical ones, and what regard's recurrent model reads."""

import json
from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import report
from regard.data.pair import Pair
from regard.maps.averages import average_heads
from regard.maps.links import Gold, Links, grow_diag_final_and, intersection, score_links, strongest, turned
from regard.runs.load import load
from regard.tasks.seq2seq.run import Seq2SeqRun

Sentence = tuple[str, str]
"""Source and target, words between blanks."""
Both = tuple[list[Links], list[Links]]
"""Links found from source to target, and those found the other way."""
ITERATIONS = 5


def statistical(text: Sequence[Sentence], tested: Sequence[Sentence]) -> dict[str, Both]:
    """What a statistical aligner finds in the tested sentences, which stand last in the text: eflomal if installed."""
    if find_spec("eflomal"):
        return {"eflomal": eflomal(text, tested)}
    back = [turned(links) for links in model_one(swapped(text), swapped(tested))]
    return {"IBM model 1": (model_one(text, tested), back)}


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


def eflomal(text: Sequence[Sentence], tested: Sequence[Sentence]) -> Both:
    """Eflomal (Ostling and Tiedemann 2016); the tested sentences stand last in the text."""
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


def swapped(text: Sequence[Sentence]) -> list[Sentence]:
    """Target and source."""
    return [(target, source) for source, target in text]


def written(folder: Path, languages: Sentence, parts: dict[str, Sequence[Sentence]]) -> None:
    """Writes each part of a text to `folder/PART.LANGUAGE`."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, language in enumerate(languages):
        for part, text in parts.items():
            content = "\n".join(pair[place] for pair in text) + "\n"
            (folder / f"{part}.{language}").write_text(content, encoding="utf-8")


def recurrent(
    folder: Path, languages: Sentence, name: str, settings: Sequence[str], tested: Sequence[Sentence]
) -> list[Links]:
    """What the recurrent model, trained on `folder/{train,valid}.LANGUAGE`, reads while it is made to write the tested
    sentences, and for each of them the links from the first language to the second."""
    files = [
        f"data.{part}={json.dumps([str(folder / f'{part}.{each}') for each in languages])}"
        for part in ("train", "valid")
    ]
    cut = ["tokenizers.source.dropout=0.0", "tokenizers.source.size=8000"]
    cut += ["model.heads=1", "model.encoder_layers=1"]
    run = load(report.trained("translate-rnn", name, [*files, *cut, *settings]), task=Seq2SeqRun)
    pairs = [Pair(source, target, f"gold {number}") for number, (source, target) in enumerate(tested, 1)]
    return [strongest(average_heads(maps)) for maps in run.word_maps(pairs)]


def rows(system: str, found: Both, gold: Sequence[Gold], languages: Sentence) -> list[dict[str, Any]]:
    """The figures of both directions, and of them joined in two ways."""
    pairs = list(zip(*found, strict=True))
    links = {
        f"to {languages[1]}": found[0],
        f"to {languages[0]}": found[1],
        "intersection": [intersection(*pair) for pair in pairs],
        "grow-diag-final-and": [grow_diag_final_and(*pair) for pair in pairs],
    }
    return [scored(system, name, each, gold) for name, each in links.items()]


def scored(system: str, name: str, found: Sequence[Links], gold: Sequence[Gold]) -> dict[str, Any]:
    """The figures of some links."""
    scores = score_links(found, gold)
    return {"system": system, "links": name, "aer": scores.aer, "precision": scores.precision, "recall": scores.recall}


def show(found: Sequence[dict[str, Any]]) -> None:
    """Prints the table."""
    report.head("system", "links", "AER", "precision", "recall")
    for row in found:
        figures = (f"{100 * row[name]:.1f}" for name in ("aer", "precision", "recall"))
        report.row(row["system"], row["links"], *figures)
