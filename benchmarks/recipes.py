"""Train recipes as `docs/results.md` reports them, and print their figures.

`python -m benchmarks.recipes NAME [FOLDER] [VARIANT...]`; NAME is a key of `EXPERIMENTS`. FOLDER holds one folder for
each public data set, such as `multi30k`. Every run goes to `runs/` and is not trained again if it is there. The table
has the mean of the seeds and their standard deviation, and a complete table is written to `results/NAME.json`.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks import report, sources

Settings = tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A recipe with settings."""

    recipe: str
    settings: Settings = ()


@dataclass(frozen=True)
class Experiment:
    """Variants that are trained on the same data and compared."""

    variants: dict[str, Variant]
    metrics: Sequence[str]
    """Names of figures in `result.json`; the first one has its standard deviation printed."""
    data: Settings = ()
    """Settings of every variant; `{folder}` is the folder of the data sets, `{fold}` and `{next}` number a fold."""
    seeds: Sequence[int] = (1,)
    folds: int = 1
    prepare: Callable[[Path], None] | None = None
    """Writes files under `runs/` before the first training."""


def variants(*recipes: str) -> dict[str, Variant]:
    """Return recipes as they are shipped."""
    return {recipe: Variant(recipe) for recipe in recipes}


def files(pattern: str, **names: str) -> Settings:
    """Return the settings of the data sets; `pattern` has `{name}` where each set's own name goes."""
    return tuple(f"data.{part}={pattern.replace('{name}', name)}" for part, name in names.items())


def translation(source: str, target: str) -> Experiment:
    """Return the translation recipes between two languages of Multi30k."""
    pairs = files(
        f"[{{folder}}/multi30k/{{name}}.{source}.gz, {{folder}}/multi30k/{{name}}.{target}.gz]",
        train="train", valid="val", test="test_2016_flickr",
    )  # fmt: skip
    recipes = variants("translate-rnn", "translate-transformer", "translate-bahdanau", "translate-luong")
    return Experiment(recipes, ("test/bleu", "test/chrf"), pairs)


def many_languages() -> Experiment:
    """Return the model of three target languages beside one model for each of them."""
    languages = ("de", "fr", "cs")
    sets = {"train": "train", "valid": "val", "test": "test_2016_flickr"}

    def settings(chosen: Sequence[str]) -> Settings:
        lists = [
            f"data.{part}=[{', '.join(f'{{folder}}/multi30k/{name}.{language}.gz' for language in ('en', *chosen))}]"
            for part, name in sets.items()
        ]
        return (*lists, f"data.languages=[{', '.join(chosen)}]", "training.steps=1200")

    cases = {"all": Variant("translate-many", settings(languages))}
    cases |= {language: Variant("translate-many", settings([language])) for language in languages}
    return Experiment(cases, ("seconds",))


WIKITEXT = files("{folder}/wikitext-2/{name}.txt.gz", train="train", valid="valid", test="test")
SICK = (
    *files("{folder}/sick/{name}.tsv.gz", train="train", valid="trial", test="test"),
    "data.text=sentence_A",
    "data.second=sentence_B",
)
CLASSES, NUMBERS = (*SICK, "data.label=entailment_judgment"), (*SICK, "data.label=relatedness_score")
VECTORS = "vectors={cooccurrence: [{folder}/wikitext-2/train.txt.gz, {folder}/multi30k/train.en.gz]}"
NEAR_VECTORS = "vectors={cooccurrence: [{folder}/multi30k/train.en.gz], window: 2}"
PLAIN = (
    "model={name: rocktaschel, embedding: 100, width: 100, dropout: 0.3}", "data.hypernyms={}", "tokenizer.size=3000",
    "training.average_decay=0",
)  # fmt: skip
"""The paper's word-by-word attention alone."""
SQUAD = (
    "data.train=[{folder}/squad/train_subset-v1.1.json.gz, {folder}/squad/train_extra.jsonl.gz]",
    "data.valid=[{folder}/squad/dev_24articles-v1.1.json.gz]",
)
PHOTOGRAPHS = (
    "data.train={folder}/flickr8k_1000/captions.jsonl",
    "data.images={folder}/flickr8k_1000/images",
    "data.split=split",
    "training.steps=1500",
    "training.warmup=100",
)
SHORT_ROWS = ("data.most=8", "model.rows=16", "training.steps=800", "training.batch_tokens=640")
FROM_BERT = ("training.start={runs}/bert", "tokenizer=null", "model=null", "training.steps=400", "training.warmup=40")
QUICK = ("training.steps=500", "training.warmup=50", "training.validate_every=50")
DIGITS = ("data.recordings={folder}/spoken_digits/spoken_digits.npz", "data.valid=100")
SHORT_SENTENCES = (
    "window=24", "model.positions=none", "model.embedding=48", "model.width=48", "model.attention=48",
    "model.dropout=0.1", "model.softmax={kind: full}", "training.steps=800", "training.batch_tokens=1400",
    "training.learning_rate=6e-3", "training.warmup=40", "training.clip=1.0", "training.average_decay=0",
    "training.validate_every=0", "training.precision=fp32",
)  # fmt: skip
GATED = ("model.gated=true",)
SHOW_AND_TELL = "model={name: show-and-tell, stages: [32, 64, 128], dropout: DROPOUT, embedding: 128, width: 256}"


