"""How much trained models attend to the right word: `python -m benchmarks.attended NAME RUN [FOLDER]`.

- `pronouns`, a run of the recipe `pronouns`: how often a head and the rollout prefer the noun that "it" stands for;
- `answers`, a run of `questions`: the share of the weight on the answer while the right answer is forced;
- `hypernyms`, a run of `esim` or `entailment`: how often "animal" attends most to "dog" in generated pairs;
- `subjects`, a run of the experiment `subjects`: the weight on the subject where the object is predicted;
- `same-words`, likewise with FOLDER, which holds `sick`: the weight of a word on the same word of the other sentence.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.sources import make_subject_sentences, read_lines
from regard import load
from regard.data.generated.sentences import PronounSentence
from regard.maps.reductions import rollout
from regard.tasks.tagging.data import word_places

PAIRS = 500
HYPONYMS = {
    "animal": ("dog", "cat", "horse", "monkey", "lion", "panda"),
    "person": ("man", "woman", "boy", "girl", "child"),
    "instrument": ("guitar", "piano", "flute", "drum", "violin"),
    "vehicle": ("car", "truck", "bus", "motorcycle", "bike"),
    "food": ("onion", "potato", "carrot", "tomato", "meat"),
}
SENTENCES = {
    "animal": ("{} is running on the grass", "{} is playing with a ball"),
    "person": ("{} is riding a horse", "{} is sitting near the water"),
    "instrument": ("A man is playing {}", "{} is being played on a stage"),
    "vehicle": ("A woman is driving {}", "{} is standing on the street"),
    "food": ("A man is cutting {}", "{} is being put into a pan"),
}


def measure_pronouns(run: Any, folder: Path) -> None:
    """Print how often a head gives the right noun more weight than the wrong one, and the answers to two sentences."""
    weights, shares = [], []
    for sentence in run.config.data.sentences()[2]:
        assert isinstance(sentence, PronounSentence)
        matrix = np.asarray(run.attribute(sentence.text).lookups[0].weights)
        words = word_places(sentence.text)
        (part,) = run.split(sentence.text, words)
        names = [sentence.text[start:end] for start, end in words]
        places = [part.positions[names.index(name)] for name in ("it", sentence.referent, sentence.distractor)]
        weights.append(matrix[:, :, places[0]][..., places[1:]])
        shares.append(rollout(matrix)[places[0], places[1:]])
    is_right = (np.stack(weights)[..., 0] > np.stack(weights)[..., 1]).mean(0)
    layer, head = np.unravel_index(is_right.argmax(), is_right.shape)
    on_right = np.stack(weights)[:, layer, head, 0].mean()
    by_rollout = np.mean([right > wrong for right, wrong in shares])
    report.head("head", "prefers the right noun", "its weight on that noun", "the rollout prefers it")
    report.row(
        f"layer {layer}, head {head}", f"{100 * is_right.max():.1f} %", f"{on_right:.3f}", f"{100 * by_rollout:.1f} %"
    )
    for word in ("tired", "wide"):
        print(run.predict([f"The animal did not cross the street because it was too {word} ."])[0].text)


def measure_answers(run: Any, folder: Path) -> None:
    """Print the mean weight of the answer's words on where they stand in the context."""
    pairs = run.config.data.load().test
    shares = [
        float(weights[:, target, source].mean())
        for pair, weights in zip(pairs, run.word_maps(pairs), strict=True)
        for source, target in pair.links or ()
    ]
    report.head("weight on the answer")
    report.row(f"{100 * mean(shares):.1f} %")


def hypernym_pairs() -> Iterator[tuple[str, str, str, str]]:
    """Yield premise, hypothesis, the premise's noun and its hypernym."""
    for hypernym, nouns in HYPONYMS.items():
        for sentence in SENTENCES[hypernym]:
            for noun in nouns:
                yield sentence.format(with_article(noun)), sentence.format(with_article(hypernym)), noun, hypernym


def with_article(noun: str) -> str:
    """Return the noun with its article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def words_and_weights(run: Any, first: str, second: str) -> tuple[list[str], list[str], np.ndarray]:
    """Return the words of two texts in lower case, and what the second attends to in the first."""
    alignment = run.attribute((first, second)).weights
    source, target = ([word.lower() for word in side] for side in (alignment.source, alignment.target))
    return source, target, np.asarray(alignment.weights)


def measure_hypernyms(run: Any, folder: Path) -> None:
    """Print how often a hypernym attends most to its hyponym."""
    is_largest, weights, uniform = [], [], []
    for premise, hypothesis, noun, hypernym in hypernym_pairs():
        source, target, matrix = words_and_weights(run, premise, hypothesis)
        row = matrix[target.index(hypernym)]
        is_largest.append(int(row.argmax()) == source.index(noun))
        weights.append(float(row[source.index(noun)]))
        uniform.append(1 / len(source))
    report.head("pairs", "noun has the largest weight", "weight on it", "uniform weight")
    report.row(len(weights), f"{100 * mean(is_largest):.0f} %", f"{mean(weights):.3f}", f"{mean(uniform):.3f}")


def measure_same_words(run: Any, folder: Path) -> None:
    """Print the weight on the same word, for words that the first sentence has once."""
    weights, uniform = [], []
    header, *lines = read_lines(folder / "sick" / "test.tsv.gz")
    columns = header.split("\t")
    for line in lines[:PAIRS]:
        row = dict(zip(columns, line.split("\t"), strict=True))
        source, target, matrix = words_and_weights(run, row["sentence_A"], row["sentence_B"])
        for word, word_weights in zip(target, matrix, strict=True):
            if source.count(word) == 1:
                weights.append(float(word_weights[source.index(word)]))
                uniform.append(1 / len(source))
    report.head("words", "weight on the same word", "uniform weight")
    report.row(len(weights), f"{mean(weights):.3f}", f"{mean(uniform):.3f}")


def measure_subjects(run: Any, folder: Path) -> None:
    """Print the weight on the subject at the article behind the verb, whose step predicts the object."""
    weights, is_largest, on_last, uniform = [], [], [], []
    for text, subject, verb in make_subject_sentences(100, seed=3):
        matrix = np.asarray(run.attribute(text).lookups[0].weights).squeeze((0, 1))
        words = ["", *text.split()]
        place = words.index(verb) + 1
        row = matrix[place, :place]
        weights.append(float(row[words.index(subject)]))
        is_largest.append(int(row.argmax()) == words.index(subject))
        on_last.append(float(row[-1]))
        uniform.append(1 / place)
    report.head("weight on the subject", "it is the largest", "weight on the word before", "uniform weight")
    report.row(
        f"{mean(weights):.3f}", f"{100 * mean(is_largest):.0f} %", f"{mean(on_last):.3f}", f"{mean(uniform):.3f}"
    )


MEASURES: dict[str, Callable[[Any, Path], None]] = {
    "answers": measure_answers,
    "hypernyms": measure_hypernyms,
    "pronouns": measure_pronouns,
    "same-words": measure_same_words,
    "subjects": measure_subjects,
}

if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in MEASURES:
        raise SystemExit(f"usage: python -m benchmarks.attended NAME RUN [FOLDER], NAME one of {', '.join(MEASURES)}")
    MEASURES[sys.argv[1]](load(sys.argv[2], "cpu"), Path(sys.argv[3] if len(sys.argv) > 3 else "."))
