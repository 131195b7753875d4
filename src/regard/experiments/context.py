"""Whether a word's vector knows which of its senses is meant (Peters 2018, section 5.3)."""

from collections.abc import Sequence
from itertools import product
from random import Random

import torch
from torch import Tensor

from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.pictures.chart import Chart
from regard.runs import load
from regard.tasks.bidirectional_language_model.run import ElmoRun

CLAIM = (
    "A static embedding has one vector for a word of two senses. The states of language models that read its sentence "
    "from both sides tell the senses apart. ELMo, trained on generated sentences, in which each of six words is used "
    "in two subjects; measured between sentences of one form that are drawn anew. 50 % is chance."
)
SUBJECTS = {
    "water": ("muddy deep wide", "fish river boat swimmer", "reached crossed left"),
    "money": ("rich careful new", "client clerk loan payment", "entered closed trusted"),
    "animals": ("small wild grey", "cat owl hunter keeper", "chased fed heard"),
    "sport": ("young fast famous", "player team coach captain", "threw bought swung"),
    "months": ("early warm rainy", "april garden flower farmer", "welcomed awaited praised"),
    "machines": ("rusty broken heavy", "engine mechanic wheel lever", "loosened bent replaced"),
}
"""Of each the adjectives, nouns and verbs."""
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
"""What tells the sense stands before the word, behind it or around it."""
MODEL = (
    "model={name: elmo, characters: 12, filters: [[2, 32], [3, 64]], projection: 64, cell: 128, dropout: 0.1, "
    "softmax: {kind: full}}"
)


def context(setting: Setting) -> Finding:
    """Cosines of a word's vectors, by layer, and how often those of one sense are nearer than those of two."""
    sentences, steps = 4000, 2000 if setting.full else 400
    setting.folder.mkdir(parents=True, exist_ok=True)
    text = setting.folder / "senses.txt"
    text.write_text("".join(f"{line}\n" for line in made(sentences, 1)), encoding="utf-8")
    rate = ["training.learning_rate=3e-3", "training.warmup=50"]
    result = setting.train("elmo", "elmo", [f"data.train={text}", MODEL, f"training.steps={steps}", *rate])
    run = load(setting.folder / "elmo", task=ElmoRun)
    rows, points = [], []
    for layer in range(run.model.layers + 1):
        same, other, nearer = (sum(each) / len(each) for each in zip(*told(run, layer), strict=True))
        rows.append((layer or "0, static", same, other, nearer, result["seconds"]))
        points.append((float(layer), nearer))
    columns = "layer", "cosine, same sense", "cosine, other sense", "same sense nearer, %", "seconds"
    return Finding(CLAIM, columns, rows, [Chart("senses told apart", "layer", "nearer, %", {"ELMo": points})])


def made(count: int, seed: int) -> list[str]:
    """Sentences about all subjects, each with a word of two senses in it."""
    random = Random(seed)
    words = random.choices(list(WORDS), k=count)
    return [sentence(word, random.choice(WORDS[word]), random.choice(FORMS), random) for word in words]


def sentence(word: str, subject: str, form: str, random: Random) -> str:
    """One in which a word has the sense of a subject."""
    adjectives, nouns, verbs = (part.split() for part in SUBJECTS[subject])
    adjective, noun, verb, second = (random.choice(part) for part in (adjectives, nouns, verbs, nouns))
    return form.format(word=word, adjective=adjective, noun=noun, verb=verb, second=second)


def told(run: ElmoRun, layer: int, count: int = 10) -> list[tuple[float, float, float]]:
    """Of each word, in sentences of each form, what `compared` finds between `count` of each of its senses."""
    random, found = Random(2), []
    for word, form in product(WORDS, FORMS):
        groups = []
        for subject in WORDS[word]:
            texts = run.words([sentence(word, subject, form, random) for _ in range(count)])
            groups.append(torch.stack([each.vectors(layer)[list(each.words).index(word)] for each in texts]))
        found.append(compared(groups))
    return found


def compared(groups: Sequence[Tensor]) -> tuple[float, float, float]:
    """The mean cosine of vectors `(vector, width)` of one group, that of vectors of two, and how often a vector is
    nearer to one of its own group than to one of the other, in per cent; as near counts half."""
    units = [torch.nn.functional.normalize(group.double(), dim=-1) for group in groups]
    across = units[0] @ units[1].t()
    same, nearer = [], []
    for unit, other in zip(units, (across, across.t()), strict=True):
        within = unit @ unit.t()
        own = within[~torch.eye(len(unit), dtype=torch.bool)].view(len(unit), -1)
        difference = own[:, :, None] - other[:, None]
        near = difference.abs() < 1e-9
        same.append(own.mean())
        nearer.append(((difference > 0) & ~near).double().mean() + 0.5 * near.double().mean())
    return float(sum(same) / 2), float(across.mean()), 100 * float(sum(nearer) / 2)
