"""A single vector is a bottleneck: quality by source length, with and without attention."""

import json
from collections.abc import Sequence
from random import Random

from regard.data.pair import Pair
from regard.data.readers import read_parallel
from regard.errors import InputError
from regard.experiments.finding import Finding
from regard.experiments.lengths import right_by_length
from regard.experiments.setting import Setting
from regard.pictures.chart import Chart
from regard.tasks.setup import digest

CLAIM = (
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
MOST, TEST_PAIRS = 6, 1_000
"""The maximum of sentences joined to one source; the number of pairs in the test set, and of those for validation."""


def bottleneck(setting: Setting) -> Finding:
    """By source length, decoder width and attention: correct letters, or, with text in the setting, the BLEU of up to
    six joined sentences. All models are trained on all lengths."""
    return (
        on_letters(setting)
        if setting.text is None
        else on_text(setting, read_parallel(*setting.text))
    )


def on_letters(setting: Setting) -> Finding:
    """Rows of letters to reverse. The first output letters are then the last input letters, which is easier for one
    vector (Sutskever 2014, section 3.3)."""
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
            shares = right_by_length(setting.run(run), "reverse", lengths, 100)
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
        CLAIM, columns, rows, [Chart("letters reversed", "letters", "right, %", lines)]
    )


def on_text(setting: Setting, pairs: Sequence[Pair]) -> Finding:
    """Translation of a text's sentences. Raises InputError for too few."""
    least = 4 * TEST_PAIRS
    if len(pairs) < least:
        raise InputError(f"{len(pairs)} pairs are too few; expected at least {least:,}")
    train, valid, test = (
        pairs[: -2 * TEST_PAIRS],
        pairs[-2 * TEST_PAIRS : -TEST_PAIRS],
        pairs[-TEST_PAIRS:],
    )
    text = f"text-{digest(f'{pair.source} {pair.target}' for pair in pairs)[:8]}"
    sets = {"train": mixed(train), "valid": mixed(valid)}
    data = [
        f"data.{name}={json.dumps(written(setting, f'{text}-{name}', some))}"
        for name, some in sets.items()
    ]
    data += ["metrics=[bleu]", f"training.steps={6000 if setting.full else 1200}"]
    counts = range(1, MOST + 1)
    rows, lines = [], {}
    for name, model in ON_TEXT.items():
        for width in WIDTHS:
            run = f"{text}-{name.replace(' ', '-')}-{width}"
            result = setting.train(
                "translate-rnn", run, [*data, model.format(width=width)]
            )
            trained = setting.run(run)
            scores = [
                trained.evaluate(joined(test, count), beam=1)["bleu"]
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
        CLAIM, columns, rows, [Chart("sentences joined", "sentences", "BLEU", lines)]
    )


def joined(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Join each `count` adjacent pairs to one; a shorter remainder is dropped."""
    groups = [
        pairs[first : first + count]
        for first in range(0, len(pairs) - count + 1, count)
    ]
    return [
        Pair(
            " ".join(each.source for each in group),
            " ".join(each.target for each in group),
            group[0].place,
        )
        for group in groups
    ]


def mixed(pairs: Sequence[Pair]) -> list[Pair]:
    """Join adjacent pairs in groups of one to `MOST`; each part of the text has another group size."""
    share = len(pairs) // MOST
    parts = [pairs[number * share : (number + 1) * share] for number in range(MOST)]
    whole = [
        group for count, part in enumerate(parts, 1) for group in joined(part, count)
    ]
    Random(1).shuffle(whole)
    return whole


def written(setting: Setting, name: str, pairs: Sequence[Pair]) -> tuple[str, str]:
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
