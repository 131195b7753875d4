"""The translation recipes as they are shipped, between two languages of one folder: BLEU, seconds, parameters.

`python -m benchmarks.translation FOLDER [SOURCE TARGET [RECIPE...]]`, by default from de to en; FOLDER holds
{train,val,test_2016_flickr}.LANGUAGE.gz of Multi30k. `pip install sacremoses` adds multi-bleu.
"""

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from benchmarks import report
from regard.runs.load import load
from regard.tasks.seq2seq.run import Seq2SeqRun

RECIPES = ("translate-rnn", "translate-transformer", "translate-bahdanau", "translate-luong")
SETS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
FIGURES = ("test/bleu", "test/chrf", "valid/bleu", "seconds", "tokens_per_second", "steps", "parameters")
MULTI = "test/multi-bleu"


def settings(folder: str, languages: tuple[str, str]) -> list[str]:
    """Those that name the data."""
    files = {name: [f"{folder}/{stem}.{each}.gz" for each in languages] for name, stem in SETS.items()}
    return [f"data.{name}=[{', '.join(pair)}]" for name, pair in files.items()]


def train(recipe: str, folder: str, languages: tuple[str, str]) -> dict[str, Any]:
    """Trains a recipe into runs/, or takes the run that is there; its figures."""
    run = report.trained(recipe, f"{recipe}-{'-'.join(languages)}", settings(folder, languages))
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    command = " ".join([f"regard train {recipe}", *(f"--set {each}" for each in settings("multi30k", languages))])
    row = {"recipe": recipe, "command": command, "threads": environment["threads"]}
    row |= {name: result[name] for name in FIGURES}
    trained = load(run, task=Seq2SeqRun)
    row["seed"] = trained.config.training.seed
    return row | ({MULTI: multi_bleu(trained, languages[1])} if find_spec("sacremoses") else {})


def multi_bleu(run: Seq2SeqRun, language: str) -> float:
    """What Moses' multi-bleu.perl -lc gives on Moses' tokens of the test set's translations: the older papers' figure,
    which lies above sacreBLEU's because case is ignored."""
    pairs = list(run.config.data.load().test)
    found = run.predict([pair.source for pair in pairs], attention=False)
    outputs = tokens([each.text for each in found], language)
    references = tokens([pair.target for pair in pairs], language)
    return BLEU(lowercase=True, tokenize="none", force=True).corpus_score(outputs, [references]).score


def tokens(texts: Sequence[str], language: str) -> list[str]:
    """Texts with blanks between what Moses takes for a token."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer  # pyright: ignore[reportMissingImports]

    normal, cut = MosesPunctNormalizer(language), MosesTokenizer(language)
    return [cut.tokenize(normal.normalize(text), return_str=True, escape=False) for text in texts]


def main(folder: str, source: str = "de", target: str = "en", *recipes: str) -> None:
    """Trains one recipe after the other, then prints the table."""
    rows = [train(recipe, str(Path(folder).resolve()), (source, target)) for recipe in recipes or RECIPES]
    report.head("recipe", "BLEU", "multi-bleu", "chrF", "training seconds", "tokens/s", "parameters")
    for row in rows:
        report.row(
            f"`{row['recipe']}`",
            f"{row['test/bleu']:.2f}",
            f"{row[MULTI]:.2f}" if MULTI in row else "",
            f"{row['test/chrf']:.2f}",
            f"{row['seconds']:.0f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['parameters']:,}",
        )
    if not recipes:
        report.write(f"translation-{source}-{target}", rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
