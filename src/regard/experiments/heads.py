"""Heads differ: what each costs when it is gone."""

import torch

from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.heads import MultiHead
from regard.pictures.chart import Grid
from regard.tasks.text_to_text.run import TextToTextRun

CLAIM = (
    "A trained Transformer's heads differ: some can be taken away one at a time at no cost, others cost some answers, "
    "and without a single one nearly all answers may be wrong."
)


def heads(setting: Setting) -> Finding:
    """The Transformer of dates, each head taken away by itself: exact match on test dates, greedily."""
    setting.train("dates-transformer", "dates-transformer", ["training.steps=3000"] if setting.full else [])
    run = setting.run("dates-transformer")
    pairs = run.config.data.load().test[: None if setting.full else 500]
    whole = run.evaluate(pairs, beam=1)["exact-match"]
    rows, lost = [], {}
    for name, module in run.model.named_modules():
        if isinstance(module, MultiHead):
            left = [without(run, pairs, module, head) for head in range(module.heads)]
            rows += [(name, head, figure, figure - whole) for head, figure in enumerate(left)]
            lost[name] = [max(0.0, whole - figure) for figure in left]
    chart = Grid(f"answers lost without one head, %; with all {whole:.4g} are right", "head", lost)
    return Finding(CLAIM, ("attention", "head", "exact match without it, %", "difference"), rows, [chart])


@torch.no_grad()
def without(run: TextToTextRun, pairs, module: MultiHead, head: int) -> float:
    """Exact match while what the head reads is not projected into the output."""
    weight = module.output.weight
    width = weight.shape[1] // module.heads
    kept = weight[:, head * width : (head + 1) * width].clone()
    weight[:, head * width : (head + 1) * width] = 0.0
    try:
        return run.evaluate(pairs, beam=1)["exact-match"]
    finally:
        weight[:, head * width : (head + 1) * width] = kept
