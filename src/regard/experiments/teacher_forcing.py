"""Training on the true previous token, on the model's own, and on both."""

from collections.abc import Sequence
from typing import cast

import torch

from regard.data.batching import collate
from regard.data.pair import Pair
from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.pictures.chart import Chart
from regard.tasks.capabilities import EncodesPairs

CLAIM = (
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
    """Luong's model of dates trained in three ways: exact match by the number of updates, and the share of correct
    tokens after an early error."""
    steps = (100, 200, 400, 600, 1200) if setting.full else (100, 200, 400, 600)
    rows = []
    for name, overrides in WAYS.items():
        for count in steps:
            settings = [f"training.steps={count}", *overrides]
            run = f"{name.replace(' ', '-')}-{count}"
            result = setting.train("dates-luong", run, settings)
            after = 100 * right_after_a_mistake(setting.run(run))
            rows.append(
                (name, count, result["test/exact-match"], after, result["seconds"])
            )
    columns = (
        "training",
        "updates",
        "exact match, %",
        "right after a mistake, %",
        "seconds",
    )
    charts = [
        Chart(
            title,
            "updates",
            columns[at],
            {name: points(rows, name, at) for name in WAYS},
        )
        for title, at in (("dates", 2), ("tokens after a wrong one", 3))
    ]
    return Finding(CLAIM, columns, rows, charts)


def points(rows: Sequence[tuple], name: str, column: int) -> list[tuple[float, float]]:
    """A column by the number of updates."""
    return [(float(row[1]), row[column]) for row in rows if row[0] == name]


@torch.no_grad()
def right_after_a_mistake(run: EncodesPairs, count: int = 200) -> float:
    """The share of correct tokens after the second one, when the second output token is replaced by a wrong one and the
    model continues alone."""
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
            own = logits.argmax(-1)
            if place >= 2:
                right, total = right + (int(own) == token), total + 1
            token_in = own if place > 1 else torch.tensor([mistake if place else token])
    return right / total
