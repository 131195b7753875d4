"""ELMo once more, in NumPy float64 with loops over words and steps, on weights as they are published: TensorFlow's
names, its order of the gates (in, new, forget, out), its forget gate that is open by one more than its bias says."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.oracle.reference import Array, sigmoid

Weights = Mapping[str, Array]
Carried = dict[tuple[int, int], tuple[Array, Array]]


def options(**sizes: Any) -> dict[str, Any]:
    """What an options file says."""
    given = {
        "filters": [[1, 2], [2, 3], [3, 5]],
        "highways": 2,
        "projection": 7,
        "cell": 11,
        "layers": 2,
        "clip": 3,
        "activation": "relu",
        "characters": 50,
        "width": 3,
    } | sizes
    return {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": given["projection"],
            "cell_clip": given["clip"],
            "proj_clip": given["clip"],
            "dim": given["cell"],
            "n_layers": given["layers"],
        },
        "char_cnn": {
            "activation": given["activation"],
            "filters": given["filters"],
            "n_highway": given["highways"],
            "embedding": {"dim": given["width"]},
            "n_characters": 262,
            "max_characters_per_token": given["characters"],
        },
    }


ODD = (
    options(),
    options(clip=0.2, activation="tanh", highways=1, layers=3, characters=13, filters=[[5, 3], [2, 2]]),
    options(clip=None, highways=0, layers=1, projection=5, cell=2, width=1, filters=[[13, 2]], characters=17),
)
"""Of three models, one whose numbers are cut off in nearly every step."""


def weights(options: dict[str, Any], seed: int = 3) -> dict[str, Array]:
    """Random ones, large enough that every part matters."""
    generator = np.random.default_rng(seed)
    lstm, words = options["lstm"], options["char_cnn"]
    width, projection, cell = words["embedding"]["dim"], lstm["projection_dim"], lstm["dim"]
    total = sum(count for _, count in words["filters"])
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, width)}
    for number, (size, count) in enumerate(words["filters"]):
        shapes[f"CNN/W_cnn_{number}"] = (1, size, width, count)
        shapes[f"CNN/b_cnn_{number}"] = (count,)
    for number in range(words["n_highway"]):
        for name in ("transform", "carry"):
            shapes[f"CNN_high_{number}/W_{name}"] = (total, total)
            shapes[f"CNN_high_{number}/b_{name}"] = (total,)
    shapes |= {"CNN_proj/W_proj": (total, projection), "CNN_proj/b_proj": (projection,)}
    for direction in range(2):
        for layer in range(lstm["n_layers"]):
            place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes[f"{place}/W_0"] = (2 * projection, 4 * cell)
            shapes[f"{place}/B"] = (4 * cell,)
            shapes[f"{place}/W_P_0"] = (cell, projection)
    return {name: generator.normal(scale=0.7, size=shape) for name, shape in shapes.items()}


def clipped(numbers: Array, size: float | None) -> Array:
    return numbers if size is None else np.minimum(np.maximum(numbers, -size), size)


def word(options: dict[str, Any], weights: Weights, ids: Sequence[int]) -> Array:
    """The vector of one word; published ids begin at 0, those given at 1."""
    words = options["char_cnn"]
    embedded = np.array([weights["char_embed"][index - 1] for index in ids])
    found: list[float] = []
    for number, (size, count) in enumerate(words["filters"]):
        kernel, bias = weights[f"CNN/W_cnn_{number}"][0], weights[f"CNN/b_cnn_{number}"]
        for channel in range(count):
            places = range(len(ids) - size + 1)
            largest = max(float((embedded[at : at + size] * kernel[..., channel]).sum()) for at in places)
            number_found = largest + bias[channel]
            found.append(np.tanh(number_found) if words["activation"] == "tanh" else max(0.0, number_found))
    states = np.array(found)
    for number in range(words["n_highway"]):
        part = {
            name: weights[f"CNN_high_{number}/{name}"] for name in ("W_carry", "b_carry", "W_transform", "b_transform")
        }
        gate = sigmoid(states @ part["W_carry"] + part["b_carry"])
        states = gate * np.maximum(states @ part["W_transform"] + part["b_transform"], 0) + (1 - gate) * states
    return states @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]


def read(
    options: dict[str, Any], weights: Weights, inputs: Sequence[Array], direction: int, carried: Carried | None = None
) -> list[list[Array]]:
    """The states of each layer of one direction, in the order of reading. `carried` has the last output and cell of
    each direction and layer of the text before, and those of this one afterwards."""
    lstm = options["lstm"]
    layers, given = [], list(inputs)
    carried = {} if carried is None else carried
    for layer in range(lstm["n_layers"]):
        place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        nothing = np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"])
        hidden, cell = carried.get((direction, layer), nothing)
        outputs = []
        for each in given:
            gates = np.concatenate([each, hidden]) @ weights[f"{place}/W_0"] + weights[f"{place}/B"]
            inward, new, forget, out = np.split(gates, 4)
            cell = clipped(sigmoid(forget + 1) * cell + sigmoid(inward) * np.tanh(new), lstm["cell_clip"])
            hidden = clipped((sigmoid(out) * np.tanh(cell)) @ weights[f"{place}/W_P_0"], lstm["proj_clip"])
            outputs.append(hidden)
        carried[direction, layer] = hidden, cell
        given = [output + before for output, before in zip(outputs, given, strict=True)] if layer else outputs
        layers.append(given)
    return layers


def states(
    options: dict[str, Any], weights: Weights, ids: Sequence[Sequence[int]], carried: Carried | None = None
) -> Array:
    """Of one text, its marks among its words: `(layers + 1, position, 2 projection)`."""
    vectors = [word(options, weights, each) for each in ids]
    found = [[np.concatenate([vector, vector]) for vector in vectors]]
    ahead = read(options, weights, vectors, 0, carried)
    back = read(options, weights, vectors[::-1], 1, carried)
    for one, other in zip(ahead, back, strict=True):
        found.append([np.concatenate(pair) for pair in zip(one, other[::-1], strict=True)])
    return np.array(found)
