"""Rules without a network, which a trained model should beat: `python -m benchmarks.rules NAME FOLDER`.

FOLDER holds one folder for each public data set, as for `benchmarks.recipes`. NAME is a key of `RULES`:

- `dialogue`, `language`: pairs and triples of words, interpolated (Kneser and Ney 1995, discount 0.75);
- `clothes`: the nearest mean and the nearest training image; `captions`: the caption of the nearest photograph;
- `sick`: least squares on how many words two sentences share, for classes and for relatedness;
- `nouns`, `compression`: the most frequent labels, and least squares on words;
- `spans`: words near those of the question, in the sentence that shares most with it.
"""

import gzip
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import report
from benchmarks.sources import KEEP, captions_with_nouns, compressed_sentences, read_lines

DISCOUNT = 0.75
START, END = "<s>", "</s>"
DENIALS = frozenset(("no", "not", "nobody", "nothing", "without", "never", "n't"))
WORD = re.compile(r"\w+(?:[-'’.,]\w+)*|\S")
ANSWER_KINDS = (
    (re.compile(r"\b(when|how many|how much|how long|how old|year|date|percent\w*)\b"), re.compile(r"\S*\d")),
    (re.compile(r"\b(who|whose|where)\b"), re.compile(r"[A-Z]")),
)
"""What a question asks, and what at least one word of its answer matches."""
LONGEST_SPAN, KIND_BONUS = 2, 16.0
"""The best values on a thousand training questions."""
FREQUENT = 0.7
"""Words that are in more than exp(-0.7) of all paragraphs neither begin nor end an answer."""


class KneserNey:
    """An interpolated n-gram model; shorter histories count the number of different words before."""

    def __init__(self, texts: Iterable[Sequence[str]], order: int, vocabulary: int):
        self.order, self.vocabulary = order, vocabulary
        counts = Counter(gram for text in texts for gram in n_grams(text, order))
        self.levels: list[tuple[Counter, Counter, Counter]] = []
        for _ in range(order):
            totals, kinds, shorter = Counter(), Counter(), Counter()
            for gram, count in counts.items():
                totals[gram[:-1]] += count
                kinds[gram[:-1]] += 1
                shorter[gram[1:]] += 1
            self.levels.append((counts, totals, kinds))
            counts = shorter

    def probability(self, gram: Sequence[str], level: int = 0) -> float:
        """Return the probability of the last word of an n-gram."""
        counts, totals, kinds = self.levels[level]
        is_last = level + 1 == self.order
        lower = 1 / self.vocabulary if is_last else self.probability(gram[1:], level + 1)
        history = gram[:-1]
        if not totals[history]:
            return lower
        return (max(counts[gram] - DISCOUNT, 0) + DISCOUNT * kinds[history] * lower) / totals[history]

    def perplexity(self, texts: Iterable[Sequence[str]]) -> float:
        """Return the perplexity of texts with their ends."""
        grams = [gram for text in texts for gram in n_grams(text, self.order)]
        return math.exp(-sum(math.log(self.probability(gram)) for gram in grams) / len(grams))


