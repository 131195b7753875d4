"""What models represent: word alignments, heads, and word senses."""

from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.heads import MultiHead
from regard.attention.masks import padding
from regard.attention.record import record
from regard.data.batches import collate
from regard.data.pairs import Pair
from regard.decoding.texts import encode_pairs
from regard.experiments.sweep import Finding, Lines, Setting, Variant, sweep
from regard.maps.links import Gold, link_strongest, score_links, score_maps
from regard.maps.reductions import average_heads
from regard.pictures.chart import Chart, Grid
from regard.runs.load import load
from regard.tasks.capabilities import (
    Aligns,
    EncodesPairs,
    GivesLayers,
    require_capability,
)
from regard.tasks.run import Run

ALIGNMENT_CLAIM = (
    "Attention learns word alignments without alignments in its training data. The table has error rates on generated "
    "sentences with known alignments; each target word is linked to its source word of greatest weight. The weights "
    "are the mean of all layers and heads, the single map that is best on the validation set, and the mean shifted by "
    "one step in either direction."
)
ALIGNER_TRANSFORMER = (
    "model={name: transformer, layers: 2, width: 96, hidden: 192, heads: 4,"
    " shared: false, dropout: 0.1}"
)
BAHDANAU = (
    "model={{name: bahdanau, embedding: 64, width: 96, attention: 64, maxout: 64,"
    " cell: gru, history: {history}}}"
)
ALIGNERS = {
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
    "Transformer": [ALIGNER_TRANSFORMER, "training.learning_rate=2e-3"],
    "Transformer, guided": [
        ALIGNER_TRANSFORMER,
        "training.learning_rate=2e-3",
        "attention_losses.guided=0.3",
    ],
}
AER = tuple(
    f"AER of {name}, %"
    for name in ("the mean", "the best map", "the step before", "the step after")
)


def alignment(setting: Setting) -> Finding:
    """Compare alignment error rates of mechanisms, by the number of updates."""
    steps = (150, 300, 600, 1200, 2400) if setting.full else (200, 600)
    columns = "mechanism", "updates", "exact match, %", *AER, "seconds"
    models = {}
    for name, overrides in ALIGNERS.items():
        slug = "".join(char if char.isalnum() else "-" for char in name.lower())
        models[name] = Variant("bitext", slug, ["data.test=500", *overrides])
    rows: list[tuple] = []
    lines: Lines = {}
    for name, count, run, result in sweep(setting, models, steps):
        errors = [100 * error for error in alignment_errors(setting.run(run))]
        match = result["test/exact-match"]
        rows.append((name, count, match, *errors, result["seconds"]))
        lines.setdefault(name, []).append((float(count), errors[1]))
    chart = Chart(
        "alignment of the best map",
        "updates",
        "alignment error rate, %",
        lines,
        ("linear", "log"),
    )
    return Finding(ALIGNMENT_CLAIM, columns, rows, [chart])


def alignment_errors(run: Aligns) -> tuple[float, ...]:
    """Return the error rates on the test set that `AER` names."""
    splits = run.config.data.load()
    choosing, measuring = run.word_maps(splits.valid), run.word_maps(splits.test)
    validated = score_maps(choosing, [gold_links(pair) for pair in splits.valid])
    gold = [gold_links(pair) for pair in splits.test]
    best = score_maps(measuring, gold)[validated.index(min(validated))]
    means = [average_heads(maps) for maps in measuring]
    same, before, after = (
        score_links(
            [link_strongest(shift_rows(weights, steps)) for weights in means], gold
        ).aer
        for steps in (0, 1, -1)
    )
    return same, best, before, after


def shift_rows(
    weights: Float[np.ndarray, "target source"], steps: int
) -> Float[np.ndarray, "target source"]:
    """Each target word with the weights of the word `steps` before it; words at one end have zeros."""
    rows = np.roll(weights, steps, axis=0)
    rows[: max(0, steps)] = 0.0
    rows[len(rows) + min(0, steps) :] = 0.0
    return rows


