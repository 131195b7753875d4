"""The position-wise network between attentions."""

from torch import nn


class FeedForward(nn.Sequential):
    """W_2 relu(W_1 x + b_1) + b_2 at every position (Vaswani 2017, equation 2): `(..., width)` -> `(..., width)`."""

    def __init__(self, width: int, hidden: int, activation: nn.Module | None = None):
        layers = nn.Linear(width, hidden), nn.Linear(hidden, width)
        super().__init__(layers[0], nn.ReLU() if activation is None else activation, layers[1])
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
