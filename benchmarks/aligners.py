"""Aligners that the benchmarks share: statistical ones, and what regard's recurrent model reads."""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from regard.data.pair import Pair
from regard.maps.averages import average_heads
from regard.maps.links import Gold, Links, grow_diag_final_and, intersection, score_links, turned
from regard.runs.load import load
from regard.tasks.seq2seq.run import Seq2SeqRun

Sentence = tuple[str, str]
"""Source and target, words between blanks."""
Both = tuple[list[Links], list[Links]]
"""Links found from source to target, and those found the other way."""
ITERATIONS = 5
NONE = 0.08
"""The prior probability of no source word near the diagonal (Dyer 2013)."""
TENSION = 4.0
"""How much words near the diagonal are preferred (Dyer 2013)."""


def statistical(text: Sequence[Sentence], tested: Sequence[Sentence]) -> dict[str, Both]:
    """What a statistical aligner finds in the tested sentences, which stand last in the text: eflomal if installed."""
    if find_spec("eflomal"):
        return {"eflomal": eflomal(text, tested)}
    return {"IBM model 1": both_ways(text, tested)}


def both_ways(text: Sequence[Sentence], tested: Sequence[Sentence], tension: float = 0.0) -> Both:
    """The links of `model_one` in both directions."""
    back = model_one(swapped(text), swapped(tested), tension)
    return model_one(text, tested, tension), [turned(links) for links in back]


def model_one(text: Sequence[Sentence], tested: Sequence[Sentence], tension: float = 0.0) -> list[Links]:
    """Each target word with its most probable source word, by expectation maximisation: Brown 1993's first model, or
    with a tension the one that prefers words near the diagonal (Dyer 2013, equations 1 to 3)."""
    pairs = [([*source.split(), ""], target.split()) for source, target in text]
    probability: dict[Sentence, float] = defaultdict(lambda: 1.0)
    for _ in range(ITERATIONS):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for word, scores in scored_words(source, target, probability, tension):
                whole = sum(scores)
                for other, score in zip(source, scores, strict=True):
                    counts[word, other] += score / whole
                    totals[other] += score / whole
        probability = defaultdict(float, {key: count / totals[key[1]] for key, count in counts.items()})
    found = []
    for source, target in ([[*one.split(), ""], two.split()] for one, two in tested):
        best = [scores.index(max(scores)) for _, scores in scored_words(source, target, probability, tension)]
        found.append(frozenset((at, place) for place, at in enumerate(best) if at < len(source) - 1))
    return found


def scored_words(
    source: Sequence[str], target: Sequence[str], probability: Mapping[Sentence, float], tension: float
) -> Iterator[tuple[str, list[float]]]:
    """Each target word with the score of each source word, of which the last stands for none."""
    for word, prior in zip(target, priors(len(source) - 1, len(target), tension), strict=True):
        yield word, [probability[word, other] * near for other, near in zip(source, prior, strict=True)]


@cache
def priors(source: int, target: int, tension: float) -> list[list[float]]:
    """For each target word the prior probability of each source word and, last, of none; without a tension 1."""
    if not tension:
        return [[1.0] * (source + 1)] * target
    found = []
    for place in range(target):
        near = [math.exp(-tension * abs((at + 1) / source - (place + 1) / target)) for at in range(source)]
        found.append([*((1 - NONE) * each / sum(near) for each in near), NONE])
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
) -> list[np.ndarray]:
    """For each tested sentence the words' map `(target, source)` of the recurrent model, trained on
    `folder/{train,valid}.LANGUAGE`, which is made to write it."""
    files = [
        f"data.{part}={json.dumps([str(folder / f'{part}.{each}') for each in languages])}"
        for part in ("train", "valid")
    ]
    cut = ["tokenizers.source.dropout=0.0", "tokenizers.source.size=8000"]
    cut += ["model.heads=1", "model.encoder_layers=1"]
    run = load(report.trained("translate-rnn", name, [*files, *cut, *settings]), task=Seq2SeqRun)
    pairs = [Pair(source, target, f"gold {number}") for number, (source, target) in enumerate(tested, 1)]
    return [average_heads(maps) for maps in run.word_maps(pairs)]


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
