"""The recipe `summarise` with copying and without: ROUGE, and words that only the source has.

Outputs may have the unknown word, which the recipe's search bans.

`python -m benchmarks.copying FOLDER [SEED...]`; FOLDER holds {train,dev,test}.jsonl.gz with `body` and `subject`.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import report
from regard.data.pair import Pair
from regard.data.tokenizer_pair import Tokenizers
from regard.decoding.texts import best_texts, search_texts
from regard.metrics.text import METRICS, TextMetricName
from regard.runs.load import load
from regard.tasks.seq2seq.run import Seq2SeqRun

ROUGE: tuple[TextMetricName, ...] = ("rouge-l", "rouge-1", "rouge-2")


def train(folder: str, seed: int, copying: bool) -> Path:
    """The run in runs/, trained if it is not there."""
    files = zip(("train", "valid", "test"), ("train", "dev", "test"), strict=True)
    settings = [f"data.{name}={folder}/{stem}.jsonl.gz" for name, stem in files]
    settings += [f"training.seed={seed}", f"model.copying={str(copying).lower()}", "search.logits_processors=[]"]
    return report.trained("summarise", f"summarise-{'copying' if copying else 'plain'}-{seed}", settings)


def own_words_written(pairs: Sequence[Pair], outputs: Sequence[str], tokenizers: Tokenizers) -> tuple[int, int]:
    """How many words the references have that stand in their source and not in the vocabulary, each once, and how many
    of them the outputs have."""
    copying = replace(tokenizers, copying=True)
    wanted = [set(copying.own_words(pair.source)) & set(copying.own_words(pair.target)) for pair in pairs]
    written = [words & set(copying.own_words(output)) for words, output in zip(wanted, outputs, strict=True)]
    return sum(map(len, wanted)), sum(map(len, written))


def measure(run: Path) -> dict[str, Any]:
    """The figures of a run on its test set."""
    trained = load(run, task=Seq2SeqRun)
    pairs = list(trained.config.data.load().test)
    texts = [pair.source for pair in pairs]
    found = search_texts(trained.model, trained.tokenizers, texts, trained.search(), truncate=True)
    outputs = best_texts(trained.tokenizers, texts, found)
    scores = {name: METRICS[name](outputs, [pair.references for pair in pairs]) for name in ROUGE}
    wanted, written = own_words_written(pairs, outputs, trained.tokenizers)
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return scores | {"own_words": wanted, "own_words_written": written, "seconds": result["seconds"]}


def main(folder: str, *seeds: str) -> None:
    """Trains what is missing, then prints the table."""
    report.head("model", "seed", "ROUGE-L", "ROUGE-1", "ROUGE-2", "own words written", "training seconds")
    rows = []
    for seed in map(int, seeds or ("1", "2", "3")):
        for copying in (True, False):
            row = {"copying": copying, "seed": seed} | measure(train(str(Path(folder).resolve()), seed, copying))
            share = f"{row['own_words_written']} of {row['own_words']}"
            scores = [f"{row[name]:.2f}" for name in ROUGE]
            report.row("copying" if copying else "plain", seed, *scores, share, f"{row['seconds']:.0f}")
            rows.append(row)
    if not seeds:
        report.write("copying", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