def gold_links(pair: Pair) -> Gold:
    """Return the pair's own links, all of them sure."""
    assert pair.links is not None
    return Gold(pair.links, pair.links)


HEADS_CLAIM = (
    "The heads of a trained Transformer attend to different things. Removing one head costs nothing for some heads, "
    "some accuracy for others, and nearly all of it for a few."
)
SENTENCES = 200
"""The number of sentences whose weights are averaged."""
OFFSETS = {"the one before": -1, "itself": 0, "the one after": 1}
CHARACTER_KINDS = "letters", "digits", "marks", "start or end"
READ = *OFFSETS, *CHARACTER_KINDS
"""The columns of each head's weights."""


def heads(setting: Setting) -> Finding:
    """Measure what each head of the Transformer of dates attends to.

    The table has the share of its weight on neighbors and kinds of characters, in per
    cent, and greedy exact match on test dates without the head.
    """
    setting.train(
        "dates-transformer",
        "dates-transformer",
        ["training.steps=3000"] if setting.full else [],
    )
    run = setting.run("dates-transformer")
    pairs = run.config.data.load().test[: None if setting.full else 500]
    complete = run.evaluate(pairs, beam=1)["exact-match"]
    read = measure_heads(run, pairs[:SENTENCES])
    rows, lost = [], {}
    for name, module in run.model.named_modules():
        if isinstance(module, MultiHead):
            scores = [
                evaluate_without(run, pairs, module, head)
                for head in range(module.heads)
            ]
            for head, figure in enumerate(scores):
                percent = {
                    kind: 100 * share for kind, share in read[name][head].items()
                }
                rows.append(
                    (
                        name,
                        head,
                        *(percent.get(kind, "") for kind in READ),
                        figure,
                        figure - complete,
                    )
                )
            lost[name] = [max(0.0, complete - figure) for figure in scores]
    chart = Grid(
        f"answers lost without one head, %; with all {complete:.4g} are right",
        "head",
        lost,
    )
    columns = (
        "attention",
        "head",
        *(f"{kind}, %" for kind in READ),
        "exact match without it, %",
        "difference",
    )
    return Finding(HEADS_CLAIM, columns, rows, [chart])


@torch.no_grad()
def measure_heads(
    run: EncodesPairs, pairs: Sequence[Pair]
) -> dict[str, list[dict[str, float]]]:
    """Measure the shares of weight of each attention and head in forced decoding.

    The shares are on kinds of characters and, in self-attention, on the neighbors of
    each position.
    """
    tokens = encode_pairs(run.model, run.tokenizers, pairs)
    batch = collate(tokens)
    with record(run.model) as maps:
        run.model(batch.source, batch.source_lengths, batch.target_in)
    source = padding(batch.source_lengths, batch.source.shape[1]).readable()
    target = padding(batch.target_lengths, batch.target_in.shape[1]).readable()
    texts = list(zip(tokens, (pair.source for pair in pairs), strict=True))
    sources = [
        [
            *map(character_kind, run.tokenizers.source_pieces(ids, text)),
            CHARACTER_KINDS[-1],
        ]
        for (ids, _), text in texts
    ]
    targets = [
        [
            CHARACTER_KINDS[-1],
            *map(character_kind, run.tokenizers.target_pieces(ids, text)),
        ]
        for (_, ids), text in texts
    ]
    read, written = characters(sources), characters(targets)
    roles = {
        "encoder": (source, neighbors(source.shape[1]) | read),
        "decoder": (target, neighbors(target.shape[1]) | written),
        "cross": (target, read),
    }
    result = {}
    for name, weights in maps.items():
        queries, kinds = roles[
            "cross" if name.endswith("cross_attention") else name.partition(".")[0]
        ]
        counted = weights * queries[:, None, :, None]
        shares = torch.stack(
            [
                (counted * on[:, None]).sum((0, 2, 3)) / queries.sum()
                for on in kinds.values()
            ],
            -1,
        )
        result[name] = [dict(zip(kinds, head, strict=True)) for head in shares.tolist()]
    return result


