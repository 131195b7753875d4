"""Metrics of texts, tags and numbers, with the unit of each."""

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, zip_longest
from string import punctuation
from typing import Any, Literal, NamedTuple

import regex
import torch
from torch import Tensor

from regard.shapes import Float

TextMetricName = Literal[
    "exact-match",
    "bleu",
    "chrf",
    "rouge-1",
    "rouge-2",
    "rouge-l",
    "cider",
    "squad-exact-match",
    "squad-f1",
]
ErrorRateName = Literal["word-error-rate", "character-error-rate"]
Metrics = dict[str, float]
"""Metrics by name."""
References = Sequence[Sequence[str]]
"""The references of each text, at least one."""
Numbers = Float[Tensor, " example"]
NGrams = Counter[tuple[str, ...]]

UNSPACED = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
)
"""A character of a script that is written without spaces between words."""
WORD = regex.compile(rf"{UNSPACED}\p{{M}}*|(?:(?!{UNSPACED})[\p{{L}}\p{{M}}\p{{N}}])+")
TOKEN = regex.compile(rf"{UNSPACED}\p{{M}}*|(?:(?!{UNSPACED})\S)+")
ARTICLE = regex.compile(r"\b(a|an|the)\b")
PUNCTUATION = regex.compile(rf"[\p{{P}}{regex.escape(punctuation)}]")
SIZES = range(1, 5)
"""The lengths of n-grams in CIDEr."""
LENGTH_DEVIATION, CIDER_SCALE = 6.0, 10.0


def split_words(text: str) -> list[str]:
    """Split a text into words of letters, marks and digits, in lower case.

    Each character of a script without spaces is a word.
    """
    return WORD.findall(text.lower())


def f_measure(common: int, predicted: int, expected: int) -> float:
    """Return the harmonic mean of precision and recall; 0 without any words."""
    total = predicted + expected
    return 2 * common / total if total else 0.0


def rouge_n(output: str, reference: str, n: int) -> float:
    """Return the F-measure of the n-grams in common (Lin 2004), 0 to 1."""
    predicted, expected = (count_ngrams(text, [n]) for text in (output, reference))
    common = (predicted & expected).total()
    return f_measure(common, predicted.total(), expected.total())


def rouge_l(output: str, reference: str) -> float:
    """Return the F-measure of the longest common subsequence of words, 0 to 1."""
    predicted, expected = split_words(output), split_words(reference)
    # Insertions and deletions remove all words but the common ones.
    edits = edit_distance(predicted, expected, substitution=2)
    words = len(predicted), len(expected)
    common = (sum(words) - edits) // 2
    return f_measure(common, *words)


def count_ngrams(text: str, sizes: Iterable[int]) -> NGrams:
    """Count the n-grams of a text, for each n of `sizes`."""
    words = split_words(text)
    counts = Counter()
    for n in sizes:
        shifted = [words[start:] for start in range(n)]
        counts.update(zip(*shifted, strict=False))
    return counts


def split_answer(text: str) -> list[str]:
    """Split an answer as SQuAD does, without punctuation and English articles.

    Each character of a script without spaces is a word. Equal answers have the same words
    (Rajpurkar 2016, 1606.05250, section 6.1).
    """
    text = PUNCTUATION.sub("", text.lower())
    return TOKEN.findall(ARTICLE.sub(" ", text))


def squad_f1(output: str, reference: str) -> float:
    """Return SQuAD's F1 of the words in common; two empty answers are equal."""
    predicted, expected = (Counter(split_answer(text)) for text in (output, reference))
    if not predicted or not expected:
        return float(predicted == expected)
    common = (predicted & expected).total()
    return f_measure(common, predicted.total(), expected.total())


def mean_of_best(
    outputs: Sequence[str],
    references: References,
    *,
    compare: Callable[[str, str], float],
) -> float:
    """Average `compare` with the best reference of each text, in per cent."""
    pairs = zip(outputs, references, strict=True)
    best = [max(compare(output, text) for text in texts) for output, texts in pairs]
    return 100 * sum(best) / max(1, len(best))


