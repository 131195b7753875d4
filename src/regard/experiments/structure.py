"""What models represent: word alignments, heads, and word senses."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.attention.heads import MultiHead
from regard.attention.intervene import Ablate, intervene
from regard.attention.record import record
from regard.data.batches import collate
from regard.data.pairs import Pair
from regard.decoding.texts import encode_pairs
from regard.experiments.sweep import Finding, Setting
from regard.maps.links import Gold, link_strongest, score_links, score_maps
from regard.maps.reductions import average_heads
from regard.pictures.chart import Chart, Grid

ALIGNMENT_CLAIM = (
    "Attention learns word alignments without alignments in its training data. The table has error rates on generated "
    "sentences with known alignments; each target word is linked to its source word of greatest weight. The weights "
    "are the mean of all layers and heads, and the single map that is best on the validation set."
)
TRANSFORMER = [
    "model={name: transformer, layers: 2, width: 96, hidden: 192, heads: 4, shared: false, dropout: 0.1}",
    "training.learning_rate=2e-3",
]
BAHDANAU = (
    "model={{name: bahdanau, embedding: 64, width: 96, attention: 64, maxout: 64, cell: gru, "
    "history: {history}}}"
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
    "Transformer": TRANSFORMER,
    "Transformer, guided": [*TRANSFORMER, "attention_losses.guided=0.3"],
}
MAPS = "the mean", "the best map"


def alignment(setting: Setting) -> Finding:
    """Compare alignment error rates of mechanisms, by the number of updates."""
    return setting.compare(
        ALIGNMENT_CLAIM,
        ("mechanism",),
        {
            (name,): ("bitext", ["data.test=500", *settings])
            for name, settings in ALIGNERS.items()
        },
        (150, 300, 600, 1200, 2400) if setting.full else (200, 600),
        [f"AER of {name}, %" for name in MAPS],
        lambda run, result: alignment_errors(run),
    )


def alignment_errors(run: Any) -> list[float]:
    """Return the error rates of `MAPS` on the test set, in per cent."""
    splits = run.config.data.load()
    valid, test = (
        [Gold(pair.links, pair.links) for pair in pairs]
        for pairs in (splits.valid, splits.test)
    )
    valid_errors = score_maps(run.word_maps(splits.valid), valid)
    best = valid_errors.index(min(valid_errors))
    maps = run.word_maps(splits.test)
    links = [link_strongest(average_heads(weights)) for weights in maps]
    mean_error = score_links(links, test).aer
    return [100 * mean_error, 100 * score_maps(maps, test)[best]]


HEADS_CLAIM = (
    "The heads of a trained Transformer attend to different things. Removing one head costs nothing for some heads, "
    "some accuracy for others, and nearly all of it for a few."
)
SENTENCES = 200
"""The number of sentences whose weights are averaged."""
OFFSETS = {"the one before": -1, "itself": 0, "the one after": 1}
"""The neighbors of a position whose weights are measured in self-attention."""
KINDS: dict[str, Callable[[str], bool]] = {
    "letters": str.isalpha,
    "digits": str.isdigit,
    "marks": lambda piece: not piece.isalnum(),
}
"""The kinds of characters whose weights are measured. The rest is on start or end."""
KEYS = *OFFSETS, *KINDS


def heads(setting: Setting) -> Finding:
    """Measure what each head of the Transformer of dates attends to.

    The table has the share of its weight on neighbors and kinds of characters, in per
    cent, and greedy exact match on test dates without the head.
    """
    name = "dates-transformer"
    setting.train(name, name, ["training.steps=3000"] if setting.full else [])
    run = setting.run(name)
    pairs = run.config.data.load().test[: None if setting.full else 500]
    complete = run.evaluate(pairs, beam=1)["exact-match"]
    shares = measure_heads(run, pairs[:SENTENCES])
    rows = []
    lost = {}
    for name, module in run.model.named_modules():
        if not isinstance(module, MultiHead):
            continue
        losses = []
        for head in range(module.heads):
            with intervene(run.model, Ablate(heads=[head]), only=name):
                match = run.evaluate(pairs, beam=1)["exact-match"]
            head_shares = shares[name][:, head].tolist()
            cells = [100 * share for share in head_shares]
            difference = match - complete
            rows.append((name, head, *cells, match, difference))
            losses.append(max(0.0, -difference))
        lost[name] = losses
    title = f"answers lost without one head, %; with all {complete:.4g} are right"
    kinds = [f"{kind}, %" for kind in KEYS]
    columns = ("attention", "head", *kinds, "exact match without it, %", "difference")
    return Finding(HEADS_CLAIM, columns, rows, [Grid(title, "head", lost)])


@torch.no_grad()
def measure_heads(
    run: Any, pairs: Sequence[Pair]
) -> dict[str, Float[Tensor, "kind head"]]:
    """Measure by forced decoding which share of its weight a head gives to each of `KEYS`.

    The shares on neighbors are those of positions with the same number, also between
    source and target.
    """
    totals: dict[str, Any] = defaultdict(float)
    queries: dict[str, int] = defaultdict(int)
    model, tokenizers = run.model, run.tokenizers
    for pair in pairs:
        ((source_ids, target_ids),) = encode_pairs(model, tokenizers, [pair])
        batch = collate([(source_ids, target_ids)])
        with record(model) as maps:
            model(batch.source, batch.source_lengths, batch.target_in)
        source = tokenizers.source_pieces(source_ids, pair.source)
        target = tokenizers.target_pieces(target_ids, pair.source)
        for name, (weights,) in maps.items():
            pieces, keys = source, weights
            if name.startswith("decoder") and "cross" not in name:
                pieces, keys = target, weights[..., 1:]
            totals[name] += sum_neighbors_and_kinds(weights, keys, pieces)
            queries[name] += weights.shape[-2]
    return {name: total / queries[name] for name, total in totals.items()}


def sum_neighbors_and_kinds(
    weights: Tensor, keys: Tensor, pieces: Sequence[str]
) -> Float[Tensor, "kind head"]:
    """Sum the weights of each of `KEYS`; `keys` are those that begin at the first piece."""
    sums = []
    for offset in OFFSETS.values():
        neighbors = weights.diagonal(offset, -2, -1)
        sums.append(neighbors.sum(-1))
    keys = keys[..., : len(pieces)]
    for is_kind in KINDS.values():
        mask = torch.tensor([is_kind(piece) for piece in pieces])
        chosen = keys[..., mask]
        sums.append(chosen.sum((-2, -1)))
    return torch.stack(sums)


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
    """Compare cosines between a word's states by layer.

    The table has how often states of one sense are closer than those of two.
    """
    steps = 2000 if setting.full else 400
    setting.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, (recipe, separator, *model) in MODELS.items():
        path = setting.folder / f"{recipe}.txt"
        text = separator.join(generate_sentences(4000, 1))
        path.write_text(f"{text}\n", encoding="utf-8")
        settings = [
            f"data.train={path}",
            *model,
            f"training.steps={steps}",
            "training.learning_rate=3e-3",
            "training.warmup=50",
        ]
        result = setting.train(recipe, recipe, settings)
        run: Any = setting.run(recipe)
        for layer, mean in enumerate(measure_similarities(run.layers).tolist()):
            rows.append((name, layer or "0, static", *mean, result["seconds"]))
    lines = {name: [] for name in MODELS}
    for name, *_, nearer, _ in rows:
        lines[name].append((float(len(lines[name])), nearer))
    scores = ("cosine, same sense", "cosine, other sense", "same sense nearer, %")
    columns = ("model", "layer", *scores, "seconds")
    chart = Chart("senses distinguished", "layer", "nearer, %", lines)
    return Finding(CONTEXT_CLAIM, columns, rows, [chart])


def generate_sentence(word: str, subject: str, form: str, random: Random) -> str:
    """Generate a sentence in which a word has the sense of a subject."""
    adjectives, nouns, verbs = (part.split() for part in SUBJECTS[subject])
    return form.format(
        word=word,
        adjective=random.choice(adjectives),
        noun=random.choice(nouns),
        verb=random.choice(verbs),
        second=random.choice(nouns),
    )


def generate_sentences(count: int, seed: int) -> list[str]:
    """Generate sentences about all subjects, each with an ambiguous word."""
    random = Random(seed)
    words = random.choices(list(WORDS), k=count)
    return [
        generate_sentence(
            word, random.choice(WORDS[word]), random.choice(FORMS), random
        )
        for word in words
    ]


def measure_similarities(
    layers: Layers, count: int = 10
) -> Float[np.ndarray, "layer 3"]:
    """Average `compare_groups` of each layer over words and forms of sentences.

    There are `count` sentences per sense.
    """
    random, results = Random(2), []
    for word, form in product(WORDS, FORMS):
        states = []
        for subject in np.repeat(WORDS[word], count):
            words, layer_states = layers(generate_sentence(word, subject, form, random))
            states.append(layer_states[:, list(words).index(word)])
        results.append([compare_groups(layer) for layer in torch.stack(states, 1)])
    return np.mean(results, 0)


def compare_groups(
    vectors: Float[Tensor, "vector width"],
) -> tuple[float, float, float]:
    """Compare the vectors of two groups, each a half, by their cosines.

    Returns:
        The mean cosine within groups, the mean cosine between groups, and the per cent
        of comparisons in which a vector is closer to one of its group; ties count half.
    """
    units = functional.normalize(vectors.double(), dim=-1)
    cosines = units @ units.t()
    count = len(units)
    group = torch.arange(count) * 2 // count
    is_same = group[:, None] == group
    across = cosines[~is_same].view(count, -1)
    is_self = torch.eye(count, dtype=torch.bool)
    within = cosines[is_same & ~is_self].view(count, -1)
    difference = within[:, :, None] - across[:, None]
    sign = difference.round(decimals=9).sign()
    nearer = 50 * (sign.mean() + 1)
    return float(within.mean()), float(across.mean()), float(nearer)
