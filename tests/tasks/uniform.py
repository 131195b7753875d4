"""An agent that does anything as likely as anything else."""

import torch
from torch import Tensor


class Uniform:
    """Logits of 0."""

    def __init__(self, actions: int):
        self.actions = actions

    def start(self, batch: int) -> None:
        return None

    def step(self, inputs: Tensor, state: None) -> tuple[Tensor, None]:
        return torch.zeros(len(inputs), self.actions), state