def corpus_score(
    outputs: Sequence[str], references: References, *, metric: str
) -> float:
    """Return a score of sacrebleu; BLEU is tokenized by the references' script."""
    from sacrebleu.metrics.bleu import BLEU  # slow to import
    from sacrebleu.metrics.chrf import CHRF

    if len(outputs) != len(references):
        raise ValueError(
            f"{len(outputs)} outputs for {len(references)} texts; expected one each"
        )
    if not outputs:
        return 0.0
    streams: Any = [list(stream) for stream in zip_longest(*references)]
    scorer = CHRF()
    if metric == "bleu":  # `force` silences the warning about tokenized text
        scorer = BLEU(tokenize=bleu_tokenization(references), force=True)
    return scorer.corpus_score(list(outputs), streams).score


def bleu_tokenization(references: References) -> str:
    """Choose sacrebleu's tokenization by the script of the references.

    Returns:
        `zh` for Chinese, `char` for other scripts without spaces (Japanese, Thai), else
        `13a` (Post 2018, 1804.08771).
    """
    text = "".join(chain(*references))
    letters = regex.findall(r"\p{L}", text)
    unspaced = regex.findall(UNSPACED, text)
    if 2 * len(unspaced) <= len(letters):
        return "13a"
    chinese = regex.findall(r"\p{Han}", text)
    return "zh" if len(chinese) == len(unspaced) else "char"


def cider(outputs: Sequence[str], references: References) -> float:
    """Return CIDEr-D times 100, as tables have it: 0 to 1,000.

    The paper is Vedantam 2015, 1411.5726, section 6; words aren't stemmed. The weight
    of an n-gram, n up to 4, is its count times log(outputs / outputs with a reference
    that has it). An output's count is clipped to the reference's, and a Gaussian of
    deviation 6 penalizes a difference in length. The score of a single output is 0.
    """
    frequency: NGrams = Counter()
    for texts in references:
        counts = [count_ngrams(text, SIZES) for text in texts]
        frequency.update(set().union(*counts))

    def weigh(text: str, n: int) -> NGrams:
        weights: Any = Counter()
        for ngram, count in count_ngrams(text, [n]).items():
            documents = max(1, frequency[ngram])
            weights[ngram] = count * math.log(len(outputs) / documents)
        return weights

    def compare(output: str, reference: str) -> float:
        cosines = 0.0
        for n in SIZES:
            first = weigh(output, n)
            second = weigh(reference, n)
            norm = math.hypot(*first.values()) * math.hypot(*second.values())
            common = first & second
            product = sum(common[ngram] * second[ngram] for ngram in common)
            if norm:
                cosines += product / norm
        difference = len(split_words(output)) - len(split_words(reference))
        penalty = math.exp(-(difference**2) / (2 * LENGTH_DEVIATION**2))
        return CIDER_SCALE * penalty * cosines / len(SIZES)

    means = []
    for output, texts in zip(outputs, references, strict=True):
        scores = [compare(output, text) for text in texts]
        means.append(sum(scores) / len(texts))
    return 100 * sum(means) / max(1, len(means))


METRICS: dict[TextMetricName, Callable[[Sequence[str], References], float]] = {
    "exact-match": partial(mean_of_best, compare=operator.eq),
    "bleu": partial(corpus_score, metric="bleu"),
    "chrf": partial(corpus_score, metric="chrf"),
    "rouge-1": partial(mean_of_best, compare=partial(rouge_n, n=1)),
    "rouge-2": partial(mean_of_best, compare=partial(rouge_n, n=2)),
    "rouge-l": partial(mean_of_best, compare=rouge_l),
    "cider": cider,
    "squad-exact-match": partial(
        mean_of_best,
        compare=lambda output, text: float(split_answer(output) == split_answer(text)),
    ),
    "squad-f1": partial(mean_of_best, compare=squad_f1),
}
"""Higher is better. BLEU is cased; chrF is chrF2 (Popovic 2015)."""


