"""Positional encodings, and generalisation beyond the lengths of training."""

from collections.abc import Callable

import torch

from regard.experiments.finding import Finding
from regard.experiments.lengths import right_by_length
from regard.experiments.setting import Setting
from regard.nn.embeddings import Integers, Learned, NoPositions, Positions, Sinusoidal
from regard.pictures.chart import Chart
from regard.shapes import Float

CLAIM = (
    "Models generalise to longer rows in different ways: integers grow beyond all trained values, learned positions "
    "have no trained code, sines form new combinations, a recurrent state works for a while, and monotonic attention "
    "need not depend on position. A fraction of the length gives neighbours another distance in every row, and during "
    "generation the length is unknown. The task is to copy rows of letters, with up to 20 in training."
)
LONGEST, FAR, WIDTH, MOST = 20, 1_000, 64, 64
TRANSFORMER = (
    "model={{name: transformer, layers: 2, width: 64, hidden: 128, heads: 4, positions: {positions}, max_length: 64, "
    "shared: false, dropout: 0.0}}"
)
Encoding = Callable[[int], Float[torch.Tensor, "position width"]]
"""Maps a length to the code of every position."""
PROPERTIES = "unique", "bounded", "same offsets", "any length"
"""Properties of a good encoding: the codes of a row are distinct; codes do not grow with the length; the difference of
neighbours is the same in rows of all lengths; positions far beyond training have a code."""
MODELS = {
    **{
        name: [TRANSFORMER.format(positions=name), "training.learning_rate=2e-3"]
        for name in ("none", "integers", "sinusoidal", "learned")
    },
    "LSTM, general attention": [],
    "LSTM, monotonic attention": ["model.align=monotonic"],
}


def code(positions: Positions) -> Encoding:
    """The encoding of a positional module."""
    return lambda size: positions(torch.zeros(1, size, WIDTH))[0].detach()


def encodings() -> dict[str, Encoding]:
    """The compared encodings by name."""
    return {
        "none": code(NoPositions()),
        "fraction of the length": lambda size: torch.linspace(0, 1, size)[
            :, None
        ].expand(-1, WIDTH),
        "integers": code(Integers(WIDTH)),
        "sinusoidal": code(Sinusoidal()),
        "learned": code(Learned(MOST, WIDTH)),
    }


def positions(setting: Setting) -> Finding:
    """The properties of each encoding, and the per cent of copied letters by row length, up to twice that of training:
    Transformers with each encoding, and recurrent models without one."""
    lengths = range(5, 2 * LONGEST + 1, 5)
    steps = 4000 if setting.full else 1200
    figures, lines = {}, {}
    for name, overrides in MODELS.items():
        run = name.lower().replace(", ", "-").replace(" ", "-")
        settings = [
            "data.order=copy",
            f"data.most={LONGEST}",
            f"training.steps={steps}",
            *overrides,
        ]
        result = setting.train("letters", run, settings)
        shares = right_by_length(setting.run(run), "copy", lengths, 100)
        figures[name] = (*shares, result["seconds"])
        lines[name] = [
            (float(length), share)
            for length, share in zip(lengths, shares, strict=True)
        ]
    properties_of = {
        name: ["yes" if has else "no" for has in properties(encoding).values()]
        for name, encoding in encodings().items()
    }
    rows = [
        (
            name,
            *properties_of.get(name, [""] * len(PROPERTIES)),
            *figures.get(name, [""] * (len(lengths) + 1)),
        )
        for name in dict.fromkeys((*properties_of, *figures))
    ]
    columns = (
        "positions",
        *PROPERTIES,
        *(f"{length} letters, %" for length in lengths),
        "seconds",
    )
    return Finding(
        CLAIM, columns, rows, [Chart("letters copied", "letters", "right, %", lines)]
    )


def properties(encoding: Encoding) -> dict[str, bool]:
    """Whether an encoding has each of `PROPERTIES`."""
    short, long = encoding(LONGEST), encoding(2 * LONGEST)
    distances = torch.cdist(long.double(), long.double()) + torch.eye(len(long))
    try:
        far = encoding(FAR)
    except ValueError:  # as in `Learned` beyond its last position
        far = None
    has = (
        bool(distances.min() > 1e-6),
        bool((long if far is None else far).abs().max() <= 2 * short.abs().max()),
        torch.allclose(short[1] - short[0], long[1] - long[0]),
        far is not None,
    )
    return dict(zip(PROPERTIES, has, strict=True))
