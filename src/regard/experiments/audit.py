"""Is attention an explanation of a model? Effects are compared with weights, and weights are replaced.

The questions are those of Jain and Wallace (2019, 1902.10186) and of Wiegreffe and Pinter (2019, 1908.04626).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from operator import ne
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from regard.attention.intervene import Ablate, Change, Force, Place, Uniform, intervene
from regard.attention.record import record
from regard.attribution.attention import run_forced
from regard.attribution.effects import list_heads
from regard.attribution.kinds import KIND_NAMES, WHOLE_MODEL, Kind
from regard.data.pairs import Pair
from regard.decoding.texts import encode_pairs
from regard.errors import InputError
from regard.experiments.sweep import Finding, Setting
from regard.maps.alignment import TextWeights
from regard.nn.decoders import EncoderDecoder
from regard.pictures.chart import Grid
from regard.shapes import Float
from regard.storage.run_folder import RESULT
from regard.tasks.attribution import shorten_title

EXAMPLES = 50
"""The examples of an audit by default."""
NEEDED = 0.1
"""The least effect, in nats, of an input that an output needs."""
HEADS = 32
"""The most heads that are switched off in turn."""
ADVERSARIES = 5
"""The examples for which other weights with the same output are searched."""
SAME_OUTPUT = 0.01
"""The largest divergence of an output's distribution that counts as none, in nats."""
MISLED = 8
"""The outputs that are listed, whose greatest weight is on another input than needed."""


class Shuffle(Change):
    """Each query's weights are permuted among the keys that it may read."""

    def apply(
        self, weights: Tensor, allowed: Tensor, marks: Tensor, place: Place
    ) -> Tensor:
        generator = torch.Generator().manual_seed(place.first_query)
        noise = torch.rand(weights.shape, generator=generator).to(weights.device)
        allowed = allowed.expand(weights.shape)
        taken = noise.masked_fill(~allowed, 2.0).argsort(-1)
        positions = (~allowed).long().argsort(dim=-1, stable=True)
        return torch.zeros_like(weights).scatter(
            -1, positions, weights.gather(-1, taken)
        )


