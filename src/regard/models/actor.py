"""Agents for meta-reinforcement learning, which learn within an environment from all that they observed in it (Duan
2016, 1611.02779): SNAIL (Mishra 2018, 1707.03141, section 5.2) or a recurrent network."""

from dataclasses import dataclass
from typing import Any, Literal

from einops import rearrange
from torch import Tensor, nn

from regard.models.sizes import Size
from regard.models.snail import Snail, StepInputs, StepOutputs, acting
from regard.nn.recurrent import Recurrent
from regard.shapes import Float, Inputs, States


@dataclass(frozen=True)
class ActingSnailConfig:
    """Sizes; the defaults are the paper's. `width` is that of the embedded observation, `filters` those of the temporal
    convolutions."""

    name: Literal["snail"] = "snail"
    width: Size = 32
    filters: Size = 32


@dataclass(frozen=True)
class ActingRecurrentConfig:
    """A gated recurrent unit (Cho 2014), the network of Duan 2016."""

    name: Literal["gru"] = "gru"
    width: Size = 256


ActorConfig = ActingSnailConfig | ActingRecurrentConfig


class RecurrentNetwork(nn.Module):
    """A gated recurrent unit with the interface of `Snail`: all positions at once, or one by one."""

    def __init__(self, input_width: int, width: int):
        super().__init__()
        self.recurrent, self.width = Recurrent("gru", input_width, width), width

    def forward(self, states: Inputs) -> States:
        return self.recurrent(states, self.start(len(states)))[0]

    def start(self, batch: int) -> Tensor:
        """The state before the first step."""
        like = next(self.parameters())
        return like.new_zeros(batch, *self.recurrent.state_shape)

    def step(self, states: StepInputs, state: Tensor) -> tuple[StepOutputs, Tensor]:
        """Read one more position."""
        outputs, after = self.recurrent(states[:, None], state)
        return outputs[:, 0], after


class Actor(nn.Module):
    """Predict logits of the actions and a value at every step. The value is the expected return of the later steps;
    where the policy learns from sampled rewards, it is that of this step and the later ones.

    Args:
        input_width: width of an observation.
        actions: number of actions.
        steps: largest number of steps in one environment.
    """

    self_attention = "network.*"

    def __init__(self, input_width: int, actions: int, steps: int, config: ActorConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Linear(input_width, config.width)
        self.network = network_of(config, steps)
        self.policy = nn.Linear(self.network.width, actions)
        self.later = nn.Linear(self.network.width, 1)
        for parameter in (*self.policy.parameters(), *self.later.parameters()):
            nn.init.zeros_(parameter)  # all actions are equally likely at first

    def forward(
        self, inputs: Inputs
    ) -> tuple[Float[Tensor, "batch step action"], Float[Tensor, "batch step"]]:
        """Observations `(batch, step, input_width)` -> logits of the actions `(batch, step, action)` and values
        `(batch, step)`. Neither depends on later observations."""
        states = self.network(self.embedding(inputs))
        return self.policy(states), rearrange(self.later(states), "b t 1 -> b t")

    def start(self, batch: int) -> Any:
        """The state before the first step in `batch` environments."""
        return self.network.start(batch)

    def step(
        self, inputs: StepInputs, state: Any
    ) -> tuple[Float[Tensor, "batch action"], Any]:
        """The current observation `(batch, input_width)` -> logits of the actions, and the new state."""
        states, after = self.network.step(self.embedding(inputs), state)
        return self.policy(states), after


def network_of(config: ActorConfig, steps: int) -> Snail | RecurrentNetwork:
    """The network of a configuration, for vectors of `config.width`."""
    match config:
        case ActingSnailConfig():
            return acting(config.width, steps, config.filters)
        case ActingRecurrentConfig():
            return RecurrentNetwork(config.width, config.width)
