"""The recipe `bert` on WikiText-2: how many blanks it fills; and fine-tuned on SICK beside the same model from scratch.

`python -m benchmarks.pretraining FOLDER`; FOLDER holds wikitext-2/{train,valid,test}.txt.gz and
sick/{train,trial,test}.tsv.gz. From scratch is the recipe `classify` started from a run with the same model and
tokenizer whose weights were drawn and never trained. Either case has the learning rate that is better on SICK's trial
set with the first seed.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from benchmarks import report
from benchmarks.entailment import data
from regard.models.bert import Bert
from regard.runs import run_file
from regard.runs.load import CONFIG, load
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.tasks.tokenizer_file import TOKENIZER

SEEDS = (1, 2, 3)
RATES = ("1e-4", "5e-4")
SETTINGS = ("tokenizer=null", "model=null", "training.steps=400", "training.warmup=40", "training.validate_every=100")
"""Of either case, beside the rate and the seed."""
STARTS = {"pre-trained": "finetuned", "from scratch": "scratch"}
"""The cases, and the names of their runs."""


def pretrained(folder: str) -> Path:
    """The run of the recipe, trained if it is not there."""
    settings = [f"data.{name}={folder}/wikitext-2/{name}.txt.gz" for name in ("train", "valid", "test")]
    return report.trained("bert", "bert", [*settings, "data.between=heading"])


def figures(run: Path) -> dict[str, float]:
    """Those of a run's `result.json`."""
    return json.loads((run / "result.json").read_text(encoding="utf-8"))


def most_frequent(run: MaskedLanguageModelRun) -> float:
    """How many tokens of the test set are the one that is most frequent in the training set, in per cent."""
    splits = run.config.data.load()
    known, tested = (
        Counter(token for document in some for text in document for token in run.tokenizer.encode(text))
        for some in (splits.train, splits.test)
    )
    ((first, _),) = known.most_common(1)
    return 100 * tested[first] / tested.total()


def untrained(path: Path, run: MaskedLanguageModelRun, seed: int) -> Path:
    """A run with another's model and tokenizer and weights that are drawn."""
    if not (path / WEIGHTS).is_file():
        torch.manual_seed(seed)
        with RunDirectory.create(path) as fresh:
            fresh.write_text(CONFIG, run_file.dump(run.config))
            with fresh.writing(TOKENIZER) as file:
                run.tokenizer.save(file)
            fresh.save_tensors(WEIGHTS, Bert(run.tokenizer.size, run.config.model).state_dict())
    return path


def classifier(folder: str, case: str, start: Path, rate: str, seed: int) -> dict[str, Any]:
    """The figures of a run on SICK, trained if it is not there."""
    settings = [
        *data(f"{folder}/sick"),
        f"training.start={start}",
        f"training.learning_rate={rate}",
        f"training.seed={seed}",
        *SETTINGS,
    ]
    run = report.trained("classify", f"sick-{STARTS[case]}-{rate}-{seed}", settings)
    return {"case": case, "learning_rate": rate, "seed": seed} | figures(run)


def compared(folder: str, run: Path) -> list[dict[str, Any]]:
    """A row a run, those included that were made to choose the rate."""
    trained = load(run, "cpu", task=MaskedLanguageModelRun)
    rows = []
    rates: dict[str, str] = {}
    for seed in SEEDS:
        drawn = untrained(run.with_name(f"bert-untrained-{seed}"), trained, seed)
        for case, start in zip(STARTS, (run, drawn), strict=True):
            tried = RATES if seed == SEEDS[0] else (rates[case],)
            found = [classifier(folder, case, start, rate, seed) for rate in tried]
            best = max(found, key=lambda row: row["valid/accuracy"])
            rates.setdefault(case, best["learning_rate"])
            rows += [row | {"chosen": row["learning_rate"] == rates[case]} for row in found]
    return rows


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The table of fine-tuning."""
    report.head("on SICK", "learning rate", "trial accuracy", "test accuracy", "spread of seeds", "macro-F1", "seconds")
    for case in STARTS:
        found = [row for row in rows if row["case"] == case and row["chosen"]]
        valid, accuracy, f1 = (
            [row[name] for row in found] for name in ("valid/accuracy", "test/accuracy", "test/macro-f1")
        )
        cells = [f"{mean(valid):.2f}", f"{mean(accuracy):.2f}", f"{stdev(accuracy):.2f}", f"{mean(f1):.2f}"]
        report.row(case, found[0]["learning_rate"], *cells, f"{mean(row['seconds'] for row in found):.0f}")


def main(folder: str) -> None:
    """Trains what is missing, then prints both tables."""
    folder = str(Path(folder).resolve())
    run = pretrained(folder)
    result, guess = figures(run), most_frequent(load(run, "cpu", task=MaskedLanguageModelRun))
    report.head("on WikiText-2", "masked accuracy", "perplexity", "next sentence", "training seconds", "parameters")
    cells = [f"{result[f'test/{name}']:.2f}" for name in ("masked-accuracy", "perplexity", "next-sentence")]
    report.row("`bert`", *cells, f"{result['seconds']:.0f}", f"{result['parameters']:,}")
    report.row("the most frequent token, a coin", f"{guess:.2f}", "", "50.00", "", "")
    print()
    rows = compared(folder, run)
    show(rows)
    report.write("pretraining", rows, bert=result | {"most_frequent_token": guess})


if __name__ == "__main__":
    main(*sys.argv[1:])