def neighbors(size: int) -> dict[str, Bool[Tensor, "1 query key"]]:
    """For each neighbour: whether a key is that neighbour of a query."""
    place = torch.arange(size)
    return {
        name: (place - place[:, None])[None] == offset
        for name, offset in OFFSETS.items()
    }


def characters(
    kinds: Sequence[Sequence[str]],
) -> dict[str, Bool[Tensor, "sentence 1 key"]]:
    """For each kind: whether a key is a character of that kind. Padding is of none."""
    size = max(map(len, kinds))
    padded = [[*row, *[""] * (size - len(row))] for row in kinds]
    return {
        name: torch.tensor([[kind == name for kind in row] for row in padded])[:, None]
        for name in CHARACTER_KINDS
    }


def character_kind(piece: str) -> str:
    """Return the kind of a character."""
    return "digits" if piece.isdigit() else "letters" if piece.isalpha() else "marks"


@torch.no_grad()
def evaluate_without(
    run: Run[Any, Any], pairs: Sequence[Pair], module: MultiHead, head: int
) -> float:
    """Exact match without the head, whose rows of the output projection are set to 0."""
    weight = module.output.weight
    width = weight.shape[1] // module.heads
    original = weight[:, head * width : (head + 1) * width].clone()
    weight[:, head * width : (head + 1) * width] = 0.0
    try:
        return run.evaluate(pairs, beam=1)["exact-match"]
    finally:
        weight[:, head * width : (head + 1) * width] = original


CONTEXT_CLAIM = (
    "A static embedding has one vector for a word with two senses. The states of bidirectional models separate the "
    "senses. ELMo and BERT are trained on generated sentences in which each of six words occurs in two subjects, and "
    "are measured on newly sampled sentences of one form. 50 % is chance."
)
SUBJECTS = {
    "water": ("muddy deep wide", "fish river boat swimmer", "reached crossed left"),
    "money": (
        "rich careful new",
        "client clerk loan payment",
        "entered closed trusted",
    ),
    "animals": ("small wild grey", "cat owl hunter keeper", "chased fed heard"),
    "sport": ("young fast famous", "player team coach captain", "threw bought swung"),
    "months": (
        "early warm rainy",
        "april garden flower farmer",
        "welcomed awaited praised",
    ),
    "machines": (
        "rusty broken heavy",
        "engine mechanic wheel lever",
        "loosened bent replaced",
    ),
}
"""The adjectives, nouns and verbs of each subject."""
WORDS = {
    "bank": ("water", "money"),
    "bat": ("animals", "sport"),
    "spring": ("months", "machines"),
    "current": ("water", "machines"),
    "seal": ("animals", "machines"),
    "fall": ("months", "sport"),
}
FORMS = (
    "the {adjective} {noun} {verb} the {word}",
    "the {word} was there when the {noun} {verb} the {second}",
    "a {noun} {verb} the {word} of the {adjective} {second}",
)
"""The words that determine the sense come before the word, after it or on both
sides."""
MODELS = {
    "ELMo": (
        "elmo",
        "\n",
        "model={name: elmo, characters: 12, filters: [[2, 32], [3, 64]], projection: 64, cell: 128, dropout: 0.1, "
        "softmax: {kind: full}}",
    ),
    "BERT": (
        "bert",
        "\n\n",
        "model={name: bert, layers: 2, width: 64, heads: 4, hidden: 256, context: 24, dropout: 0.1, pooler: false, "
        "next_sentence: false}",
        "training.batch_tokens=2048",
    ),
}
"""The recipe of each model, the separator of texts in its file, and further
settings."""
Layers = Callable[[str], tuple[Sequence[str], Tensor]]
"""Maps a text to its words and the states of each, `(layer, word, width)`."""


