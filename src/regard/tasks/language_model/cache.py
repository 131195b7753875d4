"""The continuous cache: a memory of the recent past for a language model that was trained without it."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from regard.attention import attend
from regard.attention.masks import window
from regard.attention.scores import Dot
from regard.shapes import Float, Int


@dataclass(frozen=True)
class Cache:
    """The continuous cache (Grave 2017, 1612.04426, equations 2 and 3): the tokens that followed similar states.

        p(w) = (1 - share) p_model(w) + share sum_i softmax_i(sharpness h_t . h_i) [y_{i+1} = w]

    over the last `size` states, h being the input of the output layer. Without a past, p is the model's.

    Raises:
        ValueError: size below 1, share outside (0, 1), sharpness negative.
    """

    size: Annotated[int, Field(ge=1)] = 2000
    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    sharpness: Annotated[float, Field(ge=0)] = 0.3

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"the cache's size is {self.size}; it must be at least 1")
        if not 0 < self.share < 1:
            raise ValueError(
                f"the cache's share is {self.share}; it must be above 0 and below 1"
            )
        if not self.sharpness >= 0:
            raise ValueError(
                f"the cache's sharpness is {self.sharpness}; it must be at least 0"
            )

    def empty(self, like: Float[Tensor, "batch position width"]) -> "Past":
        """The empty past."""
        return Past(
            like[:, :0],
            torch.zeros(len(like), 0, dtype=torch.int64, device=like.device),
        )

    def mix(
        self,
        losses: Float[Tensor, "batch position"],
        features: Float[Tensor, "batch position width"],
        expected: Int[Tensor, "batch position"],
        past: "Past",
    ) -> tuple[Float[Tensor, "batch position"], "Past"]:
        """-log p of the tokens `expected`, from the model's `losses` and `features`, and the past that includes
        them."""
        states, following = (
            torch.cat([past.states, features], 1),
            torch.cat([past.following, expected], 1),
        )
        queries, keys = features.shape[1], states.shape[1]
        mask = window(
            queries,
            keys,
            before=self.size - 1,
            after=0,
            first=keys - queries - 1,
            device=states.device,
        )
        _, weights = attend(
            self.sharpness * features, states, states, score=Dot(), mask=mask
        )
        found = (weights * (following[:, None] == expected[..., None])).sum(-1)
        share = self.share * weights.sum(-1)  # zero where there is no past
        mixed = -((1 - share) * (-losses).exp() + self.share * found).log()
        return mixed, Past(states[:, -self.size :], following[:, -self.size :])


@dataclass(frozen=True)
class Past:
    """States `(batch, past, width)` and the token after each, `(batch, past)`."""

    states: Tensor
    following: Tensor