def captions(recipe: str, dropout: str, credit: str, data: Settings) -> Experiment:
    """Return captions with soft and hard attention, a Transformer's, and none."""
    stages = f"stages: [32, 64, 128], dropout: {dropout}"
    plain = "attention_losses={}"
    cases = {
        "soft": Variant(recipe),
        "hard": Variant(recipe, ("model.align={name: hard, soft_share: 0.5}", f"attention_losses={credit}")),
        "transformer": Variant(recipe, (f"model={{name: grid-transformer, {stages}}}", plain)),
        "none": Variant(recipe, (SHOW_AND_TELL.replace("DROPOUT", dropout), plain)),
    }
    return Experiment(cases, ("test/cider", "test/bleu", "test/rouge-l"), data, seeds=(1, 2, 3))


# fmt: off
EXPERIMENTS: dict[str, Experiment] = {
    "dates": Experiment(
        variants("dates", "dates-luong", "dates-transformer", "dates-bottleneck"), ("test/exact-match",)
    ),
    "translation-de-en": translation("de", "en"),
    "translation-en-de": translation("en", "de"),
    "many-languages": many_languages(),
    "questions": Experiment(variants("questions", "questions-bottleneck"), ("test/exact-match",)),
    "squad": Experiment(
        {
            "pointer-generator": Variant(
                "squad",
                (
                    "vectors={cooccurrence: [{folder}/wikitext-2/train.txt.gz], fixed: true}",
                    "model={name: pointer-generator, embedding: 100, width: 192, attention: 192, dropout: 0.3, "
                    "max_source: 250, matching: true}",
                    "training.batch_tokens=8192", "training.learning_rate=2e-3", "training.average_decay=0.997",
                    "training.steps=2000",
                ),
            ),
            # Train `span-reader` to `runs/reader` first, with `tokenizer.size=40000` and `model.width=96`.
            "span reader as encoder": Variant("squad", ("training.start={runs}/reader", "training.steps=900")),
        },
        ("valid/squad-f1",),
        SQUAD,
    ),
    "spans": Experiment(
        {
            "span-reader": Variant(
                "span-reader",
                (
                    "vectors={cooccurrence: [{folder}/wikitext-2/train.txt.gz], fixed: true}", "tokenizer.size=90000",
                    "model.characters=16", "model.width=96", "model.dropout=0.3", "training.precision=bf16",
                    "training.batch_tokens=4096", "training.learning_rate=2e-3", "training.steps=3400",
                    "training.validate_every=1700",
                ),
            ),
            "BERT from nothing": Variant("spans", ("training.steps=2000", "training.warmup=200")),
            "from bert": Variant("spans", (*FROM_BERT[:3], "training.steps=450", "training.warmup=45")),
        },
        ("valid/f1", "valid/exact-match"),
        SQUAD,
    ),
    "summaries": Experiment(
        {
            "copying": Variant("summarise", ("model.copying=true",)),
            "without copying": Variant("summarise", ("model.copying=false",)),
        },
        ("test/rouge-l",),
        (
            *files("{folder}/aeslc/{name}.jsonl.gz", train="train", valid="dev", test="test"),
            "search.logits_processors=[]",
        ),
        seeds=(1, 2, 3),
    ),
    "pointing": Experiment(variants("sorting", "convex-hull"), ("test/exact-match",)),
    "reviews": Experiment(
        {
            "hierarchical": Variant("reviews"),
            "words dropped": Variant(
                "reviews", ("model.word_dropout=0.3", "vectors={cooccurrence: []}", "training.average_decay=0.99")
            ),
            "words averaged": Variant("reviews", ("model.words=average",)),
            "sentences averaged": Variant("reviews", ("model.sentences=average",)),
            "both averaged": Variant("reviews", ("model.words=average", "model.sentences=average")),
            "flat attention": Variant(
                "reviews", ("model={name: flat-attention, embedding: 100, width: 50, attention: 100, dropout: 0.5}",)
            ),
        },
        ("test/accuracy",),
        (
            "data.train={folder}/movie_reviews/movie_reviews.jsonl.gz", "data.text=sentences", "data.fold=fold",
            "data.valid_folds=[{next}]", "data.test_folds=[{fold}]",
        ),
        seeds=(1, 2, 3),
        folds=8,
    ),
    "entailment": Experiment(
        {
            "conditional encoding": Variant("entailment", (*PLAIN, "model.reading=none")),
            "attention": Variant("entailment", (*PLAIN, "model.reading=last")),
            "word by word": Variant("entailment", PLAIN),
            "word by word, both ways": Variant("entailment", (*PLAIN, "model.both_ways=true")),
            "words compared": Variant("entailment", (NEAR_VECTORS,)),
            "esim": Variant("esim", (VECTORS,)),
            "esim, one way": Variant("esim", (VECTORS, "model.both_ways=false")),
            "BERT from nothing": Variant("classify"),
            "from bert": Variant("classify", (*FROM_BERT, "training.learning_rate=1e-4")),
        },
        ("test/accuracy", "test/macro-f1"),
        CLASSES,
        seeds=(1, 2, 3),
    ),
    "relatedness": Experiment(
        {
            "esim": Variant("relatedness", (VECTORS,)),
            "BERT from nothing": Variant("regression"),
            # Import all-MiniLM-L6-v2 into runs/minilm first: `regard import`.
            "from minilm": Variant(
                "regression",
                (
                    "training.start={runs}/minilm", *FROM_BERT[1:], "training.batch_tokens=1024",
                    "training.learning_rate=1e-4", "training.validate_every=100",
                ),
            ),
        },
        ("test/pearson", "test/spearman", "test/mean-squared-error"),
        NUMBERS,
        seeds=(1, 2, 3),
    ),
    "nouns": Experiment(
        {
            "attention over words": Variant(
                "multi-label",
                (
                    "model={name: flat-attention, embedding: 64, width: 64, attention: 64, dropout: 0.2}",
                    "training.learning_rate=3e-3", "training.steps=800", "training.warmup=80",
                    "training.validate_every=100",
                ),
            ),
            "BERT from nothing": Variant("multi-label"),
        },
        ("test/micro-f1", "test/macro-f1"),
        files("{runs}/nouns/{name}.jsonl", train="train", valid="valid", test="test"),
        seeds=(1, 2, 3),
        prepare=sources.write_nouns,
    ),
    "compression": Experiment(
        {
            "LSTM with self-attention": Variant(
                "tagging",
                (
                    "model={name: recurrent-tagger, embedding: 64, width: 64, heads: 4, dropout: 0.4}",
                    "training.learning_rate=3e-3", *QUICK,
                ),
            ),
            "BERT from nothing": Variant("tagging", QUICK),
        },
        ("test/f1", "test/accuracy"),
        files("{runs}/compression/{name}.conll", train="train", valid="valid", test="test"),
        seeds=(1, 2, 3),
        prepare=sources.write_compression,
    ),
    "topics": Experiment(variants("topics"), ("test/micro-f1",), seeds=(1, 2, 3)),
    "names": Experiment(variants("names"), ("test/f1",), seeds=(1, 2, 3)),
    "pronouns": Experiment(variants("pronouns"), ("test/f1",), seeds=(1, 2, 3)),
    "clothes": Experiment(
        {
            "vit": Variant("vit"),
            "convolutional stem": Variant("vit", ("model.stem=convolutional", "model.hidden=256")),
        },
        ("test/accuracy", "test/macro-f1"),
        files("{folder}/fashion-mnist/{name}-images-idx3-ubyte.gz", train="train", test="t10k"),
    ),
    "digits": Experiment(
        {
            "location-aware": Variant("spoken-digits"),
            "content only": Variant("spoken-digits", ("model.history=null",)),
            "monotonic": Variant(
                "spoken-digits",
                (
                    "model.history=null", "model.align=monotonic", "model.ctc=0", "attention_losses.diagonal=0",
                    "training.average_decay=0", "training.steps=800",
                ),
            ),
        },
        ("test/word-errors", "test/character-errors"),
        DIGITS,
        seeds=(1, 2, 3),
    ),
    "scenes": captions("scenes", "0.1", "{reinforce: 0.1, entropy: 0.01}", ()),
    "photographs": captions("captions", "0.5", "{reinforce: 1.0, draw_entropy: 0.02}", PHOTOGRAPHS),
    "few-shot": Experiment(
        {
            "1 example": Variant("few-shot"),
            "5 examples": Variant("few-shot", ("data.shots=5", "training.batch_tokens=384", "training.steps=4000")),
            "1 example, without prototypes": Variant("few-shot", ("prototypes=0",)),
        },
        ("test/accuracy",),
        ("data.train={folder}/omniglot/omniglot_small.npz",),
        seeds=(1, 2, 3),
    ),
    "dialogue": Experiment(
        {f"{turns} turns": Variant("dialogue", (f"data.turns={turns}",)) for turns in (0, 1, 2, 3)},
        ("valid/perplexity",),
        ("data.train={folder}/tiny_shakespeare/input.txt.gz",),
    ),
    "conversations": Experiment(
        {f"{turns} turns": Variant("conversations", (f"data.turns={turns}",)) for turns in range(6)},
        ("test/perplexity", "test/exact-match"),
    ),
    "templates": Experiment(
        {
            "pronoun of the name": Variant("templates"),
            "pronoun in the context": Variant("templates", ("data.pronoun=context",)),
        },
        ("test/exact-match",),
        seeds=(1, 2, 3),
    ),
    "language": Experiment(
        {
            **variants("language-lstm", "language-attention", "language-lstmn", "language-gpt2"),
            "language-lstmn without its tape": Variant("language-lstmn", ("model.positions=none", "model.window=1")),
        },
        ("test/perplexity", "valid/perplexity"),
        WIKITEXT,
    ),
    "subjects": Experiment(
        {"LSTMN with a gate": Variant("language-lstmn", GATED), "LSTM": Variant("language-lstmn", ("model.window=1",))},
        ("test/word_perplexity",),
        (*files("{runs}/subjects/{name}.txt", train="train", valid="valid", test="test"), *SHORT_SENTENCES),
        seeds=(1, 2, 3),
        prepare=sources.write_subjects,
    ),
    "characters": Experiment(
        variants("characters-gpt2", "characters-llama"),
        ("valid/loss",),
        ("data.train={folder}/tiny_shakespeare/input.txt.gz", "training.validate_every=1000"),
    ),
    "bert": Experiment(
        {"bert": Variant("bert", ("data.between=heading", "training.steps=3000", "training.warmup=400"))},
        ("test/masked-accuracy", "test/perplexity", "test/next-sentence"),
        WIKITEXT,
    ),
    "elmo": Experiment(
        {"elmo": Variant("elmo", ("training.steps=2000", "training.warmup=200"))}, ("test/perplexity",), WIKITEXT
    ),
    "tapes": Experiment(
        {
            "rows of up to 8": Variant("copy", SHORT_ROWS),
            **variants("copy", "repeat-copy", "recall"),
        },
        ("test/exact-match",),
        seeds=(1, 2, 3),
    ),
    "bandits": Experiment(variants("bandits"), ("test/regret",)),
}
# fmt: on


