"""Why dot products are scaled: the effect of width on scores, on their softmax, and on its gradient."""

import math

import torch

from regard.attention.scores import Dot, ScaledDot
from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.pictures.chart import Chart, Scales

KEYS = 64
CLAIM = (
    "If queries and keys have entries with mean 0 and deviation 1, the variance of their dot product grows with the "
    "width. Its softmax becomes one-hot and passes no gradient. Divided by the root of the width, variance, entropy "
    "and gradient stay constant (Vaswani 2017, section 3.2.1)."
)


def scaling(setting: Setting) -> Finding:
    """By width: the variance of the scores, the entropy of the weights, and the norm of the weights' derivative by the
    scores; means over many queries with 64 keys each."""
    widths = [2**power for power in range(2, 14 if setting.full else 11)]
    queries = 4096 if setting.full else 512
    generator = torch.Generator().manual_seed(1)
    rows = []
    for width in widths:
        query = torch.randn(queries, 1, width, generator=generator)
        key = torch.randn(queries, KEYS, width, generator=generator)
        for name, score in (("dot", Dot()), ("scaled dot", ScaledDot())):
            rows.append(
                (name, width, *measured(score(query, score.prepare(key))[:, 0]))
            )
    names = "variance of scores", "entropy of weights", "norm of the derivative"
    charts = [
        Chart(title, "width", unit, lines(rows, 2 + number), scales)
        for number, (title, unit, scales) in enumerate(
            zip(
                names,
                ("", f"nats, of at most {math.log(KEYS):.2f}", ""),
                SCALES,
                strict=True,
            )
        )
    ]
    return Finding(CLAIM, ("score", "width", *names), rows, charts)


SCALES: tuple[Scales, ...] = (("log", "log"), ("log", "linear"), ("log", "log"))


def measured(scores: torch.Tensor) -> tuple[float, float, float]:
    """Of scores `(query, key)`: their variance, the entropy of their softmax a, and |diag(a) - a a^T|."""
    weights = scores.double().softmax(-1)
    entropy = torch.special.entr(weights).sum(-1).mean()
    squares = weights.square().sum(-1)
    # the squared entries of diag(a) - a a^T, summed: sum a_i^2 - 2 sum a_i^3 + (sum a_i^2)^2
    derivative = (
        (squares - 2 * weights.pow(3).sum(-1) + squares.square())
        .clamp(min=0)
        .sqrt()
        .mean()
    )
    return float(scores.double().var()), float(entropy), float(derivative)


def lines(rows: list[tuple], column: int) -> dict[str, list[tuple[float, float]]]:
    """A line per score: the column by width."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append((float(row[1]), row[column]))
    return found
