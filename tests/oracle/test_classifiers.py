"""HAN and the readings of Rocktaschel 2016 in NumPy float64 with loops, written from the papers."""

import numpy as np
import pytest

from regard.models.esim import Esim, EsimConfig
from regard.models.han import FlatAttention, FlatConfig, Han, HanConfig, PoolingName
from regard.models.rocktaschel import ReadingName, Rocktaschel, RocktaschelConfig
from regard.tasks.classification.inputs import collate_documents, collate_texts, collate_two_texts
from regard.text.kinds import START
from tests.oracle import reference
from tests.oracle.reference import Array, Parameters

DOCUMENTS = [[[5, 7], [6, 8, 9, 4], [10]], [[4, 4, 4]], [], [[], [7, 5]]]
PAIRS = [([5, 7, 6], [8, 9]), ([4], [10, 7, 5, 6]), ([], [6]), ([7, 5], [])]


def word(p: Parameters, token: int) -> Array:
    row = p["embedding.table.weight"][token]
    return row * np.sqrt(len(row))


def one_way(p: Parameters, name: str, inputs: list[Array], width: int) -> list[Array]:
    """Yang 2016, equations 1 to 4; PyTorch's z keeps the old state, and its recurrent products have biases."""
    cell = {f"cell.{part}": p[f"{name}.{part}_l0"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    named = {f"x.{part}": value for part, value in cell.items()}
    state, states = np.zeros(width), []
    for each in inputs:
        state = reference.gru_reset_after(named, "x", each, state)
        states.append(state)
    return states


def level(p: Parameters, name: str, inputs: list[Array], width: int, summary: PoolingName) -> Array:
    ahead = one_way(p, f"{name}.reader.forwards.0", inputs, width)
    back = one_way(p, f"{name}.reader.backwards.0", inputs[::-1], width)[::-1]
    states = [np.concatenate(both) for both in zip(ahead, back, strict=True)]
    if not states:
        return np.zeros(2 * width)
    if summary == "average":
        return np.mean(states, 0)
    if summary == "maximum":
        return np.max(states, 0)
    matrix, bias = p[f"{name}.summary.attend.score.weight"].T, p[f"{name}.summary.attend.score.bias"]
    scores = [float(np.tanh(matrix @ state + bias) @ p[f"{name}.summary.query"]) for state in states]
    read = np.zeros(2 * width)
    for weight, state in zip(reference.softmax(scores), states, strict=True):
        read += weight * state
    return read


SUMMARIES: list[tuple[PoolingName, PoolingName]] = [
    ("attention", "attention"),
    ("average", "attention"),
    ("attention", "maximum"),
    ("maximum", "average"),
]


@pytest.mark.parametrize(("words", "sentences"), SUMMARIES)
def test_han(words: PoolingName, sentences: PoolingName):
    model = Han(11, 3, HanConfig(embedding=5, width=2, attention=7, words=words, sentences=sentences))
    p = reference.parameters(reference.drawn(model, 0.7))
    found = model(*collate_documents([(each, 0) for each in DOCUMENTS]).inputs).detach().numpy()
    for document, logits in zip(DOCUMENTS, found, strict=True):
        vectors = [level(p, "words", [word(p, token) for token in ids], 2, words) for ids in document]
        expected = reference.linear(p, "output", level(p, "sentences", vectors, 2, sentences))
        np.testing.assert_allclose(logits, expected, rtol=1e-12, atol=1e-12)


def test_flat_attention():
    model = FlatAttention(11, 3, FlatConfig(embedding=5, width=2, attention=7))
    p = reference.parameters(reference.drawn(model, 0.7))
    texts = [[5, 7, 6, 8], [4], []]
    found = model(*collate_texts([(each, 0) for each in texts]).inputs).detach().numpy()
    for text, logits in zip(texts, found, strict=True):
        vector = level(p, "words", [word(p, token) for token in text], 2, "attention")
        np.testing.assert_allclose(logits, reference.linear(p, "output", vector), rtol=1e-12, atol=1e-12)


def lstm(p: Parameters, name: str, tokens: list[int], cell: Array) -> tuple[list[Array], Array]:
    state, states = np.zeros_like(cell), []
    for token in tokens:
        state, cell = reference.lstm(p, f"{name}.network", word(p, token), state, cell, "_l0")
        states.append(state)
    return states, cell


def once(p: Parameters, premise: list[Array], words: list[Array], last: Array) -> Array:
    """Equations 7 to 9."""
    score = reference.additive(*scored(p))
    return reference.lookup(score, last, np.array(premise), np.array(premise))[0] if premise else np.zeros_like(last)


def by_word(p: Parameters, premise: list[Array], words: list[Array], last: Array) -> Array:
    """Equations 11 to 13."""
    for_query, for_key, energy = scored(p)
    read = np.zeros_like(last)
    for state in words:
        scores = [float(energy @ np.tanh(for_key @ y + for_query @ np.concatenate([state, read]))) for y in premise]
        context = np.zeros_like(last)
        for weight, y in zip(reference.softmax(scores) if scores else [], premise, strict=True):
            context += weight * y
        read = context + np.tanh(p["reading.carried.weight"] @ read)
    return read


def scored(p: Parameters) -> tuple[Array, Array, Array]:
    name = "reading.attend.score"
    return p[f"{name}.query_weight"].T, p[f"{name}.key_weight"].T, p[f"{name}.energy"]


READS = {"last": once, "word-by-word": by_word}


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("reading", ["none", "last", "word-by-word"])
def test_rocktaschel(reading: ReadingName, both_ways: bool):
    model = Rocktaschel(11, 2, RocktaschelConfig(embedding=5, width=3, reading=reading, both_ways=both_ways))
    p = reference.parameters(reference.drawn(model, 0.7))
    found = model(*collate_two_texts([(each, 0) for each in PAIRS]).inputs).detach().numpy()

    def represented(premise: list[int], hypothesis: list[int]) -> Array:
        outputs, cell = lstm(p, "premise", premise, np.zeros(3))
        states, _ = lstm(p, "hypothesis", [START, *hypothesis], cell)
        parts = [] if reading == "none" else [READS[reading](p, outputs, states[1:], states[-1])]
        return np.tanh(p["joined.weight"] @ np.concatenate([*parts, states[-1]]))

    for (premise, hypothesis), logits in zip(PAIRS, found, strict=True):
        ways = [represented(premise, hypothesis)] + [represented(hypothesis, premise)] * both_ways
        expected = reference.linear(p, "output", np.concatenate(ways))
        np.testing.assert_allclose(logits, expected, rtol=1e-12, atol=1e-12)


def composed(p: Parameters, states: list[Array], others: list[Array]) -> list[Array]:
    """Equations 11 to 20 of one text: the mean and the maximum of its comparisons."""
    rows = []
    for state in states:
        read = reference.lookup(reference.dot, state, np.array(others), np.array(others))[0] if others else 0 * state
        compared = np.concatenate([state, read, state - read, state * read])
        rows.append(np.maximum(0, reference.linear(p, "compared.0", compared)))
    found = reference.both_ways(p, "composed", rows)
    return [np.mean(found, 0), np.max(found, 0)] if found else [np.zeros(6), np.zeros(6)]


def test_esim():
    model = Esim(11, 2, EsimConfig(embedding=5, width=3))
    p = reference.parameters(reference.drawn(model, 0.7))
    found = model(*collate_two_texts([(each, 0) for each in PAIRS]).inputs).detach().numpy()
    for pair, logits in zip(PAIRS, found, strict=True):
        a, b = (reference.both_ways(p, "reader", [word(p, token) for token in text]) for text in pair)
        joined = np.tanh(reference.linear(p, "joined.0", np.concatenate([*composed(p, a, b), *composed(p, b, a)])))
        np.testing.assert_allclose(logits, reference.linear(p, "output", joined), rtol=1e-12, atol=1e-12)