def train(name: str, variant: str, seed: int, fold: int, folder: Path) -> dict[str, Any]:
    """Train one run, unless it is there, and return its figures."""
    experiment = EXPERIMENTS[name]
    case = experiment.variants[variant]
    values = {
        "{folder}": str(folder),
        "{runs}": str(report.ROOT / "runs"),
        "{fold}": str(fold),
        "{next}": str((fold + 1) % experiment.folds),
    }
    settings = [*experiment.data, *case.settings, f"training.seed={seed}"]
    for placeholder, value in values.items():
        settings = [setting.replace(placeholder, value) for setting in settings]
    # `bert` is the run that later experiments start from, so it has the name of its recipe.
    run = case.recipe if name == "bert" else f"{name}-{variant}-{seed}-{fold}".replace(", ", "-").replace(" ", "-")
    path = report.trained(case.recipe, run, settings)
    result = json.loads((path / "result.json").read_text(encoding="utf-8"))
    return {"variant": variant, "seed": seed, "fold": fold} | result


def print_row(variant: str, rows: Sequence[dict[str, Any]], metrics: Sequence[str]) -> None:
    """Print the means of one variant over its seeds and folds."""
    first = [row[metrics[0]] for row in rows]
    deviation = f"{stdev(first):.2f}" if len(first) > 1 else ""
    means = [f"{mean(row[metric] for row in rows):.2f}" for metric in metrics]
    seconds = f"{mean(row['seconds'] for row in rows):.0f}"
    report.row(variant, *means, deviation, len(rows), seconds, f"{rows[0]['parameters']:,}")


def main(name: str = "", folder: str = ".", *chosen: str) -> None:
    """Train what is missing, then print the table."""
    if name not in EXPERIMENTS:
        raise SystemExit(f"unknown experiment {name!r}; expected one of {', '.join(EXPERIMENTS)}")
    experiment, data_folder = EXPERIMENTS[name], Path(folder).resolve()
    if experiment.prepare is not None:
        experiment.prepare(data_folder)
    metrics = list(experiment.metrics)
    report.head("variant", *metrics, "standard deviation", "runs", "training seconds", "parameters")
    rows = []
    for variant in chosen or experiment.variants:
        variant_rows = [
            train(name, variant, seed, fold, data_folder)
            for seed in experiment.seeds
            for fold in range(experiment.folds)
        ]
        print_row(variant, variant_rows, metrics)
        rows += variant_rows
    if not chosen:
        report.write(name, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
