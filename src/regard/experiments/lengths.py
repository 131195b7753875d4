"""Quality by source length: a single vector as a bottleneck, and positional encodings."""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch

from regard.data.generated.pairs import Order, make
from regard.data.pairs import Pair, read_parallel
from regard.errors import InputError
from regard.experiments.sweep import Finding, Setting
from regard.nn.embeddings import (
    Learned,
    LinearPositions,
    NoPositions,
    Positions,
    Sinusoidal,
)
from regard.pictures.chart import Chart
from regard.shapes import Float
from regard.tasks.base import digest
from regard.tasks.run import Run

SEED = "lengths"


def score_lengths(
    run: Run[Any, Any], order: Order, lengths: Sequence[int], count: int
) -> list[float]:
    """Return the per cent of correct letters in `count` greedy outputs per length."""
    return [score_length(run, order, length, count) for length in lengths]


def score_length(run: Run[Any, Any], order: Order, length: int, count: int) -> float:
    """Return `score_lengths` for one length."""
    random = Random(f"{SEED}/{length}")
    rows = [make(length, order, random) for _ in range(count)]
    predictions = run.predict([row.text for row in rows], beam=1, attention=False)
    hits = 0
    for row, prediction in zip(rows, predictions, strict=True):
        letters = zip(row.answer.split(), prediction.text.split(), strict=False)
        hits += sum(expected == letter for expected, letter in letters)
    return 100 * hits / (length * count)


BOTTLENECK_CLAIM = (
    "With a single vector for the whole source, quality falls as the source gets longer, and a wider vector only "
    "delays this. With attention, quality does not depend on the length."
)
ON_LETTERS = {
    "one vector": "model={{name: bottleneck, embedding: 32, width: {width}}}",
    "attention": "model={{name: luong, embedding: 32, width: {width}, layers: 1, bidirectional: true, dropout: 0}}",
}
ON_TEXT = {
    "one vector": "model={{name: bottleneck, embedding: 256, width: {width}, dropout: 0.3}}",
    "attention": "model={{name: one-pass, width: {width}, encoder_width: {width}, dropout: 0.3}}",
}
WIDTHS = 64, 256
MAX_JOINED, TEST_PAIRS = 6, 1_000
"""The maximum of sentences joined to one source; the number of pairs in the test set,
and of those for validation."""


def bottleneck(setting: Setting) -> Finding:
    """Compare decoders with and without attention by source length and width.

    The score is correct letters or, with text in the setting, the BLEU of up to six
    joined sentences. All models are trained on all lengths.
    """
    return (
        on_letters(setting)
        if setting.text is None
        else on_text(setting, read_parallel(*setting.text))
    )