def context(setting: Setting) -> Finding:
    """Cosines between a word's states by layer, and how often states of one sense are closer than those of two."""
    sentences, steps = 4000, 2000 if setting.full else 400
    setting.folder.mkdir(parents=True, exist_ok=True)
    rate = ["training.learning_rate=3e-3", "training.warmup=50"]
    rows, lines = [], {}
    for name, (recipe, between, *model) in MODELS.items():
        text = setting.folder / f"{recipe}.txt"
        text.write_text(
            between.join(generate_sentences(sentences, 1)) + "\n", encoding="utf-8"
        )
        settings = [f"data.train={text}", *model, f"training.steps={steps}", *rate]
        result = setting.train(recipe, recipe, settings)
        layers = require_capability(
            load(setting.folder / recipe), GivesLayers, setting.folder / recipe
        ).layers
        layer_scores = zip(*measure_similarities(layers), strict=True)
        means = [
            tuple(sum(values) / len(values) for values in zip(*scores, strict=True))
            for scores in layer_scores
        ]
        rows += [
            (name, layer or "0, static", *mean, result["seconds"])
            for layer, mean in enumerate(means)
        ]
        lines[name] = [(float(layer), mean[2]) for layer, mean in enumerate(means)]
    columns = (
        "model",
        "layer",
        "cosine, same sense",
        "cosine, other sense",
        "same sense nearer, %",
        "seconds",
    )
    return Finding(
        CONTEXT_CLAIM,
        columns,
        rows,
        [Chart("senses distinguished", "layer", "nearer, %", lines)],
    )


def generate_sentences(count: int, seed: int) -> list[str]:
    """Sentences about all subjects, each with an ambiguous word."""
    random = Random(seed)
    words = random.choices(list(WORDS), k=count)
    return [
        generate_sentence(
            word, random.choice(WORDS[word]), random.choice(FORMS), random
        )
        for word in words
    ]


def generate_sentence(word: str, subject: str, form: str, random: Random) -> str:
    """Generate a sentence in which a word has the sense of a subject."""
    adjectives, nouns, verbs = (part.split() for part in SUBJECTS[subject])
    adjective, noun, verb, second = (
        random.choice(part) for part in (adjectives, nouns, verbs, nouns)
    )
    return form.format(
        word=word, adjective=adjective, noun=noun, verb=verb, second=second
    )


def measure_similarities(
    layers: Layers, count: int = 10
) -> list[list[tuple[float, float, float]]]:
    """For each word and form of sentence: `compare_groups` of each layer, with `count` sentences per sense."""
    random, result = Random(2), []
    for word, form in product(WORDS, FORMS):
        groups = []
        for subject in WORDS[word]:
            texts = [
                layers(generate_sentence(word, subject, form, random))
                for _ in range(count)
            ]
            groups.append(
                torch.stack(
                    [states[:, list(words).index(word)] for words, states in texts], 1
                )
            )
        result.append([compare_groups(group) for group in zip(*groups, strict=True)])
    return result


def compare_groups(groups: Sequence[Tensor]) -> tuple[float, float, float]:
    """Compare groups of vectors `(vector, width)` by their cosines.

    Returns:
        The mean cosine within groups, the mean cosine between groups, and the per cent
        of comparisons in which a vector is closer to one of its group; ties count half.
    """
    units = [torch.nn.functional.normalize(group.double(), dim=-1) for group in groups]
    across = units[0] @ units[1].t()
    same, nearer = [], []
    for unit, between in zip(units, (across, across.t()), strict=True):
        within = unit @ unit.t()
        is_pair = ~torch.eye(len(unit), dtype=torch.bool)
        pairs = within[is_pair].view(len(unit), -1)
        difference = pairs[:, :, None] - between[:, None]
        is_tie = difference.abs() < 1e-9
        same.append(pairs.mean())
        wins = ((difference > 0) & ~is_tie).double().mean()
        nearer.append(wins + 0.5 * is_tie.double().mean())
    return float(sum(same) / 2), float(across.mean()), 100 * float(sum(nearer) / 2)
