"""Tags of words: which words of a sentence a shorter version keeps.

`python -m benchmarks.compression FOLDER [CASE...]`; FOLDER holds {bnc,broadcast,google}.jsonl.gz. A word has the tag
KEEP if the first short version has it, as the words of that version stand in the sentence in order; sentences whose
version has other words are left out. Training is on the written and spoken sets of Clarke and Lapata, every tenth
sentence held out; the test is on them and on the evaluation set of Google, which is of another kind. The rules: keep
all words, or those that are kept in at least half of their occurrences in training.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import report
from regard.data.lines import read_lines
from regard.metrics.entities import entity_metrics
from regard.runs.load import load
from regard.tasks.tagging.data import Tagged, TaggedFiles, of_words, word_places
from regard.tasks.tagging.run import TaggingRun

SEEDS = (1, 2, 3)
KEEP, DROP = "KEEP", "O"
QUICK = ("training.steps=500", "training.warmup=50", "training.validate_every=50")
RECURRENT = "model={name: recurrent-tagger, embedding: 64, width: 64, heads: 4, dropout: 0.4}"
CASES = {
    "LSTM with self-attention": (RECURRENT, "training.learning_rate=3e-3", *QUICK),
    "BERT from nothing": QUICK,
}
"""What each case changes in the recipe `tagging`."""
METRICS = ("f1", "precision", "recall", "accuracy")
Sentences = list[Tagged]


def kept(words: Sequence[str], short: Sequence[str]) -> list[str] | None:
    """A tag for each word; None where the shorter version is no part of the sentence."""
    tags, left = [], list(short)
    for word in words:
        tags.append(KEEP if left and word.lower() == left[0].lower() else DROP)
        left = left[1:] if tags[-1] == KEEP else left
    return None if left else tags


def cut(text: str) -> list[str]:
    """The words of a text."""
    return [text[start:end] for start, end in word_places(text)]


def sentences(folder: str, name: str) -> Sentences:
    """The sentences of a set with the tags of their words."""
    found = []
    for line in read_lines(f"{folder}/{name}.jsonl.gz"):
        record = json.loads(line)
        words = cut(record["text"])
        tags = kept(words, cut(record["summaries"][0]))
        if tags is not None:
            found.append(of_words(words, tags))
    return found


def written(name: str, some: Sentences) -> Path:
    """Sentences as a file of words and tags in the checkout."""
    path = report.ROOT / "runs" / "compression" / f"{name}.conll"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        "".join(f"{word}\t{tag}\n" for word, tag in zip(each.text.split(), each.tags, strict=True)) for each in some
    ]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def rules(train: Sentences) -> dict[str, Callable[[Tagged], list[str]]]:
    """What each rule predicts for a sentence."""
    there, stays = Counter(), Counter()
    for each in train:
        for word, tag in zip(each.text.lower().split(), each.tags, strict=True):
            there[word] += 1
            stays[word] += tag == KEEP
    return {
        "keep all": lambda each: [KEEP] * len(each.tags),
        "words that are mostly kept": lambda each: [
            KEEP if 2 * stays[word] >= there[word] else DROP for word in each.text.lower().split()
        ],
    }


def main(folder: str, *cases: str) -> None:
    """Trains what is missing, then prints the table."""
    folder = str(Path(folder).resolve())
    both = sentences(folder, "bnc") + sentences(folder, "broadcast")
    sets = {"train": [each for n, each in enumerate(both) if n % 10 > 1]}
    sets |= {"valid": both[::10], "test": both[1::10], "google": sentences(folder, "google")}
    paths = {name: written(name, some) for name, some in sets.items()}
    files = [f"data.{name}={paths[name]}" for name in ("train", "valid", "test")]
    report.head("case", *METRICS, "spread of F1", "F1 on Google's", "training seconds", "parameters")
    rows: list[dict[str, Any]] = []
    for case in cases or CASES:
        found = []
        for seed in SEEDS:
            name = f"compression-{case.replace(' ', '-').lower()}-{seed}"
            run = report.trained("tagging", name, [*files, *CASES[case], f"training.seed={seed}"])
            other = load(run, "cpu", task=TaggingRun).evaluate(TaggedFiles().read(str(paths["google"])))
            result = json.loads((run / "result.json").read_text(encoding="utf-8"))
            found.append({"case": case, "seed": seed} | result | {f"google/{each}": other[each] for each in METRICS})
        cells = [f"{mean(row[f'test/{each}'] for row in found):.2f}" for each in METRICS]
        spread, google = stdev(row["test/f1"] for row in found), mean(row["google/f1"] for row in found)
        seconds = mean(row["seconds"] for row in found)
        report.row(case, *cells, f"{spread:.2f}", f"{google:.2f}", f"{seconds:.0f}", f"{found[0]['parameters']:,}")
        rows += found
    for rule, predict in rules(sets["train"]).items():
        own, other = (
            entity_metrics([predict(each) for each in sets[name]], [each.tags for each in sets[name]])
            for name in ("test", "google")
        )
        report.row(rule, *(f"{own[each]:.2f}" for each in METRICS), "", f"{other['f1']:.2f}", "", "")
        rows.append({"case": rule} | {f"test/{each}": own[each] for each in METRICS} | {"google/f1": other["f1"]})
    if not cases:
        report.write("compression", rows, sentences={name: len(some) for name, some in sets.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
