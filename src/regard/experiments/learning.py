"""What is learned, and how fast: scores and alignments, languages, teacher forcing, scaling, gradients."""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from regard.attention.scores import Dot, ScaledDot
from regard.data.batches import collate
from regard.data.pairs import Pair
from regard.experiments.sweep import Finding, Lines, Setting, Variant, sweep
from regard.models.attention import ALIGNS, SCORES
from regard.models.bottleneck import BottleneckConfig
from regard.models.catalog import build
from regard.models.luong import LuongConfig
from regard.nn.encoder_decoder import EncoderDecoder
from regard.pictures.chart import Chart, Scales
from regard.tasks.capabilities import EncodesPairs
from regard.text.special import SPECIAL

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
    steps = (*STEPS, 1200, 2400) if setting.full else STEPS
    parts = {
        "score": ("scores, soft", list(SCORES)),
        "align": (
            "alignments, general score",
            [name for name in ALIGNS if name != "softmax"],
        ),
    }
    rows, charts = [], []
    for part, (title, names) in parts.items():
        models = {}
        for name in names:
            settings = [f"model.{part}={name}", "model.window=4", *EXTRA.get(name, ())]
            models[name] = Variant("dates-luong", f"{part}-{name}", settings)
        lines: Lines = {}
        for name, count, _, result in sweep(setting, models, steps):
            score = result["test/exact-match"]
            rows.append((part, name, count, score, result["seconds"]))
            lines.setdefault(name, []).append((float(count), score))
        charts.append(Chart(title, "updates", "exact match, %", lines))
    columns = ("part", "name", "updates", "exact match, %", "seconds")
    return Finding(VARIANTS_CLAIM, columns, rows, charts)


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
    steps = (50, 100, 200, 400, 800) if setting.full else (100, 200, 400)
    rows: list[tuple] = []
    lines: Lines = {}
    for task, (recipe, settings) in TASKS.items():
        models = {}
        for score in COMPARED_SCORES:
            overrides = [*settings, f"model.score={score}", "data.test=500"]
            models[score] = Variant(recipe, f"{recipe}-{score}", overrides)
        for score, count, _, result in sweep(setting, models, steps):
            match = result["test/exact-match"]
            rows.append((task, score, count, match, result["seconds"]))
            lines.setdefault(f"{task}, {score}", []).append((float(count), match))
    chart = Chart("exact match", "updates", "right, %", lines)
    columns = ("task", "score", "updates", "exact match, %", "seconds")
    return Finding(LANGUAGES_CLAIM, columns, rows, [chart])


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
    steps = (100, 200, 400, 600, 1200) if setting.full else (100, 200, 400, 600)
    models = {
        name: Variant("dates-luong", name.replace(" ", "-"), overrides)
        for name, overrides in WAYS.items()
    }
    rows: list[tuple] = []
    matches: Lines = {}
    recoveries: Lines = {}
    for name, count, run, result in sweep(setting, models, steps):
        match = result["test/exact-match"]
        recovery = 100 * score_after_mistake(setting.run(run))
        rows.append((name, count, match, recovery, result["seconds"]))
        matches.setdefault(name, []).append((float(count), match))
        recoveries.setdefault(name, []).append((float(count), recovery))
    columns = (
        "training",
        "updates",
        "exact match, %",
        "right after a mistake, %",
        "seconds",
    )
    charts = [
        Chart("dates", "updates", columns[2], matches),
        Chart("tokens after a wrong one", "updates", columns[3], recoveries),
    ]
    return Finding(FORCING_CLAIM, columns, rows, charts)


@torch.no_grad()
def score_after_mistake(run: EncodesPairs, count: int = 200) -> float:
    """Return the share of correct tokens after a wrong second one.

    The second output token is replaced by a wrong one, and the model continues alone.
    """
    pairs = cast(Sequence[Pair], run.config.data.load().test)[:count]
    tokenizers, model = run.tokenizers, run.model
    right = total = 0
    for pair in pairs:
        source, target = (
            tokenizers.source_ids(pair.source),
            tokenizers.target_ids(pair.target, pair.source),
        )
        batch = collate([(source, target)])
        state = model.decoder.start(model.encoder(batch.source, batch.source_lengths))
        mistake = next(token for token in target if token != target[1])
        token_in = batch.target_in[:, 0]
        for place, token in enumerate(target):
            logits, state = model.decoder.step(token_in, state)
            prediction = logits.argmax(-1)
            if place >= 2:
                right, total = right + (int(prediction) == token), total + 1
            token_in = (
                prediction if place > 1 else torch.tensor([mistake if place else token])
            )
    return right / total


