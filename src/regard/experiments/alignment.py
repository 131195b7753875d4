"""Attention aligns words: alignment quality by mechanism and by training time."""

import numpy as np
from jaxtyping import Float

from regard.data.pair import Pair
from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.maps.averages import average_heads
from regard.maps.links import Gold, errors_of_maps, score_links, strongest
from regard.pictures.chart import Chart
from regard.tasks.capabilities import Aligns

CLAIM = (
    "Attention learns word alignments without alignments in its training data. The table has error rates on generated "
    "sentences with known alignments; each target word is linked to its source word of greatest weight. The weights "
    "are the mean of all layers and heads, the single map that is best on the validation set, and the mean shifted by "
    "one step in either direction."
)
TRANSFORMER = "model={name: transformer, layers: 2, width: 96, hidden: 192, heads: 4, shared: false, dropout: 0.1}"
BAHDANAU = (
    "model={{name: bahdanau, embedding: 64, width: 96, attention: 64, maxout: 64,"
    " cell: gru, history: {history}}}"
)
MECHANISMS = {
    "Bahdanau, additive": [BAHDANAU.format(history="null")],
    "Bahdanau, coverage": [BAHDANAU.format(history="coverage")],
    "Bahdanau, location-aware": [BAHDANAU.format(history="location-aware")],
    "Luong, general": [],
    "Luong, dot": ["model.score=dot"],
    "Luong, concat": ["model.score=concat"],
    "Luong, sparsemax": ["model.align=sparsemax"],
    "Luong, entmax": ["model.align=entmax"],
    "Luong, straight-through": ["model.align=straight-through"],
    "Luong, hard": ["model.align=hard", "attention_losses.draw_entropy=0.05"],
    "Luong, local-m": ["model.align=local-m", "model.window=8"],
    "Luong, local-p": ["model.align=local-p", "model.window=8"],
    "Luong, monotonic": ["model.align=monotonic"],
    "one pass, scaled dot": [
        "model={name: one-pass, width: 96, encoder_width: 96, shared: false, dropout: 0.1}"
    ],
    "Transformer": [TRANSFORMER, "training.learning_rate=2e-3"],
    "Transformer, guided": [
        TRANSFORMER,
        "training.learning_rate=2e-3",
        "attention_losses.guided=0.3",
    ],
}
AER = tuple(
    f"AER of {what}, %"
    for what in ("the mean", "the best map", "the step before", "the step after")
)


def alignment(setting: Setting) -> Finding:
    """Exact match and alignment error rates of each mechanism on generated sentences, by the number of updates."""
    steps = (150, 300, 600, 1200, 2400) if setting.full else (200, 600)
    columns = "mechanism", "updates", "exact match, %", *AER, "seconds"
    rows, lines = [], {}
    for name, overrides in MECHANISMS.items():
        lines[name] = []
        for count in steps:
            run = f"{''.join(letter if letter.isalnum() else '-' for letter in name.lower())}-{count}"
            result = setting.train(
                "bitext", run, [f"training.steps={count}", "data.test=500", *overrides]
            )
            found = [100 * error for error in errors(setting.run(run))]
            rows.append(
                (name, count, result["test/exact-match"], *found, result["seconds"])
            )
            lines[name].append((float(count), found[1]))
    chart = Chart(
        "alignment of the best map",
        "updates",
        "alignment error rate, %",
        lines,
        ("linear", "log"),
    )
    return Finding(CLAIM, columns, rows, [chart])


def errors(run: Aligns) -> tuple[float, ...]:
    """The error rates on the test set that `AER` names."""
    splits = run.config.data.load()
    choosing, measuring = run.word_maps(splits.valid), run.word_maps(splits.test)
    validated = errors_of_maps(choosing, [known(pair) for pair in splits.valid])
    gold = [known(pair) for pair in splits.test]
    best = errors_of_maps(measuring, gold)[validated.index(min(validated))]
    means = [average_heads(maps) for maps in measuring]
    same, before, after = (
        score_links([strongest(moved(weights, steps)) for weights in means], gold).aer
        for steps in (0, 1, -1)
    )
    return same, best, before, after


def moved(
    weights: Float[np.ndarray, "target source"], steps: int
) -> Float[np.ndarray, "target source"]:
    """Each target word with the weights of the word `steps` before it; words at one end have zeros."""
    rows = np.roll(weights, steps, axis=0)
    rows[: max(0, steps)] = 0.0
    rows[len(rows) + min(0, steps) :] = 0.0
    return rows


def known(pair: Pair) -> Gold:
    """The pair's own links, all of them sure."""
    assert pair.links is not None
    return Gold(pair.links, pair.links)
