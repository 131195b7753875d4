"""The decoders that tell of images, equation by equation, and CIDEr-D once more with vectors."""

from collections import Counter
from itertools import chain
from math import exp, log

import numpy as np
import pytest
import torch

from regard.attention.record import record
from regard.metrics import cider
from regard.models.captioner import ShowAndTell, ShowAndTellConfig
from regard.models.show_attend_and_tell import ShowAttendAndTell, ShowAttendAndTellConfig
from tests.oracle import reference

IMAGES, TARGET = torch.randn(1, 1, 11, 11).double(), torch.tensor([[2, 8, 6]])


def test_show_attend_and_tell():
    """Xu 2015, equations 4 to 7 and 13, and the gate of section 4.2.1."""
    config = ShowAttendAndTellConfig(image=11, channels=1, stages=(2, 5), embedding=3, width=7, attention=4)
    model = reference.drawn(ShowAttendAndTell(13, config))
    p = reference.parameters(model.decoder)
    cells = model.encoder(IMAGES).value[0].detach().numpy()
    assert cells.shape == (9, 5)
    score = reference.additive(
        p["attend.score.query_weight"].T, p["attend.score.key_weight"].T, p["attend.score.energy"]
    )
    h, c = np.split(np.tanh(reference.linear(p, "initial.linear", cells.mean(0))), 2)
    for step, token in enumerate(TARGET[0].tolist()):
        embedded = p["embedding.table.weight"][token] * np.sqrt(3)
        context, weights = reference.lookup(score, h, cells, cells)
        gate = reference.sigmoid(reference.linear(p, "gate.linear", h))
        z = gate * context
        h, c = reference.lstm(p, "stack.cells.0.cell", np.concatenate([embedded, z]), h, c)
        deep = embedded + reference.linear(p, "readout.linear", np.concatenate([h, z]))
        with record(model.decoder) as maps:
            found = model(IMAGES, TARGET)[0, step]
        np.testing.assert_allclose(found.detach(), reference.linear(p, "output", deep), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(maps["attend"][0, step], weights, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(maps["gate"][0, step], gate, rtol=1e-12, atol=1e-12)


def test_show_and_tell():
    """Vinyals 2015, equations 10 to 12: the image, then START and the words."""
    config = ShowAndTellConfig(image=11, channels=1, stages=(2, 5), embedding=3, width=7)
    model = ShowAndTell(13, config).double().eval()
    p = reference.parameters(model.decoder)
    mean = model.encoder(IMAGES).value[0].mean(0).detach().numpy()
    h, c = np.zeros(7), np.zeros(7)
    inputs = [reference.linear(p, "initial.linear", mean)]
    inputs += [p["embedding.table.weight"][token] * np.sqrt(3) for token in TARGET[0].tolist()]
    for step, x in enumerate(inputs, -1):
        h, c = reference.lstm(p, "recurrent.network", x, h, c, "_l0")
        if step >= 0:
            found = model(IMAGES, TARGET)[0, step].detach()
            np.testing.assert_allclose(found, reference.linear(p, "output", h), rtol=1e-12, atol=1e-12)


OUTPUTS = ["a dog runs on grass", "two cats", "a man and a dog and a hat"]
REFERENCES = [["a dog runs fast", "the dog runs on the grass"], ["two cats sleep"], ["a man with a dog", "a hat"]]


def by_vectors(outputs: list[str], references: list[list[str]]) -> float:
    """The paper's equations, with a place in a vector for every n-gram there is."""

    def counts(text: str, n: int) -> Counter[str]:
        words = text.split()
        return Counter(" ".join(words[at : at + n]) for at in range(len(words) - n + 1))

    total = 0.0
    for output, several in zip(outputs, references, strict=True):
        for n in range(1, 5):
            every = sorted({gram for each in [*outputs, *chain(*references)] for gram in counts(each, n)})
            seen = [sum(any(gram in counts(each, n) for each in texts) for texts in references) for gram in every]
            rarity = np.array([log(len(outputs) / max(1, count)) for count in seen])
            found = rarity * [counts(output, n)[gram] for gram in every]
            for text in several:
                wanted = rarity * [counts(text, n)[gram] for gram in every]
                size = np.linalg.norm(found) * np.linalg.norm(wanted)
                apart = len(output.split()) - len(text.split())
                cosine = np.minimum(found, wanted) @ wanted / size if size else 0.0
                total += cosine * exp(-(apart**2) / 72) / 4 / len(several)
    return float(1000 * total / len(outputs))


def test_cider():
    assert cider(OUTPUTS, REFERENCES) == pytest.approx(by_vectors(OUTPUTS, REFERENCES), rel=1e-12)
    same = [each[0] for each in REFERENCES]
    assert cider(same[:2], [[each] for each in same[:2]]) == pytest.approx(875)  # of two words there is no 3-gram
    assert cider(["A dog, runs on GRASS.", *OUTPUTS[1:]], REFERENCES) == pytest.approx(cider(OUTPUTS, REFERENCES))
    assert cider(["a a a", "x"], [["a"], ["y"]]) == pytest.approx(
        0.5 * 1000 * (1 / 3) * exp(-4 / 72) / 4
    )  # of three only one counts
    assert cider(["a dog"], [["a dog"]]) == 0.0
    assert cider([], []) == 0.0
