"""ELMo once more, in NumPy float64 with loops over words and steps, and its losses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.batches import SpelledBatch, stack_words
from regard.models.elmo import Elmo, ElmoConfig
from regard.tasks.bidirectional_language_model import compute_losses
from regard.text.kinds import IGNORED
from regard.text.words import TEXT_BEGINS, TEXT_ENDS, spell, spell_mark
from tests.oracle import reference
from tests.oracle.reference import Array, Parameters, sigmoid

TEXTS = ["", "naïve cats", "a of of incomprehensibilities 日本 x", "dog"]
SIZES: dict[str, Any] = {"character_width": 3, "projection": 7, "cell": 11, "cell_clip": 3.0, "projection_clip": 3.0}
SIZES |= {"filters": ((1, 2), (2, 3), (3, 5)), "highways": 2, "predictions": False}
CUT: dict[str, Any] = {"cell_clip": 0.2, "projection_clip": 0.2, "filters": ((5, 3), (2, 2)), "characters": 13}
SMALL: dict[str, Any] = {"cell_clip": None, "projection_clip": None, "filters": ((13, 2),), "characters": 17}
SMALL |= {"projection": 5, "cell": 2, "character_width": 1, "highways": 0, "layers": 1}
ODD = (
    ElmoConfig(**SIZES),
    ElmoConfig(**SIZES | CUT | {"activation": "tanh", "highways": 1, "layers": 3}),
    ElmoConfig(**SIZES | SMALL),
)
"""Of three models, one whose numbers are cut off in nearly every step."""


def clipped(numbers: Array, size: float | None) -> Array:
    return numbers if size is None else np.minimum(np.maximum(numbers, -size), size)


def word(config: ElmoConfig, p: Parameters, ids: Sequence[int]) -> Array:
    """The vector of one word."""
    embedded = np.array([p["words.table.weight"][index] for index in ids])
    found: list[float] = []
    for number, (size, count) in enumerate(config.filters):
        kernel, bias = (p[f"words.convolutions.{number}.{part}"] for part in ("weight", "bias"))
        for channel in range(count):
            places = range(len(ids) - size + 1)
            largest = max(float((embedded[at : at + size].T * kernel[channel]).sum()) for at in places) + bias[channel]
            found.append(np.tanh(largest) if config.activation == "tanh" else max(0.0, largest))
    states = np.array(found)
    for number in range(config.highways):
        gate = sigmoid(reference.linear(p, f"words.highways.{number}.gate", states))
        other = np.maximum(reference.linear(p, f"words.highways.{number}.transform", states), 0)
        states = gate * other + (1 - gate) * states
    return reference.linear(p, "words.projection", states)


def read(config: ElmoConfig, p: Parameters, inputs: Sequence[Array], direction: str) -> list[list[Array]]:
    """The states of each layer of one direction, in the order of reading."""
    layers, given = [], list(inputs)
    for layer in range(config.layers):
        place = f"reader.{direction}.{layer}.cell"
        hidden, cell, outputs = np.zeros(config.projection), np.zeros(config.cell), []
        for each in given:
            gates = p[f"{place}.inputs.weight"] @ each + reference.linear(p, f"{place}.recurrent", hidden)
            inward, forget, new, out = np.split(gates, 4)
            cell = clipped(sigmoid(forget) * cell + sigmoid(inward) * np.tanh(new), config.cell_clip)
            hidden = clipped(p[f"{place}.projection.weight"] @ (sigmoid(out) * np.tanh(cell)), config.projection_clip)
            outputs.append(hidden)
        given = [output + before for output, before in zip(outputs, given, strict=True)] if layer else outputs
        layers.append(given)
    return layers


def states_of(config: ElmoConfig, p: Parameters, ids: Sequence[Sequence[int]]) -> Array:
    """Of one text, its marks among its words: `(layers + 1, position, 2 projection)`."""
    vectors = [word(config, p, each) for each in ids]
    found = [[np.concatenate([vector, vector]) for vector in vectors]]
    ahead, back = read(config, p, vectors, "forwards"), read(config, p, vectors[::-1], "backwards")
    for one, other in zip(ahead, back, strict=True):
        found.append([np.concatenate(pair) for pair in zip(one, other[::-1], strict=True)])
    return np.array(found)


def spelled(text: str, size: int) -> list[list[int]]:
    words = [spell(word, size) for word in text.split()]
    return [spell_mark(TEXT_BEGINS, size), *words, spell_mark(TEXT_ENDS, size)]


def batch(texts: list[str], size: int) -> tuple[Tensor, Tensor]:
    rows = [spelled(text, size) for text in texts]
    return stack_words(rows, size), torch.tensor(list(map(len, rows)))


@pytest.mark.parametrize("config", ODD, ids=["plain", "cut", "small"])
@torch.no_grad()
def test_states_of_all_layers(config: ElmoConfig):
    """Of each text as if it were alone, whatever stands in its padding."""
    size = config.characters
    characters, lengths = batch(TEXTS, size)
    inside = torch.arange(characters.shape[1]) < lengths[:, None]
    characters = characters.where(inside[..., None], torch.randint(1, 262, characters.shape))
    model = reference.drawn(Elmo(0, config), 0.7)
    found, p = model(characters, lengths).numpy(), reference.parameters(model)
    for row, text in enumerate(TEXTS):
        wanted = states_of(config, p, spelled(text, size))
        np.testing.assert_allclose(found[:, row, : wanted.shape[1]], wanted, rtol=1e-10, atol=1e-10)
        assert not found[:, row, wanted.shape[1] :].any()


def test_the_cut_off_is_reached():
    """Else the test above says nothing of it."""
    config, ids = ODD[1], spelled(TEXTS[1], 13)
    p = reference.parameters(reference.drawn(Elmo(0, config), 0.7))
    wanted = states_of(config, p, ids)
    assert not np.allclose(states_of(replace(config, cell_clip=None), p, ids), wanted)
    assert not np.allclose(states_of(replace(config, projection_clip=None), p, ids), wanted)


def test_losses_are_those_of_the_neighbours():
    """Forwards of what follows, backwards of what is before, padding left out; both by one output layer."""
    model = Elmo(11, replace(ODD[0], predictions=True)).double().eval()
    characters, lengths = batch(["a b c", "d"], 50)
    tokens = torch.tensor([[2, 5, 7, 4, 3], [2, 9, 3, IGNORED, IGNORED]])
    (forward, each), (backward, other) = compute_losses(model, SpelledBatch(characters, tokens, lengths))
    last = model(characters, lengths)[-1]
    assert model.output is not None
    ahead, back = (model.output(half).log_softmax(-1) for half in last.chunk(2, -1))
    wanted = [-sum(ahead[row, at, tokens[row, at + 1]] for at in range(n - 1)) for row, n in enumerate(lengths)]
    torch.testing.assert_close(forward, wanted[0] + wanted[1])
    wanted = [-sum(back[row, at, tokens[row, at - 1]] for at in range(1, n)) for row, n in enumerate(lengths)]
    torch.testing.assert_close(backward, wanted[0] + wanted[1])
    assert (each != 0).tolist() == (other != 0).tolist() == [[True] * 4, [True, True, False, False]]
    (forward + backward).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_size_that_was_released():
    """93.6 million parameters, what tells words not counted."""
    filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    config = ElmoConfig(filters=filters, highways=2, projection=512, cell=4096, predictions=False)
    with torch.device("meta"):
        model = Elmo(0, config)
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6, 1) == 93.6
