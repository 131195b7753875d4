"""Rules without a network, as what a model is to beat.

`python -m benchmarks.rules dialogue FILE`: perplexity of held-out replies, those of the recipe `dialogue`, by their
pieces' pairs, alone and mixed with the pieces of the last turns. `language FOLDER`: perplexity of WikiText-2's valid
and test text by pairs and triples of words. `clothes FOLDER`: Fashion-MNIST's test images by the nearest mean and the
nearest training image. `captions FOLDER`: one caption for all photographs, and that of the nearest photograph.

Pairs and triples are those of Kneser and Ney 1995, interpolated, with a discount of 0.75 (Chen and Goodman 1998).
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import report
from regard.data.dialogue import Dialogue
from regard.data.idx import read_idx
from regard.data.lines import read_lines
from regard.metrics.text import METRICS
from regard.text import Tokenizer, TokenizerSettings

DISCOUNT = 0.75
SHARES = (0.02, 0.05, 0.1, 0.15)
"""Of the last turns in the mixture."""
TURNS = (1, 2, 3)
START, END = "<s>", "</s>"
Text = Sequence[Any]


class KneserNey:
    """Words after the `order` - 1 words before them; shorter histories by the number of different words before."""

    def __init__(self, texts: Iterable[Text], order: int, vocabulary: int):
        self.order, self.vocabulary = order, vocabulary
        counts = Counter(gram for text in texts for gram in _grams(text, order))
        self.levels: list[tuple[Counter, Counter, Counter]] = []
        for _ in range(order):
            totals, kinds, shorter = Counter(), Counter(), Counter()
            for gram, count in counts.items():
                totals[gram[:-1]] += count
                kinds[gram[:-1]] += 1
                shorter[gram[1:]] += 1
            self.levels.append((counts, totals, kinds))
            counts = shorter

    def probability(self, gram: Text, level: int = 0) -> float:
        """That of the last word of `order` words."""
        counts, totals, kinds = self.levels[level]
        less = self.probability(gram[1:], level + 1) if level + 1 < self.order else 1 / self.vocabulary
        history = gram[:-1]
        if not totals[history]:
            return less
        return (max(counts[gram] - DISCOUNT, 0) + DISCOUNT * kinds[history] * less) / totals[history]

    def perplexity(self, texts: Sequence[Text], beside: Sequence[Text] = (), share: float = 0.0) -> float:
        """That of texts with their ends, each mixed with how often its words are in a text `beside` it."""
        total, words = 0.0, 0
        for text, other in zip(texts, beside or [()] * len(texts), strict=True):
            near = Counter(other)
            weight = share if near else 0.0
            for gram in _grams(text, self.order):
                mixed = (1 - weight) * self.probability(gram) + weight * near[gram[-1]] / max(1, len(other))
                total, words = total - math.log(mixed), words + 1
        return math.exp(total / words)


def _grams(text: Text, order: int) -> Iterable[tuple[Any, ...]]:
    whole = [*[START] * (order - 1), *text, END]
    return zip(*(whole[first:] for first in range(order)), strict=False)


def dialogue(file: str) -> None:
    """Replies by pairs of the recipe's pieces, and with the last turns."""
    sets = {turns: Dialogue(train=file, turns=turns, longest=40).load() for turns in TURNS}
    replies = [pair.target for pair in sets[1].train]
    cut = Tokenizer.train(TokenizerSettings("bpe", 4000), replies).encode
    pairs = KneserNey([cut(reply) for reply in replies], 2, 4000)
    held_out = [cut(pair.target) for pair in sets[1].valid]
    report.head("turns known", "their share", "perplexity")
    report.row(0, 0, f"{pairs.perplexity(held_out):.1f}")
    for turns in TURNS:
        before = [cut(pair.source) for pair in sets[turns].valid]
        for share in SHARES:
            report.row(turns, share, f"{pairs.perplexity(held_out, before, share):.1f}")


