"""Quality by source length: a single vector as a bottleneck, and positional encodings."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import torch

from regard.data.generated.pairs import Order, make
from regard.experiments.sweep import Finding, Row, Setting
from regard.nn.layers import (
    Learned,
    LinearPositions,
    NoPositions,
    Positions,
    Sinusoidal,
)
from regard.pictures.chart import Chart
from regard.shapes import Float
from regard.tasks.run import Run


def score_lengths(
    run: Run[Any, Any], order: Order, lengths: Sequence[int], count: int = 100
) -> list[float]:
    """Return the per cent of correct letters in `count` greedy outputs per length."""
    scores = []
    for length in lengths:
        random = Random(f"lengths/{length}")
        rows = [make(length, order, random) for _ in range(count)]
        texts = [row.text for row in rows]
        predictions = run.predict(texts, beam=1, attention=False)
        hits = 0
        for row, prediction in zip(rows, predictions, strict=True):
            pairs = zip(row.target.split(), prediction.text.split(), strict=False)
            hits += sum(expected == letter for expected, letter in pairs)
        scores.append(100 * hits / (length * count))
    return scores


def compare_lengths(
    setting: Setting,
    title: str,
    models: Mapping[Row, Sequence[str]],
    order: Order,
    lengths: Sequence[int],
) -> tuple[list[Row], Chart]:
    """Train models on rows of letters; return their scores at each length as rows and chart."""
    rows = setting.sweep(
        {cells: ("letters", settings) for cells, settings in models.items()},
        lambda run, result: score_lengths(run, order, lengths),
    )
    lines = {}
    for cells, row in zip(models, rows, strict=True):
        name = ", width ".join(map(str, cells))
        lines[name] = list(zip(map(float, lengths), row[len(cells) : -1], strict=True))
    return rows, Chart(title, "letters", "right, %", lines)


BOTTLENECK_CLAIM = (
    "With a single vector for the whole source, quality falls as the source gets longer, and a wider vector only "
    "delays this. With attention, quality does not depend on the length."
)
DECODERS = {
    "one vector": "model={{name: bottleneck, embedding: 32, width: {width}}}",
    "attention": "model={{name: luong, embedding: 32, width: {width}, layers: 1, bidirectional: true, dropout: 0}}",
}
WIDTHS = 64, 256


def bottleneck(setting: Setting) -> Finding:
    """Compare decoders with and without attention by source length and width.

    All models are trained on rows of letters of all lengths, to reverse them. The first
    output letters are then the last input letters, which is easier for one vector
    (Sutskever 2014, section 3.3).
    """
    longest, steps = (100, 8000) if setting.full else (20, 2000)
    lengths = range(longest // 10, longest + 1, longest // 10)
    settings = ["data.least=1", f"data.most={longest}", "data.test=0"]
    settings += [f"training.steps={steps}", "training.learning_rate=3e-3"]
    models = {
        (name, width): [*settings, model.format(width=width)]
        for name, model in DECODERS.items()
        for width in WIDTHS
    }
    rows, chart = compare_lengths(
        setting, "letters reversed", models, "reverse", lengths
    )
    scores = [f"{length} letters, %" for length in lengths]
    columns = "decoder", "width", *scores, "seconds"
    return Finding(BOTTLENECK_CLAIM, columns, rows, [chart])


POSITIONS_CLAIM = (
    "Models generalise to longer rows in different ways: integers grow beyond all trained values, learned positions "
    "have no trained code, sines form new combinations, a recurrent state works for a while, and monotonic attention "
    "need not depend on position. A fraction of the length gives neighbours another distance in every row, and during "
    "generation the length is unknown. The task is to copy rows of letters, with up to 20 in training."
)
LONGEST, FAR, WIDTH, MAX_POSITIONS = 20, 1_000, 64, 64
TRANSFORMER = (
    "model={{name: transformer, layers: 2, width: 64, hidden: 128, heads: 4, positions: {positions}, max_length: 64, "
    "shared: false, dropout: 0.0}}"
)
Encoding = Callable[[int], Float[torch.Tensor, "position width"]]
"""Maps a length to the code of every position."""
PROPERTIES = "unique", "bounded", "same offsets", "any length"
"""Properties of a good encoding: the codes of a row are distinct; codes do not grow
with the length; the difference of neighbors is the same in rows of all lengths;
positions far beyond training have a code."""
POSITION_MODELS: dict[str, list[str]] = {
    **{
        name: [TRANSFORMER.format(positions=name), "training.learning_rate=2e-3"]
        for name in ("none", "integers", "sinusoidal", "learned")
    },
    "LSTM, general attention": [],
    "LSTM, monotonic attention": ["model.align=monotonic"],
}


def list_encodings() -> dict[str, Encoding]:
    """Return the compared encodings by name."""

    def encoding(positions: Positions) -> Encoding:
        return lambda size: positions(torch.zeros(1, size, WIDTH))[0].detach()

    return {
        "none": encoding(NoPositions()),
        "fraction of the length": lambda size: torch.linspace(0, 1, size)[:, None],
        "integers": encoding(LinearPositions(WIDTH)),
        "sinusoidal": encoding(Sinusoidal()),
        "learned": encoding(Learned(MAX_POSITIONS, WIDTH)),
    }


def positions(setting: Setting) -> Finding:
    """Measure the properties of encodings, and letters copied by row length.

    Transformers with each encoding and recurrent models without one copy rows of up to
    twice the length of training.
    """
    lengths = range(5, 2 * LONGEST + 1, 5)
    steps = 4000 if setting.full else 1200
    settings = ["data.order=copy", f"data.most={LONGEST}", f"training.steps={steps}"]
    models = {(name,): [*settings, *model] for name, model in POSITION_MODELS.items()}
    trained, chart = compare_lengths(setting, "letters copied", models, "copy", lengths)
    scores = {name: cells for name, *cells in trained}
    properties = {}
    for name, encoding in list_encodings().items():
        values = check_properties(encoding).values()
        properties[name] = ["yes" if value else "no" for value in values]
    titles = [f"{length} letters, %" for length in lengths]
    titles.append("seconds")
    columns = ("positions", *PROPERTIES, *titles)
    rows = []
    no_properties = [""] * len(PROPERTIES)
    no_scores = [""] * len(titles)
    for name in properties | scores:
        cells = properties.get(name, no_properties)
        measured = scores.get(name, no_scores)
        rows.append((name, *cells, *measured))
    return Finding(POSITIONS_CLAIM, columns, rows, [chart])


def check_properties(encoding: Encoding) -> dict[str, bool]:
    """Check whether an encoding has each of `PROPERTIES`."""
    short = encoding(LONGEST)
    long = encoding(2 * LONGEST)
    codes = long.double()
    distances = torch.cdist(codes, codes) + torch.eye(len(long))
    has_any_length = True
    try:
        far = encoding(FAR)
    except ValueError:  # as in `Learned` beyond its last position
        far = long
        has_any_length = False
    return {
        "unique": bool(distances.min() > 1e-6),
        "bounded": bool(far.abs().max() <= 2 * short.abs().max()),
        "same offsets": torch.allclose(short[1] - short[0], long[1] - long[0]),
        "any length": has_any_length,
    }
