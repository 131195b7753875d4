"""What is learned, and how fast: scores and alignments, languages, teacher forcing, scaling, gradients."""

from typing import Any

import torch
from torch import Tensor

from regard.attention.scores import Dot, ScaledDot
from regard.experiments.sweep import Finding, Setting, collect_lines
from regard.models.attention import ALIGNS, SCORES
from regard.models.bottleneck import BottleneckConfig
from regard.models.catalog import MODELS
from regard.models.luong import LuongConfig
from regard.nn.decoders import EncoderDecoder
from regard.pictures.chart import Chart, Scales
from regard.text.kinds import SPECIAL

VARIANTS_CLAIM = (
    "On dates most scores and alignments learn the task; they differ in speed. Scores with small initial values learn "
    "slowly. Location attention does not use the content, a window covers a part of the source, and monotonic "
    "attention cannot go back, as a date with the year at its end requires."
)
STEPS = (150, 300, 600)
EXTRA = {
    "location": ["model.max_source=60"],
    "hard": ["attention_losses.reinforce=1.0", "attention_losses.draw_entropy=0.05"],
}
"""Further settings that some of them need."""


def variants(setting: Setting) -> Finding:
    """Compare scores and alignments on dates, by the number of updates.

    Luong's model has each score with the soft alignment, and each alignment with the
    general score.
    """
    models = {}
    for part, names in (("score", SCORES), ("align", ALIGNS)):
        for name in names:
            if name != "softmax":
                extra = EXTRA.get(name, ())
                settings = [f"model.{part}={name}", "model.window=4", *extra]
                models[part, name] = "dates-luong", settings
    steps = (*STEPS, 1200, 2400) if setting.full else STEPS
    return setting.compare(VARIANTS_CLAIM, ("part", "name"), models, steps)


LANGUAGES_CLAIM = (
    "The dot score compares states directly; the general score learns a matrix between them. Within one language the "
    "states of the two sides can agree, because the output repeats the input; between two languages the matrix could "
    "help. In both tasks encoder and decoder are trained too, which can make their states agree."
)
TASKS = {
    "within, letters copied": (
        "letters",
        ["data.order=copy", "model.width=128", "model.embedding=64"],
    ),
    "across, English into French": ("bitext", ["model.dropout=0.0"]),
}
"""A recipe, and the settings that give its model the size of the other one."""
COMPARED_SCORES = "dot", "general"


def languages(setting: Setting) -> Finding:
    """Compare the dot and the general score on each task, by the number of updates."""
    models = {
        (task, score): (recipe, [*settings, f"model.score={score}", "data.test=500"])
        for task, (recipe, settings) in TASKS.items()
        for score in COMPARED_SCORES
    }
    steps = (50, 100, 200, 400, 800) if setting.full else (100, 200, 400)
    return setting.compare(LANGUAGES_CLAIM, ("task", "score"), models, steps)


FORCING_CLAIM = (
    "With teacher forcing every step has a correct prefix, never a wrong one, so one error leads to others. Free "
    "running learns a little later, but an error has no further effect. Scheduled sampling (Bengio 2015), which moves "
    "from one to the other, lies between."
)
WAYS = {
    "teacher forcing": (),
    "scheduled sampling": ("training.teacher_forcing_end=0.0",),
    "free running": ("training.teacher_forcing=0.0",),
}


def teacher_forcing(setting: Setting) -> Finding:
    """Compare three ways to train Luong's model of dates, by the number of updates.

    The table has exact match, and the share of correct tokens after an early error.
    """
    return setting.compare(
        FORCING_CLAIM,
        ("training",),
        {(name,): ("dates-luong", settings) for name, settings in WAYS.items()},
        (100, 200, 400, 600, *((1200,) if setting.full else ())),
        ("right after a mistake, %",),
        lambda run, result: [100 * score_after_mistake(run)],
    )


def score_after_mistake(run: Any, count: int = 200) -> float:
    """Return the share of correct letters after a wrong second one.

    The model continues the first letter of the target and a wrong one by itself.
    """
    right = total = 0
    for pair in run.config.data.load().test[:count]:
        first, second, *expected = pair.target
        mistake = next(letter for letter in pair.target if letter != second)
        prefix = first + mistake
        (output,) = run.predict([pair.source], beam=1, prefix=prefix)
        right += sum(map(str.__eq__, expected, output.text[2:]))
        total += len(expected)
    return right / total


