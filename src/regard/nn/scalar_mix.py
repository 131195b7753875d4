"""One vector of several layers' vectors."""

import torch
from torch import Tensor, nn

from regard.shapes import Float


class ScalarMix(nn.Module):
    """gamma sum_j s_j h_j with s = softmax(w), where gamma and w are learned (Peters 2018, 1802.05365, equation 1); at
    first the mean. `(layer, *batch, width)` -> `(*batch, width)`."""

    def __init__(self, layers: int):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, layers: Float[Tensor, "layer *batch width"]) -> Float[Tensor, "*batch width"]:
        return self.gamma * torch.tensordot(self.weights.softmax(0), layers, 1)
