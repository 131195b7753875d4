"""Experiments on claims about attention. Each one trains, measures, and writes a table and a picture."""

from collections.abc import Callable

from regard.experiments import audit, cost, learning, lengths, structure
from regard.experiments.sweep import Finding, Setting

EXPERIMENTS: dict[str, Callable[[Setting], Finding]] = {
    "alignment": structure.alignment,
    "bottleneck": lengths.bottleneck,
    "context": structure.context,
    "cost": cost.cost,
    "effects": audit.effects,
    "gradients": learning.gradients,
    "hard": cost.hard,
    "heads": structure.heads,
    "languages": learning.languages,
    "positions": lengths.positions,
    "scaling": learning.scaling,
    "teacher-forcing": learning.teacher_forcing,
    "variants": learning.variants,
}

__all__ = ["EXPERIMENTS", "Finding", "Setting"]
