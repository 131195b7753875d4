"""Where the answer is a place and not a word."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.copying import logarithm, wide
from regard.nn.output import Predictor
from regard.shapes import Float, Tokens
from regard.text.special import IGNORED, SPECIAL

END = SPECIAL.end
"""The token that ends an answer; the places follow it."""


class PositionOutput(nn.Module, Predictor):
    """From weights over places `(*batch, place)`, the first of which means the end, to logits of tokens: place i is the
    token `END` + i. Equal elements are not merged (Vinyals 2015, 1506.03134). There are at most `places`."""

    def __init__(self, places: int):
        super().__init__()
        self.out_features = END + places

    def forward(self, input: Float[Tensor, "*batch place"]) -> Float[Tensor, "*batch token"]:
        """The logarithm of the weights; minus infinity for tokens before `END` and for places without weight."""
        logits = logarithm(wide(input)).masked_fill(input == 0, -torch.inf)
        return functional.pad(logits, (END, self.out_features - END - input.shape[-1]), value=-torch.inf)

    def loss(
        self, features: Float[Tensor, "batch position place"], targets: Tokens, smoothing: float = 0.0
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch position"]]:
        """-log of the weight on each target, `IGNORED` left out: the sum, and without a gradient what each position
        adds.

        Raises:
            ValueError: smoothing, which would reward weight on padding.
        """
        if smoothing:
            raise ValueError(f"smoothing is {smoothing}; places cannot be smoothed, set it to 0")
        real = targets != IGNORED
        places = (targets - END).clamp(min=0)[..., None]
        losses = -logarithm(wide(features.gather(-1, places)[..., 0])).masked_fill(~real, 0.0)
        return losses.sum(), losses.detach()
