"""How often a hypernym reads its hyponym most: `python -m benchmarks.hypernyms RUN`, RUN one of `esim` or `entailment`.

Generated pairs have the same sentence but for one noun: "A dog is running on the grass", "An animal is running on the
grass". The row of the hypernym should have its largest weight on the noun that it stands for.
"""

import sys
from collections.abc import Iterator
from statistics import mean

from regard import load
from regard.maps import Alignment
from regard.tasks.classification.run import ClassificationRun

NOUNS = {
    "animal": "dog cat horse monkey lion panda",
    "person": "man woman boy girl child",
    "instrument": "guitar piano flute drum violin",
    "vehicle": "car truck bus motorcycle bike",
    "food": "onion potato carrot tomato meat",
}
"""Hyponyms of each hypernym."""
SENTENCES = {
    "animal": ("{} is running on the grass", "{} is playing with a ball"),
    "person": ("{} is riding a horse", "{} is sitting near the water"),
    "instrument": ("A man is playing {}", "{} is being played on a stage"),
    "vehicle": ("A woman is driving {}", "{} is standing on the street"),
    "food": ("A man is cutting {}", "{} is being put into a pan"),
}


def pairs() -> Iterator[tuple[str, str, str, str]]:
    """Premise, hypothesis, the noun of the premise, and its hypernym."""
    for hypernym, nouns in NOUNS.items():
        for sentence in SENTENCES[hypernym]:
            for noun in nouns.split():
                yield sentence.format(with_article(noun)), sentence.format(with_article(hypernym)), noun, hypernym


def with_article(noun: str) -> str:
    """The noun behind its article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def found(folder: str) -> list[tuple[bool, float, float]]:
    """For each pair whether the hypernym reads the noun most, the weight on it, and that of a uniform row."""
    run, rows = load(folder, "cpu", task=ClassificationRun), []
    for premise, hypothesis, noun, hypernym in pairs():
        weights = run.attribute((premise, hypothesis)).weights
        assert isinstance(weights, Alignment)
        source, target = ([word.lower() for word in side] for side in (weights.source, weights.target))
        row, place = weights.weights[target.index(hypernym)], source.index(noun)
        rows.append((int(row.argmax()) == place, float(row[place]), 1 / len(source)))
    return rows


if __name__ == "__main__":
    most, weights, uniform = map(list, zip(*found(sys.argv[1]), strict=True))
    print(
        f"{len(most)} pairs: the noun has the largest weight in {100 * mean(most):.0f} %, and {mean(weights):.3f}; "
        f"{mean(uniform):.3f} in a uniform row"
    )
