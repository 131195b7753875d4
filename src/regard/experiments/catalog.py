"""The names of experiments."""

from collections.abc import Callable

from regard.experiments.alignment import alignment
from regard.experiments.bottleneck import bottleneck
from regard.experiments.context import context
from regard.experiments.cost import cost
from regard.experiments.finding import Finding
from regard.experiments.gradients import gradients
from regard.experiments.heads import heads
from regard.experiments.languages import languages
from regard.experiments.positions import positions
from regard.experiments.scaling import scaling
from regard.experiments.setting import Setting
from regard.experiments.teacher_forcing import teacher_forcing
from regard.experiments.variants import variants

EXPERIMENTS: dict[str, Callable[[Setting], Finding]] = {
    "alignment": alignment,
    "bottleneck": bottleneck,
    "context": context,
    "cost": cost,
    "gradients": gradients,
    "heads": heads,
    "languages": languages,
    "positions": positions,
    "scaling": scaling,
    "teacher-forcing": teacher_forcing,
    "variants": variants,
}
ON_TEXT = ("bottleneck",)
"""Experiments that can run on the user's text."""
