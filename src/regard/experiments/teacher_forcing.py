"""Training on the true previous token, on the model's own, and on both."""

from collections.abc import Sequence
from typing import cast

import torch

from regard.data.pair import Pair
from regard.data.pair_batch import collate
from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.pictures.chart import Chart
from regard.tasks.text_to_text.run import TextToTextRun

CLAIM = (
    "Teacher forcing learns fastest, because every step is given a right past; what it never sees is a wrong one. "
    "Scheduled sampling (Bengio 2015) begins so and ends with its own past. After one wrong token forced on it, "
    "each model's later tokens are right as often as the table says."
)
WAYS = {
    "teacher forcing": (),
    "scheduled sampling": ("training.teacher_forcing_end=0.0",),
    "free running": ("training.teacher_forcing=0.0",),
}


def teacher_forcing(setting: Setting) -> Finding:
    """Luong's model of dates trained in three ways: exact match by the number of updates, and how many of the tokens
    after one early mistake are right."""
    steps = (100, 200, 400, 600, 1200) if setting.full else (100, 200, 400, 600)
    rows, lines = [], {}
    for name, overrides in WAYS.items():
        points = []
        for count in steps:
            settings = [f"training.steps={count}", *overrides]
            run = f"{name.replace(' ', '-')}-{count}"
            result = setting.train("dates-luong", run, settings)
            points.append((float(count), result["test/exact-match"]))
            after = 100 * right_after_a_mistake(setting.run(run))
            rows.append((name, count, points[-1][1], after, result["seconds"]))
        lines[name] = points
    columns = "training", "updates", "exact match, %", "right after a mistake, %", "seconds"
    return Finding(CLAIM, columns, rows, [Chart("dates", "updates", "exact match, %", lines)])


@torch.no_grad()
def right_after_a_mistake(run: TextToTextRun, count: int = 200) -> float:
    """The share of right tokens after the second, when the second token of each output is replaced by a wrong one and
    the model goes on from there by itself."""
    pairs = cast(Sequence[Pair], run.config.data.load().test)[:count]
    tokenizers, model = run.tokenizers, run.model
    right = total = 0
    for pair in pairs:
        source, target = tokenizers.source_ids(pair.source), tokenizers.target_ids(pair.target, pair.source)
        batch = collate([(source, target)])
        state = model.decoder.start(model.encoder(batch.source, batch.source_lengths))
        mistake = next(token for token in target if token != target[1])
        given = batch.target_in[:, 0]
        for place, token in enumerate(target):
            logits, state = model.decoder.step(given, state)
            own = logits.argmax(-1)
            if place >= 2:
                right, total = right + (int(own) == token), total + 1
            given = own if place > 1 else torch.tensor([mistake if place else token])
    return right / total
