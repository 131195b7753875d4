"""Word sense in the states of language models (Peters 2018, section 5.3)."""

from collections.abc import Callable, Sequence
from itertools import product
from random import Random

import torch
from torch import Tensor

from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.pictures.chart import Chart
from regard.runs.load import load
from regard.tasks.capabilities import GivesLayers, capable

CLAIM = (
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
"""The words that determine the sense come before the word, after it or on both sides."""
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
"""The recipe of each model, the separator of texts in its file, and further settings."""
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
            between.join(sentences_of(sentences, 1)) + "\n", encoding="utf-8"
        )
        settings = [f"data.train={text}", *model, f"training.steps={steps}", *rate]
        result = setting.train(recipe, recipe, settings)
        layers = capable(
            load(setting.folder / recipe), GivesLayers, setting.folder / recipe
        ).layers
        found = zip(*similarities(layers), strict=True)
        means = [
            tuple(sum(each) / len(each) for each in zip(*some, strict=True))
            for some in found
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
        CLAIM,
        columns,
        rows,
        [Chart("senses distinguished", "layer", "nearer, %", lines)],
    )


def sentences_of(count: int, seed: int) -> list[str]:
    """Sentences about all subjects, each with an ambiguous word."""
    random = Random(seed)
    words = random.choices(list(WORDS), k=count)
    return [
        sentence(word, random.choice(WORDS[word]), random.choice(FORMS), random)
        for word in words
    ]


def sentence(word: str, subject: str, form: str, random: Random) -> str:
    """A sentence in which a word has the sense of a subject."""
    adjectives, nouns, verbs = (part.split() for part in SUBJECTS[subject])
    adjective, noun, verb, second = (
        random.choice(part) for part in (adjectives, nouns, verbs, nouns)
    )
    return form.format(
        word=word, adjective=adjective, noun=noun, verb=verb, second=second
    )


def similarities(
    layers: Layers, count: int = 10
) -> list[list[tuple[float, float, float]]]:
    """For each word and form of sentence: `compared` of each layer, with `count` sentences per sense."""
    random, found = Random(2), []
    for word, form in product(WORDS, FORMS):
        groups = []
        for subject in WORDS[word]:
            texts = [
                layers(sentence(word, subject, form, random)) for _ in range(count)
            ]
            groups.append(
                torch.stack(
                    [states[:, list(words).index(word)] for words, states in texts], 1
                )
            )
        found.append([compared(group) for group in zip(*groups, strict=True)])
    return found


def compared(groups: Sequence[Tensor]) -> tuple[float, float, float]:
    """The mean cosine within groups of vectors `(vector, width)`, the mean cosine between groups, and the per cent of
    comparisons in which a vector is closer to one of its own group; ties count half."""
    units = [torch.nn.functional.normalize(group.double(), dim=-1) for group in groups]
    across = units[0] @ units[1].t()
    same, nearer = [], []
    for unit, other in zip(units, (across, across.t()), strict=True):
        within = unit @ unit.t()
        own = within[~torch.eye(len(unit), dtype=torch.bool)].view(len(unit), -1)
        difference = own[:, :, None] - other[:, None]
        near = difference.abs() < 1e-9
        same.append(own.mean())
        nearer.append(
            ((difference > 0) & ~near).double().mean() + 0.5 * near.double().mean()
        )
    return float(sum(same) / 2), float(across.mean()), 100 * float(sum(nearer) / 2)
