"""Word alignment on sentences whose links were made by hand: `python -m benchmarks.alignment NAME FOLDER`.

FOLDER holds `gold_alignments`, `parallel_text` and `multi30k`. NAME is `hansards` (English and French, without given
links and guided by a statistical aligner) or `czech` (English to Czech, guided by the links of a thousand sentences).
All systems learn from the same lower-cased text. `pip install eflomal` adds that aligner.
"""

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.sources import read_lines
from regard.data.pairs import Pair, read_gold
from regard.maps.links import (
    Gold,
    Links,
    agreement,
    format_pharaoh,
    grow_diag_final_and,
    link_strongest,
    score_links,
    transpose_links,
)
from regard.maps.reductions import average_heads
from regard.runs.run_file import load

Sentence = tuple[str, str]
"""Source and target, words separated by blanks."""
Directions = tuple[list[Links], list[Links]]
"""Links found from source to target, and those found the other way."""
WORD = re.compile(r"\w+'?|[^\w\s]")
GUIDED = "attention_losses.guided=1.0"
MODEL = ("tokenizers.source.dropout=0.0", "tokenizers.source.size=8000", "model.heads=1", "model.encoder_layers=1")
ITERATIONS, NO_SOURCE, TENSION = 5, 0.08, 4.0
"""Steps of expectation maximization; the prior of no source word and the preference of the diagonal (Dyer 2013)."""
GIVEN_LINKS = 1_000


def link_statistically(text: Sequence[Sentence], tension: float = 0.0) -> list[Links]:
    """Link each target word to its most probable source word by expectation maximization.

    This is the first model of Brown 1993, or with a tension the one of Dyer 2013 (equations 1 to 3).
    """
    pairs = [([*source.split(), ""], target.split()) for source, target in text]
    probability: dict[Sentence, float] = defaultdict(lambda: 1.0)
    for _ in range(ITERATIONS):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for word, scores in score_words(source, target, probability, tension):
                total = sum(scores)
                for source_word, score in zip(source, scores, strict=True):
                    counts[word, source_word] += score / total
                    totals[source_word] += score / total
        probability = defaultdict(float, {key: count / totals[key[1]] for key, count in counts.items()})
    links = []
    for source, target in pairs:
        best = [scores.index(max(scores)) for _, scores in score_words(source, target, probability, tension)]
        links.append(frozenset((index, position) for position, index in enumerate(best) if index < len(source) - 1))
    return links


def score_words(
    source: Sequence[str], target: Sequence[str], probability: Mapping[Sentence, float], tension: float
) -> Iterator[tuple[str, list[float]]]:
    """Yield each target word with the score of each source word, the last of which stands for none."""
    for word, prior in zip(target, priors(len(source) - 1, len(target), tension), strict=True):
        yield word, [probability[word, word_] * weight for word_, weight in zip(source, prior, strict=True)]


@cache
def priors(source: int, target: int, tension: float) -> list[list[float]]:
    """Return for each target word the prior of each source word and of none; 1 without a tension."""
    if not tension:
        return [[1.0] * (source + 1)] * target
    rows = []
    for position in range(target):
        distances = [abs((index + 1) / source - (position + 1) / target) for index in range(source)]
        weights = [math.exp(-tension * distance) for distance in distances]
        rows.append([*((1 - NO_SOURCE) * weight / sum(weights) for weight in weights), NO_SOURCE])
    return rows


def link_both_ways(text: Sequence[Sentence], tension: float = 0.0) -> Directions:
    """Return the links of both directions, as links from source to target."""
    backward = link_statistically([(target, source) for source, target in text], tension)
    return link_statistically(text, tension), [transpose_links(links) for links in backward]


def link_by_eflomal(text: Sequence[Sentence], folder: Path) -> Directions:
    """Return the links of eflomal (Ostling and Tiedemann 2016) in both directions."""
    from eflomal import Aligner  # pyright: ignore[reportMissingImports]

    paths = folder / "forward", folder / "backward"
    sides = [[f"{pair[side]}\n" for pair in text] for side in (0, 1)]
    Aligner().align(*sides, links_filename_fwd=str(paths[0]), links_filename_rev=str(paths[1]))
    forward, backward = (
        [frozenset(tuple(map(int, link.split("-"))) for link in line.split()) for line in path.read_text().splitlines()]
        for path in paths
    )
    return forward, backward  # type: ignore[return-value]


