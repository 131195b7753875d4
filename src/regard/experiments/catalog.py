"""The names of experiments."""

from collections.abc import Callable

from regard.experiments.cost import cost
from regard.experiments.learning import (
    gradients,
    languages,
    scaling,
    teacher_forcing,
    variants,
)
from regard.experiments.lengths import bottleneck, positions
from regard.experiments.structure import alignment, context, heads
from regard.experiments.sweep import Finding, Setting

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