def on_letters(setting: Setting) -> Finding:
    """Reverse rows of letters.

    The first output letters are then the last input letters, which is easier for one
    vector (Sutskever 2014, section 3.3).
    """
    longest, steps = (100, 8000) if setting.full else (20, 2000)
    lengths = range(longest // 10, longest + 1, longest // 10)
    data = ["data.least=1", f"data.most={longest}", "data.test=0"]
    training = [f"training.steps={steps}", "training.learning_rate=3e-3"]
    rows, lines = [], {}
    for name, model in ON_LETTERS.items():
        for width in WIDTHS:
            run = f"{name.replace(' ', '-')}-{width}"
            result = setting.train(
                "letters", run, [*data, *training, model.format(width=width)]
            )
            shares = score_lengths(setting.run(run), "reverse", lengths, 100)
            rows.append((name, width, *shares, result["seconds"]))
            lines[f"{name}, width {width}"] = [
                (float(at), share) for at, share in zip(lengths, shares, strict=True)
            ]
    columns = (
        "decoder",
        "width",
        *(f"{length} letters, %" for length in lengths),
        "seconds",
    )
    return Finding(
        BOTTLENECK_CLAIM,
        columns,
        rows,
        [Chart("letters reversed", "letters", "right, %", lines)],
    )


def on_text(setting: Setting, pairs: Sequence[Pair]) -> Finding:
    """Translate the sentences of a text.

    Raises:
        InputError: There are too few.
    """
    least = 4 * TEST_PAIRS
    if len(pairs) < least:
        raise InputError(f"{len(pairs)} pairs are too few; expected at least {least:,}")
    train, valid, test = (
        pairs[: -2 * TEST_PAIRS],
        pairs[-2 * TEST_PAIRS : -TEST_PAIRS],
        pairs[-TEST_PAIRS:],
    )
    text = f"text-{digest(f'{pair.source} {pair.target}' for pair in pairs)[:8]}"
    sets = {"train": mix_pairs(train), "valid": mix_pairs(valid)}
    data = [
        f"data.{name}={json.dumps(write_set(setting, f'{text}-{name}', items))}"
        for name, items in sets.items()
    ]
    data += ["metrics=[bleu]", f"training.steps={6000 if setting.full else 1200}"]
    counts = range(1, MAX_JOINED + 1)
    rows, lines = [], {}
    for name, model in ON_TEXT.items():
        for width in WIDTHS:
            run = f"{text}-{name.replace(' ', '-')}-{width}"
            result = setting.train(
                "translate-rnn", run, [*data, model.format(width=width)]
            )
            trained = setting.run(run)
            scores = [
                trained.evaluate(join_pairs(test, count), beam=1)["bleu"]
                for count in counts
            ]
            rows.append((name, width, *scores, result["seconds"]))
            lines[f"{name}, width {width}"] = [
                (float(at), score) for at, score in zip(counts, scores, strict=True)
            ]
    columns = (
        "decoder",
        "width",
        *(f"{count} sentences, BLEU" for count in counts),
        "seconds",
    )
    return Finding(
        BOTTLENECK_CLAIM,
        columns,
        rows,
        [Chart("sentences joined", "sentences", "BLEU", lines)],
    )


def join_pairs(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Join each `count` adjacent pairs to one; a shorter remainder is dropped."""
    groups = [
        pairs[first : first + count]
        for first in range(0, len(pairs) - count + 1, count)
    ]
    return [
        Pair(
            " ".join(pair.source for pair in group),
            " ".join(pair.target for pair in group),
            group[0].place,
        )
        for group in groups
    ]


def mix_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Join adjacent pairs in groups of one to `MAX_JOINED`; each part of the text has another group size."""
    share = len(pairs) // MAX_JOINED
    parts = [
        pairs[number * share : (number + 1) * share] for number in range(MAX_JOINED)
    ]
    groups = [
        group
        for count, part in enumerate(parts, 1)
        for group in join_pairs(part, count)
    ]
    Random(1).shuffle(groups)
    return groups


def write_set(setting: Setting, name: str, pairs: Sequence[Pair]) -> tuple[str, str]:
    """Write the files of a set into the setting's folder."""
    setting.folder.mkdir(parents=True, exist_ok=True)
    sides = {
        "source": [pair.source for pair in pairs],
        "target": [pair.target for pair in pairs],
    }
    for side, texts in sides.items():
        (setting.folder / f"{name}.{side}").write_text(
            "\n".join(texts) + "\n", encoding="utf-8"
        )
    return str(setting.folder / f"{name}.source"), str(
        setting.folder / f"{name}.target"
    )


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
with the length; the difference of neighbours is the same in rows of all lengths;
positions far beyond training have a code."""
POSITION_MODELS = {
    **{
        name: [TRANSFORMER.format(positions=name), "training.learning_rate=2e-3"]
        for name in ("none", "integers", "sinusoidal", "learned")
    },
    "LSTM, general attention": [],
    "LSTM, monotonic attention": ["model.align=monotonic"],
}


def to_encoding(positions: Positions) -> Encoding:
    """Return the encoding of a positional module."""
    return lambda size: positions(torch.zeros(1, size, WIDTH))[0].detach()


def list_encodings() -> dict[str, Encoding]:
    """Return the compared encodings by name."""
    return {
        "none": to_encoding(NoPositions()),
        "fraction of the length": lambda size: torch.linspace(0, 1, size)[
            :, None
        ].expand(-1, WIDTH),
        "integers": to_encoding(LinearPositions(WIDTH)),
        "sinusoidal": to_encoding(Sinusoidal()),
        "learned": to_encoding(Learned(MAX_POSITIONS, WIDTH)),
    }


def positions(setting: Setting) -> Finding:
    """Measure the properties of encodings, and letters copied by row length.

    Transformers with each encoding and recurrent models without one copy rows of up to
    twice the length of training.
    """
    lengths = range(5, 2 * LONGEST + 1, 5)
    steps = 4000 if setting.full else 1200
    figures, lines = {}, {}
    for name, overrides in POSITION_MODELS.items():
        run = name.lower().replace(", ", "-").replace(" ", "-")
        settings = [
            "data.order=copy",
            f"data.most={LONGEST}",
            f"training.steps={steps}",
            *overrides,
        ]
        result = setting.train("letters", run, settings)
        shares = score_lengths(setting.run(run), "copy", lengths, 100)
        figures[name] = (*shares, result["seconds"])
        lines[name] = [
            (float(length), share)
            for length, share in zip(lengths, shares, strict=True)
        ]
    properties_of = {
        name: ["yes" if has else "no" for has in check_properties(encoding).values()]
        for name, encoding in list_encodings().items()
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
        POSITIONS_CLAIM,
        columns,
        rows,
        [Chart("letters copied", "letters", "right, %", lines)],
    )


def check_properties(encoding: Encoding) -> dict[str, bool]:
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
