"""What it helps BERT with SICK to have read captions first: SICK's sentences are captions of photographs and videos.

`python -m benchmarks.related_text FOLDER`; FOLDER holds wikitext-2/{train,valid,test}.txt.gz, multi30k/train.en.gz,
flickr8k_1000/captions.jsonl and sick/{train,trial,test}.tsv.gz. The run of `bert` on WikiText-2 goes on with documents
of one caption or two: Multi30k's alone, those of one photograph of Flickr in pairs, and SICK's training pairs, twice
each and without their classes. Fine-tuned on SICK with five seeds, beside rules on the pairs without a model
that was trained before (`benchmarks.entailment`).
"""

import json
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import mean, stdev
from typing import Any

from benchmarks import report
from benchmarks.entailment import COLUMNS, SEEDS, data
from benchmarks.pretraining import figures, pretrained
from regard.data.lines import read_lines
from regard.tasks.classification.data import LabelledTables

STEPS, TWICE = 2_000, 2
GOES_ON = (
    f"training.steps={STEPS}",
    "training.warmup=60",
    "training.learning_rate=5e-4",
    "training.validate_every=0",
    "data.valid=null",
    "data.test=null",
    "data.between=blank-line",
    "data.held_out=0.02",
)
FINE_TUNED = (
    "tokenizer=null",
    "model=null",
    "training.steps=600",
    "training.warmup=40",
    "training.learning_rate=3e-4",
    "training.label_smoothing=0.1",
    "training.validate_every=100",
)


def documents(folder: Path) -> Iterator[tuple[str, ...]]:
    """One caption or two each."""
    for line in read_lines(folder / "multi30k" / "train.en.gz"):
        yield (line,)
    for line in read_lines(folder / "flickr8k_1000" / "captions.jsonl"):
        yield from combinations(json.loads(line)["captions"], 2)
    for pair in LabelledTables(**COLUMNS).read(str(folder / "sick" / "train.tsv.gz")):
        yield from [pair.texts] * TWICE


def written(folder: Path) -> Path:
    """The documents in a file of the checkout, blank lines between, in an order that is always the same."""
    path = report.ROOT / "runs" / "captions.txt"
    found = ["\n".join(each) for each in documents(folder)]
    Random(1).shuffle(found)
    path.write_text("\n\n".join(found) + "\n", encoding="utf-8")
    return path


def read_on(folder: Path) -> Path:
    """The run that went on, trained if it is not there."""
    start = pretrained(str(folder))
    return report.trained(
        "bert", "bert-captions", [f"training.start={start}", f"data.train={written(folder)}", *GOES_ON]
    )


def fine_tuned(folder: Path, start: Path, seed: int) -> dict[str, Any]:
    """The figures of a run on SICK, trained if it is not there."""
    settings = [*data(f"{folder}/sick"), f"training.start={start}", f"training.seed={seed}", *FINE_TUNED]
    return {"seed": seed} | figures(report.trained("classify", f"sick-captions-{seed}", settings))


def main(folder: str) -> None:
    """Trains what is missing, then prints both tables."""
    path = Path(folder).resolve()
    run = read_on(path)
    result = figures(run)
    report.head(
        "on captions held out", "masked accuracy", "perplexity", "of one photograph or pair", "training seconds"
    )
    cells = [f"{result[f'valid/{name}']:.2f}" for name in ("masked-accuracy", "perplexity", "next-sentence")]
    report.row("`bert`, gone on", *cells, f"{result['seconds']:.0f}")
    print()
    rows = [fine_tuned(path, run, seed) for seed in SEEDS]
    report.head("on SICK", "trial accuracy", "test accuracy", "spread of seeds", "macro-F1", "training seconds")
    valid, test, f1, seconds = (
        [row[name] for row in rows] for name in ("valid/accuracy", "test/accuracy", "test/macro-f1", "seconds")
    )
    cells = [f"{mean(valid):.2f}", f"{mean(test):.2f}", f"{stdev(test):.2f}", f"{mean(f1):.2f}", f"{mean(seconds):.0f}"]
    report.row(f"seeds {SEEDS[0]} to {SEEDS[-1]}", *cells)
    report.write("related_text", rows, bert=result)


if __name__ == "__main__":
    main(*sys.argv[1:])
