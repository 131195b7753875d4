"""The names of experiments."""

from collections.abc import Callable

from regard.experiments.finding import Finding
from regard.experiments.gradients import gradients
from regard.experiments.heads import heads
from regard.experiments.scaling import scaling
from regard.experiments.setting import Setting
from regard.experiments.teacher_forcing import teacher_forcing
from regard.experiments.variants import variants

EXPERIMENTS: dict[str, Callable[[Setting], Finding]] = {
    "gradients": gradients,
    "heads": heads,
    "scaling": scaling,
    "teacher-forcing": teacher_forcing,
    "variants": variants,
}