def n_grams(text: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    """Yield the n-grams of a text between its start and its end."""
    padded = [*[START] * (order - 1), *text, END]
    return zip(*(padded[first:] for first in range(order)), strict=False)


def run_language(folder: Path) -> None:
    """Print the perplexity of WikiText-2's words."""
    sets = {
        name: [line.split() for line in read_lines(folder / "wikitext-2" / f"{name}.txt.gz") if line.strip()]
        for name in ("train", "valid", "test")
    }
    vocabulary = len({word for text in sets["train"] for word in text}) + 1
    report.head("words", "valid perplexity", "test perplexity")
    for order in (2, 3):
        model = KneserNey(sets["train"], order, vocabulary)
        report.row(order, *(f"{model.perplexity(sets[name]):.1f}" for name in ("valid", "test")))


def run_dialogue(folder: Path) -> None:
    """Print the perplexity of the last tenth of the turns of a play, by pairs of the recipe's subword pieces."""
    from regard.text import Tokenizer, TokenizerSettings

    text = "\n".join(read_lines(folder / "tiny_shakespeare" / "input.txt.gz"))
    turns = [" ".join(block.split("\n")[1:]) for block in text.split("\n\n")]
    turns = [turn for turn in turns if turn]
    cut = len(turns) * 9 // 10
    tokenizer = Tokenizer.train(TokenizerSettings("bpe", 4000), turns[:cut])
    pieces = [tuple(map(str, tokenizer.encode(turn)))[:40] for turn in turns]
    model = KneserNey(pieces[:cut], 2, 4000)
    report.head("rule", "perplexity of a piece")
    report.row("pairs of pieces", f"{model.perplexity(pieces[cut:]):.1f}")


def read_idx(path: Path, header: int) -> Tensor:
    """Read Fashion-MNIST's bytes behind a header."""
    return torch.tensor(np.frombuffer(gzip.decompress(path.read_bytes())[header:], np.uint8).copy())


def run_clothes(folder: Path) -> None:
    """Print the accuracy of distances of pixels on Fashion-MNIST."""
    images, labels = {}, {}
    for name in ("train", "t10k"):
        stem = folder / "fashion-mnist" / name
        images[name] = read_idx(Path(f"{stem}-images-idx3-ubyte.gz"), 16).view(-1, 784).float() / 255
        labels[name] = read_idx(Path(f"{stem}-labels-idx1-ubyte.gz"), 8).long()
    means = torch.stack([images["train"][labels["train"] == label].mean(0) for label in range(10)])
    report.head("rule", "accuracy")
    for rule, predicted in {
        "nearest mean": nearest(images["t10k"], means),
        "nearest image": labels["train"][nearest(images["t10k"], images["train"])],
    }.items():
        report.row(rule, f"{100 * (predicted == labels['t10k']).float().mean():.2f}")


def nearest(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the index of the key that is nearest to each query."""
    squares = (keys * keys).sum(1)
    return torch.cat([(squares - 2 * chunk @ keys.T).argmin(1) for chunk in queries.split(500)])


def run_captions(folder: Path) -> None:
    """Print the figures of one caption for all photographs, and of that of the nearest photograph of 8 x 8 pixels."""
    from regard.metrics import METRICS

    lines = (folder / "flickr8k_1000" / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    with np.load(folder / "flickr8k_1000" / "images_64x64.npz") as file:
        pixels = torch.tensor(file["images"] / 255, dtype=torch.float32).permute(0, 3, 1, 2)
    small = nn.functional.adaptive_avg_pool2d(pixels, 8).flatten(1)
    train, test = ([index for index, row in enumerate(rows) if row["split"] == name] for name in ("train", "test"))
    texts = {index: [" ".join(text.lower().split()) for text in rows[index]["captions"]] for index in (*train, *test)}
    references = [tuple(texts[index]) for index in test]
    common = most_central([text for index in train for text in texts[index]])
    neighbors = nearest(small[test], small[train]).tolist()
    outputs = {
        "one caption": [common] * len(test),
        "nearest photograph": [most_central(texts[train[index]]) for index in neighbors],
    }
    report.head("rule", "CIDEr-D", "BLEU", "ROUGE-L")
    for rule, captions in outputs.items():
        scores = [METRICS[metric](captions, references) for metric in ("cider", "bleu", "rouge-l")]
        report.row(rule, *(f"{score:.1f}" for score in scores))


def most_central(texts: Sequence[str]) -> str:
    """Return the text whose TF-IDF vector has the greatest cosine with the sum of all."""
    documents = Counter(word for text in texts for word in set(text.split()))
    vectors = []
    for text in texts:
        counts = Counter(text.split())
        vector = {word: count * math.log1p(len(texts) / documents[word]) for word, count in counts.items()}
        norm = math.sqrt(sum(value**2 for value in vector.values()))
        vectors.append({word: value / norm for word, value in vector.items()})
    total: Counter[str] = Counter()
    for vector in vectors:
        total.update(vector)
    scores = [sum(value * total[word] for word, value in vector.items()) for vector in vectors]
    return texts[scores.index(max(scores))]


def least_squares(train: tuple[np.ndarray, np.ndarray], inputs: np.ndarray, penalty: float = 1e-3) -> np.ndarray:
    """Return the predictions of a linear model with a constant, for targets `(row, output)`."""
    features, targets = (np.concatenate([side, np.ones((len(side), 1))], 1) for side in (train[0], inputs)), train[1]
    known, new = features
    square = known.T @ known + penalty * np.eye(known.shape[1])
    return new @ np.linalg.solve(square, known.T @ targets)


def run_sick(folder: Path) -> None:
    """Print what least squares on shared words and denials gives on SICK's classes and numbers."""
    sets = {}
    for name in ("train", "test"):
        header, *lines = read_lines(folder / "sick" / f"{name}.tsv.gz")
        sets[name] = [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    classes = sorted({row["entailment_judgment"] for row in sets["train"]})
    report.head("features", "accuracy", "Pearson")
    for rule, denials in {"shared words": False, "shared words and denials": True}.items():
        inputs = {name: np.array([shared_words(row, denials) for row in rows]) for name, rows in sets.items()}
        gold = {name: [classes.index(row["entailment_judgment"]) for row in rows] for name, rows in sets.items()}
        numbers = {name: np.array([float(row["relatedness_score"]) for row in rows]) for name, rows in sets.items()}
        one_hot = np.eye(len(classes))[gold["train"]]
        predicted = least_squares((inputs["train"], one_hot), inputs["test"]).argmax(1)
        related = least_squares((inputs["train"], numbers["train"][:, None]), inputs["test"])[:, 0]
        accuracy = 100 * (predicted == gold["test"]).mean()
        report.row(rule, f"{accuracy:.1f}", f"{np.corrcoef(related, numbers['test'])[0, 1]:.3f}")


def shared_words(row: dict[str, str], denials: bool) -> list[float]:
    """Return the shares of words that two sentences have in common; with `denials`, also which side denies."""
    first, second = (set(row[name].lower().split()) for name in ("sentence_A", "sentence_B"))
    common = len(first & second)
    shares = [common / len(first), common / len(second), common / len(first | second)]
    if not denials:
        return shares
    sides = [float(bool(words & DENIALS)) for words in (first, second)]
    return [*shares, float(len(first - second)), float(len(second - first)), *sides, float(sides[0] != sides[1])]


def run_nouns(folder: Path) -> None:
    """Print micro-F1 of the most frequent label and of least squares on words."""
    sets = captions_with_nouns(folder)
    labels = sorted({label for _, names in sets["train"] for label in names})
    counts = Counter(word for text, _ in sets["train"] for word in set(text.lower().split()))
    index = {word: number for number, (word, _) in enumerate(counts.most_common(2000))}
    inputs, targets = {}, {}
    for part in ("train", "test"):
        inputs[part] = np.zeros((len(sets[part]), len(index)), np.float32)
        for row, (text, _) in zip(inputs[part], sets[part], strict=True):
            row[[index[word] for word in set(text.lower().split()) if word in index]] = 1
        targets[part] = np.array([[label in names for label in labels] for _, names in sets[part]])
    frequent = np.zeros_like(targets["test"])
    frequent[:, targets["train"].sum(0).argmax()] = True
    linear = least_squares((inputs["train"], targets["train"].astype(np.float32)), inputs["test"], 1.0) >= 0.5
    report.head("rule", "micro-F1")
    for rule, predicted in {"the most frequent label": frequent, "least squares on words": linear}.items():
        report.row(rule, f"{micro_f1(predicted, targets['test']):.2f}")


def micro_f1(predicted: np.ndarray, gold: np.ndarray) -> float:
    """Return 100 times the F1 score over all rows and labels."""
    return 200 * (predicted & gold).sum() / (predicted.sum() + gold.sum())


def run_compression(folder: Path) -> None:
    """Print the accuracy of keeping all words, and of keeping those that are mostly kept in training."""
    sets = compressed_sentences(folder)
    total, kept_count = Counter(), Counter()
    for word, tag in (pair for sentence in sets["train"] for pair in sentence):
        total[word.lower()] += 1
        kept_count[word.lower()] += tag == KEEP
    gold = np.array([tag == KEEP for sentence in sets["test"] for _, tag in sentence])
    words = [word.lower() for sentence in sets["test"] for word, _ in sentence]
    frequent = np.array([2 * kept_count[word] >= total[word] for word in words])
    report.head("rule", "F1", "accuracy")
    for rule, predicted in {"keep all": np.ones_like(gold), "mostly kept": frequent}.items():
        report.row(rule, f"{micro_f1(predicted, gold):.2f}", f"{100 * (predicted == gold).mean():.2f}")


def run_spans(folder: Path) -> None:
    """Print exact match and F1 of the words nearest to those of the question, after Rajpurkar 2016, section 5.1."""
    from regard.metrics import METRICS

    questions = list(read_squad(folder / "squad" / "dev_24articles-v1.1.json.gz"))
    contexts = dict.fromkeys(context for context, _, _ in questions)
    counts = Counter(word for context in contexts for word in word_set(context))
    rarity = {word: math.log(len(contexts)) - math.log(count) for word, count in counts.items()}
    answers = [best_span(context, question, rarity) for context, question, _ in questions]
    references = [gold for _, _, gold in questions]
    report.head("rule", "exact match", "F1")
    scores = [METRICS[metric](answers, references) for metric in ("squad-exact-match", "squad-f1")]
    report.row("the nearest words", *(f"{score:.2f}" for score in scores))


def read_squad(path: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the context, question and answers of SQuAD's file."""
    for article in json.loads(gzip.decompress(path.read_bytes()))["data"]:
        for paragraph in article["paragraphs"]:
            for entry in paragraph["qas"]:
                yield paragraph["context"], entry["question"], tuple(answer["text"] for answer in entry["answers"])


def word_set(text: str) -> set[str]:
    """Return the words of a text in lower case, without punctuation."""
    return {word.lower() for word in WORD.findall(text) if word[0].isalnum()}


def best_span(context: str, question: str, rarity: dict[str, float]) -> str:
    """Return the few words without any of the question's that stand nearest to the question's words."""
    wanted = word_set(question)
    kinds = [kind for asks, kind in ANSWER_KINDS if asks.search(question.lower())][:1]
    best, best_score = "", -math.inf
    for sentence in re.split(r"(?<=[.!?])\s+", context):
        words = list(WORD.finditer(sentence))
        plain = [match.group().lower() for match in words]
        hits = [(index, rarity.get(word, 0.0)) for index, word in enumerate(plain) if word in wanted]
        overlap = sum(rarity.get(word, 0.0) for word in wanted & set(plain))
        for first, last in spans_between(plain, wanted, rarity):
            fits = any(kind.match(words[index].group()) for kind in kinds for index in range(first, last + 1))
            score = overlap + KIND_BONUS * fits
            score += sum(weight / (first - index) for index, weight in hits if index < first)
            score += sum(weight / (index - last) for index, weight in hits if index > last)
            if score > best_score:
                best, best_score = sentence[words[first].start() : words[last].end()], score
    return best


def spans_between(words: Sequence[str], wanted: set[str], rarity: dict[str, float]) -> Iterator[tuple[int, int]]:
    """Yield the short spans without words of the question and punctuation, which begin and end with a rare word."""
    for first in range(len(words)):
        for last in range(first, min(first + LONGEST_SPAN, len(words))):
            if words[last] in wanted or not words[last][0].isalnum():
                break
            if min(rarity.get(words[first], 0.0), rarity.get(words[last], 0.0)) > FREQUENT:
                yield first, last


RULES: dict[str, Callable[[Path], Any]] = {
    "captions": run_captions,
    "clothes": run_clothes,
    "compression": run_compression,
    "dialogue": run_dialogue,
    "language": run_language,
    "nouns": run_nouns,
    "sick": run_sick,
    "spans": run_spans,
}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in RULES:
        raise SystemExit(f"usage: python -m benchmarks.rules NAME FOLDER, NAME one of {', '.join(RULES)}")
    RULES[sys.argv[1]](Path(sys.argv[2]))