@dataclass
class Agreement:
    """How well a kind of map agrees with effects, over all outputs that need an input.

    Attributes:
        correlations: The rank correlation of each output's row with its effects.
        hits: Whether the greatest number of the row is on the input that is needed most.
    """

    correlations: list[float] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)

    def add(self, row: np.ndarray, effects: np.ndarray) -> None:
        """Compare a row with the effects of the same inputs."""
        self.correlations.append(correlate_ranks(row, effects))
        self.hits.append(bool(row.argmax() == effects.argmax()))


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        outputs: The number of outputs, and of those that need an input.
        kinds: The agreement of each kind of map with effects.
        chance: The share of hits of a random choice.
        changed: The share of predictions that change, by what is done to the weights.
        heads: The share that changes without one head, by its name.
        adversaries: Divergences of weights that write the same output; at most log 2.
        misled: The outputs whose greatest weight is on another input than the one
            needed, as cells of a table.
    """

    outputs: tuple[int, int]
    kinds: Mapping[Kind, Agreement]
    chance: float
    changed: Mapping[str, float]
    heads: Mapping[str, float]
    adversaries: Sequence[float]
    misled: Sequence[tuple[str, ...]]

    @property
    def verdict(self) -> str:
        """The answer in words."""
        hits = np.mean(self.kinds["weights"].hits or [0.0])
        moved = self.changed["shuffled weights"]
        if not self.outputs[1]:
            answer = "No output needs any single input, so the weights explain nothing that can be tested."
        elif hits >= 0.8 and moved >= 0.5:
            answer = "Yes: the weights point at what the output needs, and other weights change the output."
        elif moved < 0.1:
            answer = "No: the output hardly depends on where the model attends."
        elif hits < 0.5:
            answer = "No: the output depends on the attention, but mostly not on the input with the greatest weight."
        else:
            answer = "Partly: the greatest weight is often on the needed input, but not always."
        further = ""
        if self.adversaries:
            further = (
                f" Searched for, weights that diverge from the model's by {np.mean(self.adversaries):.2f} of at most "
                f"{np.log(2):.2f} write the same output."
            )
        return (
            f"{answer} Of {self.outputs[1]} outputs that need an input, the greatest weight is on the one needed most "
            f"for {100 * hits:.0f} % (by chance {100 * self.chance:.0f} %). Shuffled weights change "
            f"{100 * moved:.0f} % of the predictions, uniform ones {100 * self.changed['uniform weights']:.0f} %."
            f"{further}"
        )

    def tables(self) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        """Return columns and rows by title."""
        kinds = [
            (
                KIND_NAMES[kind],
                f"{np.mean(item.correlations):.2f}",
                f"{100 * np.mean(item.hits):.0f}",
            )
            for kind, item in self.kinds.items()
            if item.hits
        ]
        heads = sorted(self.heads.items(), key=lambda item: -item[1])
        tables = {
            "Which kind of map finds the input that is needed": (
                (
                    "map",
                    "rank correlation with effects",
                    "greatest number on the needed input, %",
                ),
                kinds,
            ),
            "Predictions that change with other weights": (
                ("weights", "changed, %"),
                [(name, f"{100 * share:.0f}") for name, share in self.changed.items()],
            ),
            "Predictions that change without one head": (
                ("head", "changed, %"),
                [(name, f"{100 * share:.0f}") for name, share in heads],
            ),
        }
        if self.adversaries:
            tables["Other weights that write the same output"] = (
                ("example", "divergence from the model's weights (at most 0.69)"),
                [
                    (str(number), f"{value:.2f}")
                    for number, value in enumerate(self.adversaries, 1)
                ],
            )
        if self.misled:
            tables["Where the greatest weight misleads"] = (
                ("example", "output", "greatest weight on", "needs", "nats"),
                list(self.misled),
            )
        return tables

    def page(self, name: str) -> str:
        """Return a self-contained page about the run of a name."""
        parts = []
        for title, (columns, rows) in self.tables().items():
            lines = [columns, *rows]
            body = "".join(
                "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>"
                for line in lines
            )
            parts.append(f"<h2>{escape(title)}</h2><table>{body}</table>")
        heading = escape(f"Does attention explain {name}?")
        return PAGE.format(
            title=heading, verdict=escape(self.verdict), body="\n".join(parts)
        )


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse }} td {{ padding: .2rem 1rem .2rem 0; border-bottom: 1px solid #8885 }}
tr:first-child td {{ font-weight: 600 }} p {{ font-size: 1.1rem }}
</style></head><body><h1>{title}</h1><p>{verdict}</p>
{body}
</body></html>
"""


def correlate_ranks(first: np.ndarray, second: np.ndarray) -> float:
    """Return Spearman's correlation of two rows; 0 for a constant one."""
    ranks = []
    for row in (first, second):
        ordered = np.sort(row)
        rank = np.searchsorted(ordered, row)
        rank = rank + np.searchsorted(ordered, row, "right")
        ranks.append(rank - rank.mean())
    size = float(np.prod([np.linalg.norm(rank) for rank in ranks]))
    return float(np.dot(*ranks)) / size if size else 0.0