def edit_distance(
    predicted: Sequence[str], expected: Sequence[str], substitution: int = 1
) -> int:
    """Return the cost of the cheapest edits (Levenshtein 1966).

    An insertion or a deletion costs 1.
    """
    row = list(range(len(expected) + 1))
    for count, symbol in enumerate(predicted, 1):
        previous = row
        cost = count
        row = [cost]
        for index, candidate in enumerate(expected):
            change = previous[index]
            if symbol != candidate:
                change += substitution
            cost = min(change, previous[index + 1] + 1, cost + 1)
            row.append(cost)
    return row[-1]


def error_rate(
    outputs: Sequence[str],
    references: Sequence[str],
    *,
    split: Callable[[str], list[str]],
) -> float:
    """Divide the edits of all texts by the expected symbols, in per cent.

    Where nothing is expected, it is 0 without edits and else 100.
    """
    wrong = 0
    for output, reference in zip(outputs, references, strict=True):
        wrong += edit_distance(split(output), split(reference))
    count = sum(len(split(reference)) for reference in references)
    return 100.0 * wrong / count if count else 100.0 * bool(wrong)


ERROR_RATES: dict[str, Callable[[Sequence[str], Sequence[str]], float]] = {
    "word-error-rate": partial(error_rate, split=str.split),
    "character-error-rate": partial(error_rate, split=list),
}
"""Words are separated by blanks."""
OUTSIDE = "O"
"""The tag of a word that belongs to no entity."""
PREFIXES = {
    "B": "B",
    "E": "E",
    "I": "I",
    "L": "E",
    "M": "I",
    "S": "S",
    "U": "S",
    "W": "S",
}
"""The prefixes of BIO (IOB2), IOB1, BIOES, BILOU, BMES and BMEWO."""


class Entity(NamedTuple):
    """The words `start` to `end`, half-open, and their label."""

    start: int
    end: int
    label: str


def split_tag(tag: str) -> tuple[str, str]:
    """Split a tag into a prefix B, I, E, S or O and its label.

    A tag without prefix, such as that of a part of speech, is an entity of one word.
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, label = tag.partition("-")
    if dash and prefix in PREFIXES:
        return PREFIXES[prefix], label
    return "S", tag


def find_entities(tags: Sequence[str]) -> list[Entity]:
    """Find the entities of tags in any scheme, by the rules of conlleval and seqeval.

    An entity begins at B or S, and at I or E where none of the same label continues. It
    ends before the next one begins, behind E and S, and before O.
    """
    entities: list[Entity] = []
    start = 0
    last_prefix, last_label = OUTSIDE, ""
    for position, tag in enumerate([*tags, OUTSIDE]):
        prefix, label = split_tag(tag)
        is_open = last_prefix in ("B", "I") and label == last_label
        if not is_open or prefix not in ("I", "E"):
            if last_prefix != OUTSIDE:
                entities.append(Entity(start, position, last_label))
            start = position
        last_prefix, last_label = prefix, label
    return entities


def to_bio(tags: Sequence[str]) -> list[str]:
    """Convert tags of any scheme to BIO; those without prefix stay."""
    result = [OUTSIDE] * len(tags)
    for start, end, label in find_entities(tags):
        if tags[start] == label:
            result[start] = label
        else:
            result[start:end] = [f"I-{label}"] * (end - start)
            result[start] = f"B-{label}"
    return result


def entity_metrics(
    predicted: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]
) -> Metrics:
    """Score entities, of which label and both ends must be right, as seqeval does.

    Returns:
        f1, precision and recall over all sentences, and the accuracy of single tags, in
        per cent; 0 without any entity.

    Raises:
        ValueError: Sentences of different lengths.
    """
    right = guesses = gold = same = words = 0
    for tags, reference in zip(predicted, expected, strict=True):
        entities = {*find_entities(tags)}
        true = {*find_entities(reference)}
        right += len(entities & true)
        guesses += len(entities)
        gold += len(true)
        same += sum(a == b for a, b in zip(tags, reference, strict=True))
        words += len(reference)
    return {
        "f1": 200 * right / max(1, guesses + gold),
        "precision": 100 * right / max(1, guesses),
        "recall": 100 * right / max(1, gold),
        "accuracy": 100 * same / max(1, words),
    }


def pearson(predicted: Numbers, expected: Numbers) -> float:
    """Return Pearson's correlation, -1 to 1; 0 where either side is constant."""
    if predicted.min() == predicted.max() or expected.min() == expected.max():
        return 0.0
    return torch.stack([predicted, expected]).double().corrcoef()[0, 1].item()