KEYS = 64
SCALING_CLAIM = (
    "If queries and keys have entries with mean 0 and deviation 1, the variance of their dot product grows with the "
    "width. Its softmax becomes one-hot and passes no gradient. Divided by the root of the width, variance, entropy "
    "and gradient stay constant (Vaswani 2017, section 3.2.1)."
)


def scaling(setting: Setting) -> Finding:
    """Measure scores, weights and their derivative by the width.

    Means over many queries with 64 keys each.
    """
    widths = [2**power for power in range(2, 14 if setting.full else 11)]
    queries = 4096 if setting.full else 512
    generator = torch.Generator().manual_seed(1)
    rows = []
    for width in widths:
        query = torch.randn(queries, 1, width, generator=generator)
        key = torch.randn(queries, KEYS, width, generator=generator)
        for name, score in (("dot", Dot()), ("scaled dot", ScaledDot())):
            rows.append(
                (name, width, *measure_softmax(score(query, score.prepare(key))[:, 0]))
            )
    names = "variance of scores", "entropy of weights", "norm of the derivative"
    charts = [
        Chart(title, "width", unit, collect_lines(rows, 2 + number), scales)
        for number, (title, unit, scales) in enumerate(
            zip(
                names,
                ("", f"nats, of at most {math.log(KEYS):.2f}", ""),
                SCALES,
                strict=True,
            )
        )
    ]
    return Finding(SCALING_CLAIM, ("score", "width", *names), rows, charts)


SCALES: tuple[Scales, ...] = (("log", "log"), ("log", "linear"), ("log", "log"))


def measure_softmax(scores: torch.Tensor) -> tuple[float, float, float]:
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


def collect_lines(
    rows: list[tuple], column: int
) -> dict[str, list[tuple[float, float]]]:
    """Return a line per score: the column by width."""
    result: Lines = {}
    for row in rows:
        result.setdefault(row[0], []).append((float(row[1]), row[column]))
    return result


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
    lines = {
        name: average_norms(config, length, seeds) for name, config in CONFIGS.items()
    }
    places = sorted({round(length * share / 10) for share in range(10)})
    rows = [
        (place, *(float(gradient_norms[place]) for gradient_norms in lines.values()))
        for place in places
    ]
    points = {
        name: [(float(place), float(gradient_norms[place])) for place in range(length)]
        for name, gradient_norms in lines.items()
    }
    chart = Chart(
        "gradient at a source position",
        "steps before the end",
        "norm",
        points,
        ("linear", "log"),
    )
    return Finding(GRADIENTS_CLAIM, ("steps before the end", *lines), rows, [chart])


CONFIGS: dict[str, Any] = {
    "tanh, no attention": BottleneckConfig(cell="tanh", embedding=64, width=64),
    "GRU, no attention": BottleneckConfig(cell="gru", embedding=64, width=64),
    "tanh, attention": LuongConfig(
        cell="tanh", embedding=64, width=64, layers=1, score="scaled-dot", dropout=0.0
    ),
    "GRU, attention": LuongConfig(
        cell="gru", embedding=64, width=64, layers=1, score="scaled-dot", dropout=0.0
    ),
}


def average_norms(config: Any, length: int, seeds: int) -> Tensor:
    """Average the norms `(distance,)`, the last source position first."""
    norms = []
    for seed in range(seeds):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            norms.append(gradient_norms(build(config, WORDS, WORDS), length))
    return torch.stack(norms).mean(0).flip(0)


def gradient_norms(model: EncoderDecoder, length: int, batch: int = 16) -> Tensor:
    """Return the gradient norm `(position,)` of the first target token's loss."""
    embedded: list[Tensor] = []

    def keep(module: Any, inputs: Any, output: Tensor) -> None:
        output.retain_grad()
        embedded.append(output)

    source, target = (
        torch.randint(4, WORDS, (batch, length)),
        torch.full((batch, 1), SPECIAL.start),
    )
    handle = model.encoder.get_submodule("embedding").register_forward_hook(keep)
    expected = torch.randint(4, WORDS, (batch, 1))
    total, _ = model.decoder.output.loss(
        model.features(source, torch.full((batch,), length), target), expected
    )
    total.backward()
    handle.remove()
    gradient = embedded[0].grad
    assert gradient is not None
    return gradient.norm(dim=-1).mean(0)
