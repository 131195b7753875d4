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
from regard.attention.record import record
from regard.data.batches import collate
from regard.data.pairs import Pair
from regard.decoding.texts import encode_pairs
from regard.experiments.sweep import Finding, Setting, Variant, collect_lines
from regard.maps.links import Gold, link_strongest, score_links, score_maps
from regard.maps.reductions import average_heads
from regard.pictures.chart import Chart, Grid
from regard.tasks.run import Run

ALIGNMENT_CLAIM = (
    "Attention learns word alignments without alignments in its training data. The table has error rates on generated "
    "sentences with known alignments; each target word is linked to its source word of greatest weight. The weights "
    "are the mean of all layers and heads, the single map that is best on the validation set, and the mean shifted by "
    "one step in either direction."
)
TRANSFORMER = [
    "model={name: transformer, layers: 2, width: 96, hidden: 192, heads: 4,"
    " shared: false, dropout: 0.1}",
    "training.learning_rate=2e-3",
]
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
    "Transformer": TRANSFORMER,
    "Transformer, guided": [*TRANSFORMER, "attention_losses.guided=0.3"],
}
MAPS = "the mean", "the best map", "the step before", "the step after"


def alignment(setting: Setting) -> Finding:
    """Compare alignment error rates of mechanisms, by the number of updates."""

    def measure(run: str, result: dict[str, Any]) -> list[float]:
        errors = alignment_errors(setting.run(run))
        return [result["test/exact-match"], *(100 * error for error in errors)]

    steps = (150, 300, 600, 1200, 2400) if setting.full else (200, 600)
    models = []
    for name, overrides in ALIGNERS.items():
        slug = "".join(char if char.isalnum() else "-" for char in name.lower())
        settings = ["data.test=500", *overrides]
        models.append(Variant((name,), "bitext", slug, settings))
    rows = setting.sweep(models, measure, steps)
    chart = Chart(
        "alignment of the best map",
        "updates",
        "alignment error rate, %",
        collect_lines(rows, 1, 4),
        ("linear", "log"),
    )
    errors = [f"AER of {name}, %" for name in MAPS]
    columns = "mechanism", "updates", "exact match, %", *errors, "seconds"
    return Finding(ALIGNMENT_CLAIM, columns, rows, [chart])


def alignment_errors(run: Any) -> tuple[float, ...]:
    """Return the error rates of `MAPS` on the test set."""
    splits = run.config.data.load()
    valid_gold = [gold_links(pair) for pair in splits.valid]
    test_gold = [gold_links(pair) for pair in splits.test]
    valid_errors = score_maps(run.word_maps(splits.valid), valid_gold)
    best = valid_errors.index(min(valid_errors))
    test_maps = run.word_maps(splits.test)
    means = [average_heads(maps) for maps in test_maps]
    errors = []
    for steps in (0, 1, -1):
        links = [link_strongest(shift_rows(weights, steps)) for weights in means]
        errors.append(score_links(links, test_gold).aer)
    return errors[0], score_maps(test_maps, test_gold)[best], *errors[1:]


def shift_rows(
    weights: Float[np.ndarray, "target source"], steps: int
) -> Float[np.ndarray, "target source"]:
    """Give each target word the weights of the word `steps` before it, or zeros."""
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
KEYS = *OFFSETS, *CHARACTER_KINDS
"""The columns of each head's weights."""


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
        lost[name] = []
        for head in range(module.heads):
            match = evaluate_without(run, pairs, module, head)
            cells = []
            for kind in KEYS:
                share = shares.get((name, kind))
                cells.append("" if share is None else 100 * float(share[head]))
            rows.append((name, head, *cells, match, match - complete))
            lost[name].append(max(0.0, complete - match))
    title = f"answers lost without one head, %; with all {complete:.4g} are right"
    kinds = [f"{kind}, %" for kind in KEYS]
    columns = ("attention", "head", *kinds, "exact match without it, %", "difference")
    return Finding(HEADS_CLAIM, columns, rows, [Grid(title, "head", lost)])