KEYS = 64
SCALING_CLAIM = (
    "If queries and keys have entries with mean 0 and deviation 1, the variance of their dot product grows with the "
    "width. Its softmax becomes one-hot and passes no gradient. Divided by the root of the width, variance, entropy "
    "and gradient stay constant (Vaswani 2017, section 3.2.1)."
)
SOFTMAX_MEASURES: dict[str, tuple[str, Scales]] = {
    "variance of scores": ("", ("log", "log")),
    "entropy of weights": ("nats, of at most 4.16", ("log", "linear")),
    "norm of the derivative": ("", ("log", "log")),
}
"""The unit and the scales of each measure."""


def scaling(setting: Setting) -> Finding:
    """Measure scores, weights and their derivative by the width.

    Means over many queries with 64 keys each.
    """
    largest, queries = (13, 4096) if setting.full else (10, 512)
    scores = {"dot": Dot(), "scaled dot": ScaledDot()}
    generator = torch.Generator().manual_seed(1)
    rows = []
    for power in range(2, largest + 1):
        width = 2**power
        query = torch.randn(queries, 1, width, generator=generator)
        key = torch.randn(queries, KEYS, width, generator=generator)
        for name, score in scores.items():
            values = score(query, score.prepare(key))[:, 0]
            rows.append((name, width, *measure_softmax(values)))
    charts = [
        Chart(title, "width", unit, collect_lines(rows, 1, 1, y), scales)
        for y, (title, (unit, scales)) in enumerate(SOFTMAX_MEASURES.items(), 2)
    ]
    columns = ("score", "width", *SOFTMAX_MEASURES)
    return Finding(SCALING_CLAIM, columns, rows, charts)


def measure_softmax(scores: Tensor) -> tuple[float, float, float]:
    """Measure scores `(query, key)` and their softmax a.

    Returns:
        The variance of the scores, the entropy of a, and the norm of its derivative,
        |diag(a) - a a^T|.
    """
    scores = scores.double()
    weights = scores.softmax(-1)
    entropy = torch.special.entr(weights).sum(-1)
    squares = weights.square().sum(-1)
    cubes = weights.pow(3).sum(-1)
    # the squared entries of diag(a) - a a^T, summed: sum a_i^2 - 2 sum a_i^3 + (sum a_i^2)^2
    total = squares - 2 * cubes + squares.square()
    derivative = total.clamp(min=0).sqrt()
    return float(scores.var()), float(entropy.mean()), float(derivative.mean())


WORDS = 50
GRADIENTS_CLAIM = (
    "Without attention, the gradient of a loss at a source position passes through every recurrent step between them "
    "and shrinks with the distance. Attention connects each output step directly to each position, so that all "
    "positions learn."
)


def gradients(setting: Setting) -> Finding:
    """Measure gradient norms of the first output token at each source embedding.

    They are means over untrained models and sentences, by distance from the end.
    """
    length, seeds = (200, 10) if setting.full else (50, 5)
    lines = {}
    positions = [float(distance) for distance in range(length)]
    for cell, name in (("tanh", "tanh"), ("gru", "GRU")):
        sizes: Any = {"cell": cell, "embedding": 64, "width": 64}
        models = {
            "no attention": BottleneckConfig(**sizes),
            "attention": LuongConfig(
                **sizes, layers=1, score="scaled-dot", dropout=0.0
            ),
        }
        for kind, config in models.items():
            norms = []
            for seed in range(seeds):
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(seed)
                    model = MODELS.build(config, WORDS, WORDS)
                    norms.append(gradient_norms(model, length))
            mean = torch.stack(norms).mean(0)
            mean = mean.flip(0)  # the last source position first
            points = zip(positions, mean.tolist(), strict=True)
            lines[f"{name}, {kind}"] = list(points)
    rows = []
    distances = {round(length * share / 10) for share in range(10)}
    for distance in sorted(distances):
        points = [line[distance] for line in lines.values()]
        rows.append((distance, *(norm for _, norm in points)))
    column = "steps before the end"
    title = "gradient at a source position"
    chart = Chart(title, column, "norm", lines, ("linear", "log"))
    return Finding(GRADIENTS_CLAIM, (column, *lines), rows, [chart])


def gradient_norms(model: EncoderDecoder, length: int, batch: int = 16) -> Tensor:
    """Return the gradient norm `(position,)` of the first target token's loss."""
    embedded: list[Tensor] = []
    embedding = model.encoder.get_submodule("embedding")
    embedding.register_forward_hook(lambda *call: embedded.append(call[-1]))
    source = torch.randint(4, WORDS, (batch, length))
    lengths = torch.full((batch,), length)
    target = torch.full((batch, 1), SPECIAL.start)
    expected = torch.randint(4, WORDS, (batch, 1))
    features = model.features(source, lengths, target)
    total, _ = model.decoder.output.loss(features, expected)
    (gradient,) = torch.autograd.grad(total, embedded[0])
    return gradient.norm(dim=-1).mean(0)
