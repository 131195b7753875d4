"""Word alignment on sentences whose links were made by hand: `python -m benchmarks.alignment NAME FOLDER`.

FOLDER holds `gold_alignments`, `parallel_text` and `multi30k`. NAME is `hansards` (English and French, without given
links and guided by a statistical aligner) or `czech` (English to Czech, guided by the links of a thousand sentences).
All systems learn from the same lower-cased text. `pip install eflomal` adds that aligner.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
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
from regard.maps.word_aligner import align_words, link_likely
from regard.runs.run_file import load

Sentence = tuple[str, str]
"""Source and target, words separated by blanks."""
WORD = re.compile(r"\w+'?|[^\w\s]")
GUIDED = "attention_losses.guided=1.0"
MODEL = ("tokenizers.source.dropout=0.0", "tokenizers.source.size=8000", "model.heads=1", "model.encoder_layers=1")
STUDENT = (
    GUIDED,
    "attention_losses.guided_input=true",
    "tokenizers.source.size=4000",
    "training.steps=1000",
    "training.batch_tokens=1024",
    "model.width=128",
    "model.encoder_width=128",
)
"""A smaller model whose queries know the target word."""
GIVEN_LINKS = 1_000


def link_by_eflomal(text: Sequence[Sentence], folder: Path) -> tuple[list[Links], list[Links]]:
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


def join(forward: list[Links], backward: list[Links]) -> dict[str, Sequence[Links]]:
    """Return the links of both directions, and of them joined in two ways."""
    pairs = list(zip(forward, backward, strict=True))
    return {
        "forward": forward,
        "backward": backward,
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
    """Compare aligners on the Canadian Hansards.

    The statistical ones learn from Hansards and captions, and so does the recurrent model alone. The guided one learns
    the links of our aligner on the Hansards.
    """
    languages, path = ("en", "fr"), folder / "gold_alignments" / "en-fr_hansards_test.jsonl.gz"
    tested, gold = read_sentences(path), read_gold(path)
    lines = read_lines(folder / "parallel_text" / "hansards.en-fr.tsv.gz")
    hansards = [(english, french) for english, french in (line.lower().split("\t") for line in lines)]
    text = [*read_captions(folder, languages), *hansards, *tested]
    output, last = report.ROOT / "runs" / "alignment", slice(-len(tested), None)
    output.mkdir(parents=True, exist_ok=True)
    weights = align_words([(source.split(), target.split()) for source, target in text])
    teacher = list(map(link_likely, weights))
    rows = print_scores("hidden Markov models", {"agreement": teacher[last]}, gold)
    if find_spec("eflomal"):
        rows += print_scores("eflomal", join(*(links[last] for links in link_by_eflomal(text, output))), gold)
    given = teacher[-len(hansards) - len(tested) :]
    for name, texts in (("alone", text), ("guided", [*hansards, *tested])):
        data = output / name
        write_text(data, languages, {"train": texts, "valid": tested})
        maps = {}
        for target, pair, sentences, links in (
            ("fr", ("en", "fr"), tested, given),
            ("en", ("fr", "en"), [(french, english) for english, french in tested], list(map(transpose_links, given))),
        ):
            settings = ["training.steps=1500"]
            if name == "guided":
                lines = "".join(f"{format_pharaoh(item)}\n" for item in links)
                (data / f"links.{target}").write_text(lines, encoding="utf-8")
                settings = [*STUDENT, f"data.links={data / f'links.{target}'}"]
            maps[target] = attention_maps(data, pair, f"alignment-{name}-{target}", settings, sentences)
        forward = [link_strongest(weights) for weights in maps["fr"]]
        backward = [transpose_links(link_strongest(weights)) for weights in maps["en"]]
        agreed = [agreement(*pair) for pair in zip(maps["fr"], maps["en"], strict=True)]
        rows += print_scores(f"translate-rnn, {name}", join(forward, backward) | {"agreement": agreed}, gold)
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
    weights = align_words([(source.split(), target.split()) for source, target in text])
    links = {"agreement": list(map(link_likely, weights[-len(tested) :]))}
    rows = print_scores("hidden Markov models", links, gold[GIVEN_LINKS:])
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