def rank(numbers: Numbers) -> Numbers:
    """Rank numbers from 1; equal numbers share the mean of their ranks."""
    ordered = numbers.sort().values
    first = torch.searchsorted(ordered, numbers)
    last = torch.searchsorted(ordered, numbers, right=True)
    return (first + last + 1) / 2


def number_metrics(predicted: Numbers, expected: Numbers) -> Metrics:
    """Return the correlations and the mean errors of predicted numbers."""
    errors = predicted.double() - expected.double()
    return {
        "pearson": pearson(predicted, expected),
        "spearman": pearson(rank(predicted), rank(expected)),
        "mean-squared-error": float(errors.square().mean()),
        "mean-absolute-error": float(errors.abs().mean()),
    }


def perplexity(loss: float) -> float:
    """Return exp of a mean loss, infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf


SHARES = [
    "accuracy",
    "macro-f1",
    "micro-f1",
    "exact-match",
    "f1",
    "precision",
    "recall",
    "rouge-1",
    "rouge-2",
    "rouge-l",
    "squad-exact-match",
    "squad-f1",
    "masked-accuracy",
    "next-sentence",
    "places",
    "pointing",
    "share",
    "late-share",
]
UNITS = {
    **dict.fromkeys(SHARES, "in per cent, higher is better"),
    "bleu": "from 0 to 100, higher is better",
    "chrf": "from 0 to 100, higher is better",
    "cider": "CIDEr-D x 100, from 0 to 1,000, higher is better",
    "word-error-rate": "in per cent, lower is better",
    "character-error-rate": "in per cent, lower is better",
    "wrong-bits": "in per cent, lower is better",
    "bits-per-sequence": "cross-entropy in bits, lower is better",
    "pearson": "a correlation from -1 to 1, higher is better",
    "spearman": "a correlation from -1 to 1, higher is better",
    "mean-squared-error": "in squared units of the number, lower is better",
    "mean-absolute-error": "in units of the number, lower is better",
    "perplexity": "per token, lower is better",
    "forward-perplexity": "per token, lower is better",
    "backward-perplexity": "per token, lower is better",
    "word_perplexity": "perplexity per word between blanks, lower is better",
    "loss": "the mean negative log-probability of a token, lower is better",
    "bits_per_character": "the loss in bits for each character, lower is better",
    "standard-error": "of the metric before it, in its unit",
    "regret": "reward that the best policy has more, lower is better",
    "reward": "a sum over an episode, higher is better",
}


def describe_units(metrics: Iterable[str]) -> str:
    """Describe the units of metrics, named `metric` or `metric/group`, in a line."""
    groups: dict[str, list[str]] = {}
    names = [metric.split("/")[0] for metric in metrics]
    for name in dict.fromkeys(names):
        if name in UNITS:
            unit = UNITS[name]
            groups.setdefault(unit, []).append(name)
    parts = [f"{', '.join(names)}: {unit}" for unit, names in groups.items()]
    return "; ".join(parts)


def rank_ties(metrics: Mapping[str, float]) -> tuple[float, ...]:
    """Return a key that orders equally good validations, the best first.

    It compares the metrics in their order, each in the direction of its unit; those of
    groups and of unknown directions are left out.
    """
    costs = []
    for name, value in metrics.items():
        unit = UNITS.get(name, "")
        if math.isnan(value):
            cost = math.inf
        elif "lower is better" in unit:
            cost = value
        else:
            cost = -value
        if "is better" in unit:
            costs.append(cost)
    return tuple(costs)
