"""An agent that learns while it acts: a network over all that it has seen in one environment (Duan 2016, 1611.02779),
SNAIL (Mishra 2018, 1707.03141, section 5.2) or a recurrent one."""

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
    """Sizes; the defaults are the paper's. `width` is that of what is read at a step, `filters` those of the temporal
    convolutions."""

    name: Literal["snail"] = "snail"
    width: Size = 32
    filters: Size = 32


@dataclass(frozen=True)
class ActingRecurrentConfig:
    """A gated recurrent unit (Cho 2014), as Duan has it."""

    name: Literal["gru"] = "gru"
    width: Size = 256


ActorConfig = ActingSnailConfig | ActingRecurrentConfig


class RecurrentNetwork(nn.Module):
    """A gated recurrent unit, called as `Snail` is: all positions at once, or one by one."""

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
        """One more position."""
        outputs, after = self.recurrent(states[:, None], state)
        return outputs[:, 0], after


class Actor(nn.Module):
    """Tells at every step how much it is for each action, and what it expects of the steps after it, or where it learns
    from drawn rewards of this step and those after it.

    Args:
        input_width, actions: of what is seen at a step, and of what can be done.
        steps: in one environment, at most.
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
            nn.init.zeros_(parameter)  # so that at first every action is as likely, whatever was seen

    def forward(self, inputs: Inputs) -> tuple[Float[Tensor, "batch step action"], Float[Tensor, "batch step"]]:
        """What was seen `(batch, step, input_width)` -> logits of the actions `(batch, step, action)`, and what is to
        come after each step `(batch, step)`; neither knows what is seen later."""
        states = self.network(self.embedding(inputs))
        return self.policy(states), rearrange(self.later(states), "b t 1 -> b t")

    def start(self, batch: int) -> Any:
        """The state before the first step in so many environments."""
        return self.network.start(batch)

    def step(self, inputs: StepInputs, state: Any) -> tuple[Float[Tensor, "batch action"], Any]:
        """What is seen now `(batch, input_width)` -> logits of the actions, and the state after it."""
        states, after = self.network.step(self.embedding(inputs), state)
        return self.policy(states), after


def network_of(config: ActorConfig, steps: int) -> Snail | RecurrentNetwork:
    """That of a configuration, for vectors of `config.width`."""
    match config:
        case ActingSnailConfig():
            return acting(config.width, steps, config.filters)
        case ActingRecurrentConfig():
            return RecurrentNetwork(config.width, config.width)