def audit(
    run: Any, examples: Sequence[Any], say: Callable[[str], object] = lambda line: None
) -> Audit:
    """Compare effects with weights, and replace weights.

    Args:
        run: A run with effects: an encoder-decoder that attends to its source, or a classifier of rows of texts.
        examples: The inputs of predictions.
        say: Told what is done next.

    Raises:
        InputError: The run has no effects, or there is no example.
    """
    names = attention_names(run)
    if not examples:
        raise InputError("there is no example to audit; name files")
    say(f"effects of {len(examples)} examples")
    kinds: dict[Kind, Agreement] = {}
    for kind in get_args(Kind):
        if kind in run.kinds and kind not in ("effect", "integrated"):
            kinds[kind] = Agreement()
    misled: list[tuple[float, tuple[str, ...]]] = []
    outputs, chances = 0, []
    for example in examples:
        weights = run.attribute(example, kinds=["weights"])
        if weights.rows == ():
            continue  # nothing is predicted that an effect explains
        maps = {}
        for kind in kinds:
            attribution = weights
            if kind != "weights":
                attribution = run.attribute(example, kinds=[kind])
            maps[kind], _ = read_map(attribution, kind)
        attribution = run.attribute(example, kinds=["effect"])
        effects, (inputs, targets) = read_map(attribution, "effect")
        outputs += len(effects)
        for index, row in enumerate(effects):
            if row.max(initial=0.0) < NEEDED:
                continue
            chances.append(1 / len(row))
            for kind, matrix in maps.items():
                kinds[kind].add(matrix[index], row)
            strongest = maps["weights"][index].argmax()
            needed = row.argmax()
            effect = float(row[needed])
            if strongest != needed:
                cells = (
                    shorten_title(str(example)),
                    targets[index],
                    f"{inputs[strongest]} ({strongest + 1})",
                    f"{inputs[needed]} ({needed + 1})",
                    f"{effect:.1f}",
                )
                misled.append((effect, cells))
    say("predictions with other weights")
    before = [item.text for item in run.predict(examples)]

    def share(change: Change, only: Any) -> float:
        with intervene(run.model, change, only=only):
            after = [item.text for item in run.predict(examples)]
        is_changed = map(ne, before, after)
        return float(np.mean([*is_changed]))

    changed = {
        "shuffled weights": share(Shuffle(), names),
        "uniform weights": share(Uniform(), names),
    }
    with record(run.model, names) as recorded:
        run.predict(examples[:1])
    heads = {
        f"{name}, head {head}": share(Ablate(heads=[head]), name)
        for name, head in list_heads(recorded)[:HEADS]
    }
    adversaries = []
    if isinstance(run.model, EncoderDecoder):
        say("other weights with the same output")
        adversaries = [
            find_adversary(run, names, example) for example in examples[:ADVERSARIES]
        ]
    rows = [cells for _, cells in sorted(misled, reverse=True)[:MISLED]]
    chance = float(np.mean(chances or [0.0]))
    return Audit(
        (outputs, len(chances)), kinds, chance, changed, heads, adversaries, rows
    )


def attention_names(run: Any) -> list[str]:
    """Return patterns of the modules whose attention is audited.

    Raises:
        InputError: The run has no effects.
    """
    if not run.effect_modules:
        raise InputError(
            f"a run of the task {run.config.task} cannot be audited; an encoder-decoder that attends to its source "
            "can, and a classifier or tagger with self-attention"
        )
    return list(run.effect_modules)


def read_map(
    attribution: Any, kind: Kind
) -> tuple[Float[np.ndarray, "_output _input"], tuple[Any, Any]]:
    """Return the map of outputs by inputs of one kind, and the labels of both."""
    weights = attribution.weights
    if isinstance(weights, TextWeights):
        return weights.weights[None], (weights.labels, [attribution.prediction.text])
    lookups = attribution.lookups[0]
    matrix = np.asarray(lookups.weights[0, 0] if kind == "effect" else weights.weights)
    if kind not in WHOLE_MODEL and attribution.rows is not None:
        matrix = matrix[list(attribution.rows)]
    return matrix, (lookups.source, lookups.target)


