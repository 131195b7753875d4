"""The formulas once more, in NumPy float64 with loops: what the package must agree with, written from the papers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[np.float64]
Parameters = Mapping[str, Array]


def parameters(module: nn.Module) -> dict[str, Array]:
    """A module's parameters by name."""
    return {name: tensor.detach().double().numpy() for name, tensor in module.named_parameters()}


def drawn(module: nn.Module, std: float = 0.5) -> Any:
    """Return the module in float64, its parameters of no special kind, so that every bias counts."""
    for parameter in module.double().eval().parameters():
        nn.init.normal_(parameter, std=std)
    return module


def numbers(tensor: Tensor) -> Array:
    return tensor.detach().numpy()


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(scores: Sequence[float] | Array) -> Array:
    raised = np.array([np.exp(score - max(scores)) for score in scores])
    return raised / raised.sum()


def lookup(score: Callable[[Array, Array], float], query: Array, keys: Array, values: Array) -> tuple[Array, Array]:
    """One query: its context and its weights."""
    weights = softmax([score(query, key) for key in keys])
    context = np.zeros(values.shape[1])
    for weight, value in zip(weights, values, strict=True):
        context += weight * value
    return context, weights


def dot(query: Array, key: Array) -> float:
    return sum(float(q * k) for q, k in zip(query, key, strict=True))


def scaled_dot(query: Array, key: Array) -> float:
    return dot(query, key) / np.sqrt(len(key))


def general(matrix: Array) -> Callable[[Array, Array], float]:
    return lambda query, key: sum(query[i] * matrix[i, j] * key[j] for i in range(len(query)) for j in range(len(key)))


def additive(for_query: Array, for_key: Array, energy: Array) -> Callable[[Array, Array], float]:
    """v^T tanh(W_q q + W_k k), the matrices as they stand in the paper: (width, query width) and (width, key width)."""
    return lambda query, key: float(energy @ np.tanh(for_query @ query + for_key @ key))


def concat(matrix: Array, energy: Array) -> Callable[[Array, Array], float]:
    """v^T tanh(W [q; k])."""
    return lambda query, key: float(energy @ np.tanh(matrix @ np.concatenate([query, key])))


def cosine(sharpness: Callable[[Array], float]) -> Callable[[Array, Array], float]:
    return lambda query, key: sharpness(query) * dot(query, key) / np.sqrt(dot(query, query) * dot(key, key))


def distance(width: float) -> Callable[[Array, Array], float]:
    return lambda query, key: -dot(query - key, query - key) / (2 * width**2)


def inverse_distance_weights(query: Array, keys: Array, eps: float) -> Array:
    """1 / (|q - k| + eps), brought to sum 1: no logarithm, no softmax."""
    closeness = np.array([1 / (np.sqrt(dot(query - key, query - key)) + eps) for key in keys])
    return closeness / closeness.sum()


def embed(p: Parameters, side: str, token: int) -> Array:
    """A token's row of a side's table times sqrt(width) (Vaswani 2017, section 3.4)."""
    row = p[f"{side}.embedding.table.weight"][token]
    return row * np.sqrt(len(row))


def linear(p: Parameters, name: str, x: Array) -> Array:
    """W x + b."""
    return p[f"{name}.weight"] @ x + p[f"{name}.bias"]


def multi_head(p: Parameters, name: str, heads: int, query: Array, states: Array) -> Array:
    """Vaswani 2017, section 3.2.2: one query over the states it reads as keys and as values."""
    queries = np.split(linear(p, f"{name}.query", query), heads)
    keys = np.split(np.array([linear(p, f"{name}.key", state) for state in states]), heads, axis=1)
    values = np.split(np.array([linear(p, f"{name}.value", state) for state in states]), heads, axis=1)
    reads = [lookup(scaled_dot, *head)[0] for head in zip(queries, keys, values, strict=True)]
    return linear(p, f"{name}.output", np.concatenate(reads))


def gru_reset_before(p: Parameters, name: str, x: Array, s: Array) -> Array:
    """Bahdanau 2015, appendix A.1.1: r and z from x and s, s~ from r * s, s' = (1 - z) * s + z * s~."""
    width = len(s)
    for_r, for_z, for_candidate = np.split(p[f"{name}.inputs.weight"] @ x + p[f"{name}.inputs.bias"], 3)
    gates = p[f"{name}.gates.weight"]
    r = sigmoid(for_r + gates[:width] @ s)
    z = sigmoid(for_z + gates[width:] @ s)
    candidate = np.tanh(for_candidate + p[f"{name}.candidate.weight"] @ (r * s))
    return (1 - z) * s + z * candidate


def gru_reset_after(p: Parameters, name: str, x: Array, h: Array) -> Array:
    """PyTorch's: n = tanh(W x + b + r * (U h + c)), h' = (1 - z) * n + z * h."""
    rx, zx, nx = np.split(p[f"{name}.cell.weight_ih"] @ x + p[f"{name}.cell.bias_ih"], 3)
    rh, zh, nh = np.split(p[f"{name}.cell.weight_hh"] @ h + p[f"{name}.cell.bias_hh"], 3)
    r, z = sigmoid(rx + rh), sigmoid(zx + zh)
    return (1 - z) * np.tanh(nx + r * nh) + z * h


def lstm(p: Parameters, name: str, x: Array, h: Array, c: Array, suffix: str = "") -> tuple[Array, Array]:
    """c' = f * c + i * g, h' = o * tanh(c')."""
    total = p[f"{name}.weight_ih{suffix}"] @ x + p[f"{name}.bias_ih{suffix}"]
    i, f, g, o = np.split(total + p[f"{name}.weight_hh{suffix}"] @ h + p[f"{name}.bias_hh{suffix}"], 4)
    after = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(after), after


def step_lstm(network: nn.Module, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """The same of PyTorch's module of one layer."""
    named = zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), network.parameters(), strict=True)
    return lstm({f".{name}": numbers(parameter) for name, parameter in named}, "", x, h, c)


def tanh(p: Parameters, name: str, x: Array, h: Array) -> Array:
    from_input = p[f"{name}.cell.weight_ih"] @ x + p[f"{name}.cell.bias_ih"]
    return np.tanh(from_input + p[f"{name}.cell.weight_hh"] @ h + p[f"{name}.cell.bias_hh"])


def both_ways(p: Parameters, name: str, sequence: list[Array], layers: int = 1) -> list[Array]:
    """The states of LSTMs that read a text in both directions, one position at a time."""
    for layer in range(layers):
        ahead = read_lstm(p, f"{name}.forwards.{layer}", sequence)
        back = read_lstm(p, f"{name}.backwards.{layer}", sequence[::-1])[::-1]
        sequence = [np.concatenate(pair) for pair in zip(ahead, back, strict=True)]
    return sequence


def read_lstm(p: Parameters, name: str, sequence: list[Array]) -> list[Array]:
    """The states of one layer from zero."""
    state = cell = np.zeros(p[f"{name}.weight_hh_l0"].shape[1])
    states = []
    for each in sequence:
        state, cell = lstm(p, name, each, state, cell, "_l0")
        states.append(state)
    return states