def write_text(folder: Path, languages: Sentence, parts: Mapping[str, Sequence[Sentence]]) -> None:
    """Write each part of a text to `folder/PART.LANGUAGE`."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, language in enumerate(languages):
        for part, text in parts.items():
            content = "".join(f"{pair[side]}\n" for pair in text)
            (folder / f"{part}.{language}").write_text(content, encoding="utf-8")


def attention_maps(
    folder: Path, languages: Sentence, name: str, settings: Sequence[str], tested: Sequence[Sentence]
) -> list[np.ndarray]:
    """Train the recurrent model on `folder/{train,valid}.LANGUAGE` and return its map of each tested sentence."""
    data = [
        f"data.{part}={json.dumps([str(folder / f'{part}.{language}') for language in languages])}"
        for part in ("train", "valid")
    ]
    run: Any = load(report.trained("translate-rnn", name, [*data, *MODEL, *settings]))
    pairs = [Pair(source, target, f"gold {number}") for number, (source, target) in enumerate(tested, 1)]
    return [average_heads(maps) for maps in run.word_maps(pairs)]


def print_scores(system: str, links: Mapping[str, Sequence[Links]], gold: Sequence[Gold]) -> list[dict[str, Any]]:
    """Print the error rate, precision and recall of each kind of links, and return them."""
    rows = []
    for kind, sentence_links in links.items():
        scores = score_links(sentence_links, gold)
        figures = {"aer": scores.aer, "precision": scores.precision, "recall": scores.recall}
        report.row(system, kind, *(f"{100 * figure:.1f}" for figure in figures.values()))
        rows.append({"system": system, "links": kind, **figures})
    return rows


def join(directions: Directions) -> dict[str, Sequence[Links]]:
    """Return the links of both directions, and of them joined in two ways."""
    pairs = list(zip(*directions, strict=True))
    return {
        "forward": directions[0],
        "backward": directions[1],
        "intersection": [pair[0] & pair[1] for pair in pairs],
        "grow-diag-final-and": [grow_diag_final_and(*pair) for pair in pairs],
    }


def read_captions(folder: Path, languages: Sentence) -> list[Sentence]:
    """Return Multi30k's captions as lower-cased words and punctuation, as the gold sentences have them."""
    sides = [read_lines(folder / "multi30k" / f"train.{language}.gz") for language in languages]
    clean = [[" ".join(WORD.findall(line.lower())) for line in side] for side in sides]
    return list(zip(*clean, strict=True))


def read_sentences(path: Path) -> list[Sentence]:
    """Return the sentences of a gold file in lower case."""
    records = [json.loads(line) for line in read_lines(path)]
    return [(record["src"].lower(), record["tgt"].lower()) for record in records]


def run_hansards(folder: Path) -> list[dict[str, Any]]:
    """Compare aligners on the Canadian Hansards."""
    languages, path = ("en", "fr"), folder / "gold_alignments" / "en-fr_hansards_test.jsonl.gz"
    tested, gold = read_sentences(path), read_gold(path)
    lines = read_lines(folder / "parallel_text" / "hansards.en-fr.tsv.gz")
    hansards = [(english, french) for english, french in (line.lower().split("\t") for line in lines)]
    text = [*hansards, *read_captions(folder, languages), *tested]
    output, last = report.ROOT / "runs" / "alignment", slice(-len(tested), None)
    write_text(output, languages, {"train": text, "valid": tested})
    systems = {"IBM model 1": link_both_ways(text), "IBM model 2 near the diagonal": link_both_ways(text, TENSION)}
    if find_spec("eflomal"):
        systems["eflomal"] = link_by_eflomal(text, output)
    rows = []
    for system, (forward, backward) in systems.items():
        rows += print_scores(system, join((forward[last], backward[last])), gold)
    teacher = [grow_diag_final_and(*pair) for pair in zip(*systems["IBM model 2 near the diagonal"], strict=True)]
    given = {"fr": teacher, "en": [transpose_links(links) for links in teacher]}
    for name in ("alone", "guided"):
        maps = {}
        for target, pair, sentences in (
            ("fr", ("en", "fr"), tested),
            ("en", ("fr", "en"), [(target, source) for source, target in tested]),
        ):
            settings = ["training.steps=1500"]
            if name == "guided":
                links_path = output / f"links.{target}"
                links_path.write_text(
                    "".join(f"{format_pharaoh(links)}\n" for links in given[target]), encoding="utf-8"
                )
                settings += [GUIDED, f"data.links={links_path}"]
            maps[target] = attention_maps(output, pair, f"alignment-{name}-{target}", settings, sentences)
        forward = [link_strongest(weights) for weights in maps["fr"]]
        backward = [transpose_links(link_strongest(weights)) for weights in maps["en"]]
        agreed = [agreement(*pair) for pair in zip(maps["fr"], maps["en"], strict=True)]
        rows += print_scores(f"translate-rnn, {name}", join((forward, backward)) | {"agreement": agreed}, gold)
    return rows


def run_czech(folder: Path) -> list[dict[str, Any]]:
    """Compare the recurrent model with and without the links of some sentences."""
    languages, path = ("en", "cs"), folder / "gold_alignments" / "en-cs_czenali.jsonl.gz"
    sentences, gold = read_sentences(path), read_gold(path)
    text, tested = [*read_captions(folder, languages), *sentences], sentences[GIVEN_LINKS:]
    output = report.ROOT / "runs" / "guided"
    write_text(output, languages, {"train": text, "valid": tested})
    no_links = [frozenset()] * (len(text) - len(gold))
    given = [*no_links, *(links.sure for links in gold[:GIVEN_LINKS]), *[frozenset()] * len(tested)]
    (output / "links").write_text("".join(f"{format_pharaoh(links)}\n" for links in given), encoding="utf-8")
    rows = []
    for name, settings in (("alone", []), ("guided", [GUIDED, f"data.links={output / 'links'}"])):
        maps = attention_maps(output, languages, f"guided-{name}", ["training.steps=1000", *settings], tested)
        links = {"forward": [link_strongest(weights) for weights in maps]}
        rows += print_scores(f"translate-rnn, {name}", links, gold[GIVEN_LINKS:])
    return rows


COMPARISONS = {"hansards": run_hansards, "czech": run_czech}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in COMPARISONS:
        raise SystemExit("usage: python -m benchmarks.alignment hansards|czech FOLDER")
    report.head("system", "links", "AER", "precision", "recall")
    report.write(f"alignment-{sys.argv[1]}", COMPARISONS[sys.argv[1]](Path(sys.argv[2]).resolve()))