@torch.no_grad()
def measure_heads(
    run: Any, pairs: Sequence[Pair]
) -> dict[tuple[str, str], Float[Tensor, " head"]]:
    """Measure the shares of each head's weight by forced decoding.

    They are on kinds of characters and, in self-attention, on the neighbors of each
    position.

    Returns:
        The shares by the name of the attention and that of the kind or neighbor.
    """
    totals: dict[tuple[str, str], Any] = defaultdict(float)
    queries: dict[str, int] = defaultdict(int)
    end = CHARACTER_KINDS[-1]
    for pair in pairs:
        (tokens,) = encode_pairs(run.model, run.tokenizers, [pair])
        batch = collate([tokens])
        with record(run.model) as maps:
            run.model(batch.source, batch.source_lengths, batch.target_in)
        source = run.tokenizers.source_pieces(tokens[0], pair.source)
        target = run.tokenizers.target_pieces(tokens[1], pair.source)
        source_kinds = [*map(character_kind, source), end]
        target_kinds = [end, *map(character_kind, target)]
        for name, (weights,) in maps.items():
            queries[name] += weights.shape[-2]
            is_cross = "cross" in name
            is_source = is_cross or not name.startswith("decoder")
            key_kinds = source_kinds if is_source else target_kinds
            for kind in CHARACTER_KINDS:
                is_kind = torch.tensor([kind == key_kind for key_kind in key_kinds])
                totals[name, kind] += weights[..., is_kind].sum((-2, -1))
            for neighbor, offset in {} if is_cross else OFFSETS.items():
                totals[name, neighbor] += weights.diagonal(offset, -2, -1).sum(-1)
    return {key: total / queries[key[0]] for key, total in totals.items()}


def character_kind(piece: str) -> str:
    """Return the kind of a character."""
    if piece.isdigit():
        return "digits"
    if piece.isalpha():
        return "letters"
    return "marks"


@torch.no_grad()
def evaluate_without(
    run: Run[Any, Any], pairs: Sequence[Pair], module: MultiHead, head: int
) -> float:
    """Return exact match without a head: its output projection is set to 0."""
    weight = module.output.weight
    width = weight.shape[1] // module.heads
    start = head * width
    columns = weight[:, start : start + width]
    original = columns.clone()
    columns.zero_()
    try:
        return run.evaluate(pairs, beam=1)["exact-match"]
    finally:
        columns.copy_(original)


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


def generate_sentence(word: str, subject: str, form: str, random: Random) -> str:
    """Generate a sentence in which a word has the sense of a subject."""
    adjectives, nouns, verbs = (part.split() for part in SUBJECTS[subject])
    parts = (adjectives, nouns, verbs, nouns)
    adjective, noun, verb, second = map(random.choice, parts)
    return form.format(
        word=word, adjective=adjective, noun=noun, verb=verb, second=second
    )


def measure_similarities(
    layers: Layers, count: int = 10
) -> Float[np.ndarray, "layer 3"]:
    """Average `compare_groups` of each layer over words and forms of sentences.

    There are `count` sentences per sense.
    """
    random, results = Random(2), []
    for word, form in product(WORDS, FORMS):
        groups = []
        for subject in WORDS[word]:
            states = []
            for _ in range(count):
                sentence = generate_sentence(word, subject, form, random)
                words, layer_states = layers(sentence)
                states.append(layer_states[:, list(words).index(word)])
            groups.append(torch.stack(states, 1))
        results.append([compare_groups(group) for group in zip(*groups, strict=True)])
    return np.mean(results, 0)


def compare_groups(groups: Sequence[Tensor]) -> tuple[float, float, float]:
    """Compare two groups of as many vectors `(vector, width)` by their cosines.

    Returns:
        The mean cosine within groups, the mean cosine between groups, and the per cent
        of comparisons in which a vector is closer to one of its group; ties count half.
    """
    first, second = (functional.normalize(group.double(), dim=-1) for group in groups)
    across = first @ second.t()
    same = []
    nearer = []
    for unit, between in ((first, across), (second, across.t())):
        is_pair = ~torch.eye(len(unit), dtype=torch.bool)
        pairs = (unit @ unit.t())[is_pair].view(len(unit), -1)
        difference = (pairs[:, :, None] - between[:, None]).round(decimals=9)
        same.append(float(pairs.mean()))
        nearer.append(50 * float(difference.sign().mean() + 1))
    return sum(same) / 2, float(across.mean()), sum(nearer) / 2