def find_adversary(run: Any, names: list[str], example: Any, steps: int = 60) -> float:
    """Return how far weights can be from the model's own and still write the same output.

    It is the mean Jensen-Shannon divergence of the weights, found by gradient descent under the condition that the
    distribution of each output token changes by at most `SAME_OUTPUT`.
    """
    model = run.model
    (prediction,) = run.predict([example])
    pairs = [Pair(example, prediction.text, "audit")]
    (pair,) = encode_pairs(model, run.tokenizers, pairs)
    with torch.no_grad():
        batch, recorded = run_forced(model, [pair], record(model, names))
        inputs = batch.source, batch.source_lengths, batch.target_in
        base = model(*inputs).log_softmax(-1)
    weights = dict(recorded)
    guesses = {
        name: (item + 1e-4).log().requires_grad_() for name, item in weights.items()
    }
    optimizer = torch.optim.Adam(guesses.values(), 0.3)
    best = 0.0
    for _ in range(steps):
        forced = {name: item.softmax(-1) for name, item in guesses.items()}
        with torch.enable_grad(), intervene(model, Force(weights=forced), only=names):
            output = model(*inputs).log_softmax(-1)
        terms = functional.kl_div(output, base, log_target=True, reduction="none")
        change = terms.sum(-1).max()
        distances = map(diverge, weights.values(), forced.values())
        distance = torch.stack([*distances]).mean()
        if change.item() <= SAME_OUTPUT:
            best = max(best, distance.item())
        excess = functional.relu(change - SAME_OUTPUT / 2)
        loss = 100 * excess - distance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return best


def diverge(first: Tensor, second: Tensor) -> Float[Tensor, ""]:
    """Return the mean Jensen-Shannon divergence of rows of weights, in nats."""
    middle = (first + second) / 2
    middle = middle.clamp(min=1e-9)
    parts = []
    for rows in (first, second):
        ratios = (rows / middle).clamp(min=1e-9)
        terms = torch.special.xlogy(rows, ratios)
        parts.append(terms.sum(-1))
    total = torch.stack(parts).sum(0)
    return total.mean() / 2


CLAIM = (
    "Attention weights do not always show what an output needs. An effect is the log-probability that an output loses "
    "where the model cannot attend to an input. The table has how each kind of map agrees with effects, over outputs "
    "that need an input: the rank correlation over all inputs, and how often the greatest number is on the input that "
    "is needed most."
)
RECIPES: dict[str, tuple[str, list[str]]] = {
    "dates, Bahdanau": ("dates", []),
    "dates, Transformer": ("dates-transformer", ["training.steps=1500"]),
    "letters, Luong": ("letters", []),
    "bitext, Luong": ("bitext", []),
    "questions, one pass": ("questions", ["training.steps=2000"]),
    "names, LSTM": ("names", []),
    "pronouns, BERT": ("pronouns", []),
}


def effects(setting: Setting) -> Finding:
    """Compare kinds of maps with effects on recipes whose data are generated.

    Other runs in the folder of trained runs become rows too, named by their folders.
    """
    rows, shares = [], {}
    for recipe, settings in RECIPES.values():
        setting.train(recipe, recipe, settings)
    names = {recipe: name for name, (recipe, _) in RECIPES.items()}
    for path in sorted(setting.folder.glob(f"*/{RESULT}")):
        names.setdefault(path.parent.name, path.parent.name)
    for folder, name in names.items():
        run = setting.run(folder)
        examples = [
            run.input_of(item)
            for item in run.config.data.load().test[: EXAMPLES if setting.full else 20]
        ]
        result = audit(run, examples)
        shuffled, uniform = (100 * share for share in result.changed.values())
        shares[name] = []
        for kind, item in result.kinds.items():
            hits = 100 * float(np.mean(item.hits or [0.0]))
            correlation = float(np.mean(item.correlations or [0.0]))
            rows.append(
                (
                    name,
                    kind,
                    f"{result.outputs[1]} of {result.outputs[0]}",
                    correlation,
                    hits,
                    100 * result.chance,
                    shuffled,
                    uniform,
                )
            )
            shares[name].append(hits)
    columns = (
        "model",
        "map",
        "outputs that need an input",
        "rank correlation",
        "on the needed input, %",
        "by chance, %",
        "changed by shuffled weights, %",
        "by uniform weights, %",
    )
    title = "greatest number on the input that is needed most, %"
    return Finding(
        CLAIM,
        columns,
        rows,
        [Grid(title, "0: weights, 1: gradient, 2: norms, 3: rollout", shares)],
    )
