"""Advantage actor-critic (Mnih 2016, 1602.01783) with generalised advantages (Schulman 2016, 1506.02438), for
environments of a fixed number of steps."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from regard.shapes import Float, Int

Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PerStep = Float[Tensor, "batch step"]


@dataclass(frozen=True)
class ActorCritic:
    """`signal` is what the loss learns from: the sampled `reward`, or the `regret` of every action, which requires a
    known optimum. `discount` and `trace` are the two decay rates of the advantages, gamma and lambda; `value` weighs
    the critic's loss beside the policy's, and `entropy` a bonus. From the first update to the last the discount rises
    linearly from 0, so that near rewards are learned first (François-Lavet 2015, 1512.02011), and the bonus falls
    linearly to `entropy_end`."""

    signal: Literal["regret", "reward"] = "regret"
    discount: Share = 0.95
    trace: Share = 0.3
    entropy: Weight = 0.05
    entropy_end: Weight = 0.01
    value: Weight = 0.5

    def at(self, update: int, steps: int) -> "ActorCritic":
        """The settings of update number `update`, from 1, of `steps`."""
        share = (update - 1) / max(1, steps - 1)
        bonus = self.entropy + (self.entropy_end - self.entropy) * share
        return replace(self, discount=self.discount * share, entropy=bonus)


def advantages(
    rewards: PerStep, values: PerStep, discount: float, trace: float
) -> PerStep:
    """A_t = sum_l (gamma lambda)^l d_{t+l},  d_t = r_t + gamma V_{t+1} - V_t, and nothing after the last step (Schulman
    2016, equations 11 and 16)."""
    errors = rewards + discount * functional.pad(values[:, 1:], (0, 1)) - values
    found, later = [], torch.zeros_like(errors[:, 0])
    for error in reversed(errors.unbind(1)):
        later = error + discount * trace * later
        found.append(later)
    return torch.stack(found[::-1], 1)


def loss_of_sampled(
    logits: Float[Tensor, "batch step action"],
    values: PerStep,
    actions: Int[Tensor, "batch step"],
    rewards: PerStep,
    settings: ActorCritic,
) -> Float[Tensor, ""]:
    """The loss, summed over steps, of the sampled `rewards` and the critic's values V_t, which include the step's own
    reward (Mnih 2016, algorithm S3):

        -log pi(a_t) A_t + c_v (V_t - (A_t + V_t))^2 / 2 - c_e H(pi_t)

    where A_t and the critic's target have no gradient.
    """
    logs = logits.log_softmax(-1)
    gains = advantages(rewards, values.detach(), settings.discount, settings.trace)
    return of_gains(logs, values, actions, gains, settings).sum()


def loss(
    logits: Float[Tensor, "batch step action"],
    later: PerStep,
    actions: Int[Tensor, "batch step"],
    rewards: Float[Tensor, "batch step action"],
    settings: ActorCritic,
) -> Float[Tensor, ""]:
    """The loss, summed over steps, of the `rewards` of every action and the critic's values W_t of the rewards `later`
    than the step:

        -E_t - log pi(a_t) F_t + c_v (W_t - (F_t + W_t))^2 / 2 - c_e H(pi_t)
        E_t = sum_a pi(a) r(a),  V_t = E_t + W_t,  F_t = A_t - r(a_t) + E_t

    where V_t, F_t and the critic's target have no gradient. F_t is the advantage of the action at later steps: the
    step's own part is summed over actions instead of sampled (Asadi 2017, 1709.00503). The expected gradient is that of
    -log pi(a_t) A_t.
    """
    logs = logits.log_softmax(-1)
    had, expected = (
        rewards.gather(-1, actions[..., None])[..., 0],
        (logs.exp() * rewards).sum(-1),
    )
    values = (expected + later).detach()
    gains = (
        advantages(had, values, settings.discount, settings.trace)
        - had
        + expected.detach()
    )
    return (of_gains(logs, later, actions, gains, settings) - expected).sum()


def of_gains(
    logs: Float[Tensor, "batch step action"],
    guesses: PerStep,
    actions: Int[Tensor, "batch step"],
    gains: PerStep,
    settings: ActorCritic,
) -> PerStep:
    """The common part of both losses at each step, from log pi, the critic's value G_t and the advantage F_t:

        -log pi(a_t) F_t + c_v (G_t - (F_t + G_t))^2 / 2 - c_e H(pi_t)

    where F_t and the second G_t have no gradient.
    """
    missed = (guesses - (gains + guesses.detach())).square() / 2
    entropy = -(logs.exp() * logs).sum(-1)
    chosen = logs.gather(-1, actions[..., None])[..., 0]
    return settings.value * missed - chosen * gains - settings.entropy * entropy