def language(folder: str) -> None:
    """WikiText-2's words by pairs and triples."""

    def texts(name: str) -> list[list[str]]:
        return [line.split() for line in read_lines(Path(folder) / f"{name}.txt.gz") if line.strip()]

    train = texts("train")
    vocabulary = len({word for text in train for word in text}) + 1
    report.head("words", "valid", "test")
    for order in (2, 3):
        model = KneserNey(train, order, vocabulary)
        report.row(order, *(f"{model.perplexity(texts(name)):.1f}" for name in ("valid", "test")))


def clothes(folder: str) -> None:
    """Fashion-MNIST by distances of pixels."""

    def part(name: str) -> tuple[Tensor, Tensor]:
        images = read_idx(Path(folder) / f"{name}-images-idx3-ubyte.gz", 3)
        classes = read_idx(Path(folder) / f"{name}-labels-idx1-ubyte.gz", 1)
        return torch.tensor(images / 255, dtype=torch.float32).flatten(1), torch.tensor(classes.astype(np.int64))

    (train, classes), (test, expected) = part("train"), part("t10k")
    means = torch.stack([train[classes == number].mean(0) for number in range(10)])
    report.head("rule", "accuracy")
    report.row("nearest mean", f"{100 * (nearest(test, means) == expected).float().mean():.2f}")
    report.row("nearest image", f"{100 * (classes[nearest(test, train)] == expected).float().mean():.2f}")


def nearest(queries: Tensor, keys: Tensor) -> Tensor:
    """The row of `keys` nearest to each query."""
    squares = (keys * keys).sum(1)
    return torch.cat([(squares - 2 * some @ keys.T).argmin(1) for some in queries.split(500)])


def captions(folder: str) -> None:
    """Photographs by the caption most like all others, and by that of the nearest photograph of 8 x 8 pixels."""
    rows = [json.loads(line) for line in read_lines(Path(folder) / "captions.jsonl")]
    with np.load(Path(folder) / "images_64x64.npz") as file:
        pixels = torch.tensor(file["images"] / 255, dtype=torch.float32).permute(0, 3, 1, 2)
    small = nn.functional.adaptive_avg_pool2d(pixels, 8).flatten(1)
    train, test = ([at for at, row in enumerate(rows) if row["split"] == name] for name in ("train", "test"))
    texts = {at: [" ".join(caption.lower().split()) for caption in rows[at]["captions"]] for at in (*train, *test)}
    references = [tuple(texts[at]) for at in test]
    common = central([text for at in train for text in texts[at]])
    beside = [central(texts[train[at]]) for at in nearest(small[test], small[train]).tolist()]
    report.head("rule", "CIDEr-D", "BLEU", "ROUGE-L")
    for name, found in {"one caption": [common] * len(test), "nearest photograph": beside}.items():
        figures: list[Callable[..., float]] = [METRICS[metric] for metric in ("cider", "bleu", "rouge-l")]
        report.row(name, *(f"{figure(found, references):.1f}" for figure in figures))


def central(texts: Sequence[str]) -> str:
    """The text whose words, by how rare they are, have the greatest cosine with those of all texts together."""
    documents = Counter(word for text in texts for word in set(text.split()))
    vectors = []
    for text in texts:
        found = {
            word: count * math.log1p(len(texts) / documents[word]) for word, count in Counter(text.split()).items()
        }
        length = math.sqrt(sum(value**2 for value in found.values()))
        vectors.append({word: value / length for word, value in found.items()})
    total: Counter[str] = Counter()
    for vector in vectors:
        total.update(vector)
    return max(zip(texts, vectors, strict=True), key=lambda pair: sum(v * total[word] for word, v in pair[1].items()))[
        0
    ]


RULES: dict[str, Callable[[str], None]] = {
    "dialogue": dialogue,
    "language": language,
    "clothes": clothes,
    "captions": captions,
}

if __name__ == "__main__":
    RULES[sys.argv[1]](sys.argv[2])
