"""Llama: Touvron et al. 2023 (2302.13971).

With other settings it is Mistral (2310.06825), Qwen 2 (2407.10671) or Qwen 3
(2505.09388).
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import NonNegativeInt, PositiveFloat
from torch import nn

from regard.attention import Attend
from regard.attention.heads import (
    MultiHead,
    NormalizedHeads,
    causal_attention,
    remove_bias,
)
from regard.attention.memory import KVCache
from regard.attention.positions import Rotary, RotaryScaling
from regard.attention.scores import ScaledDot
from regard.models.language_model import (
    FULL,
    Blocks,
    CausalState,
    LanguageModel,
    Softmax,
    output_kind,
)
from regard.models.sizes import Fraction, Share, Size
from regard.nn.layers import Dropout, SwiGLU, TokenEmbedding
from regard.shapes import States, Tokens

DEVIATION = 0.02
"""Standard deviation of fresh weights."""


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of a model of the Llama family.

    Attributes:
        key_value_heads: Number of heads of keys and values, which the `heads` share
            (Ainslie 2023, 2305.13245); None for as many as `heads`.
        head_width: Width of one head; None for `width / heads`.
        hidden: Width of the feed-forward networks; None for 8/3 of `width`, rounded up
            to a multiple of 8.
        context: Maximum number of tokens of a row.
        attention_dropout: Dropout of the attention weights.
        epsilon: Number added to the mean square in norms.
        base: Base of the frequencies of the rotary positions.
        scaling: Stretching of the rotary positions to longer texts.
        window: Maximum number of positions that each position attends to, its own
            included (Mistral); None for all before it. The cache of keys and values
            drops the others.
        sinks: Number of first positions of a text that are attended to beside the
            window (Xiao 2023, 2309.17453).
        biased: Whether the maps to queries, keys and values have biases (Qwen 2).
        normalized: Whether queries and keys are normalized (Qwen 3).
        tied: Whether the output layer shares the weight of the embedding.
    """

    name: Literal["llama"] = "llama"
    layers: Size = 4
    width: Size = 256
    heads: Size = 4
    key_value_heads: Size | None = None
    head_width: Size | None = None
    hidden: Size | None = None
    context: Size = 256
    dropout: Share = 0.0
    attention_dropout: Share = 0.0
    epsilon: Fraction = 1e-5
    base: PositiveFloat = 10_000.0
    scaling: RotaryScaling | None = None
    window: Size | None = None
    sinks: NonNegativeInt = 0
    biased: bool = False
    normalized: bool = False
    tied: bool = True
    softmax: Softmax = FULL

    def __post_init__(self) -> None:
        if self.head_width is None and self.width % self.heads:
            raise ValueError(
                f"width {self.width} is not divisible by heads {self.heads}; set head_width"
            )
        if self.heads % (self.key_value_heads or self.heads):
            raise ValueError(
                f"heads {self.heads} is not divisible by key_value_heads {self.key_value_heads}; choose a divisor"
            )
        if self.sinks and self.window is None:
            raise ValueError(
                f"sinks is {self.sinks}, but without a window every position is read; set window"
            )
        if self.width_of_head % 2:
            raise ValueError(
                f"a head is {self.width_of_head} wide; rotary positions need an even width"
            )

    @property
    def width_of_head(self) -> int:
        """Width of one head."""
        return self.head_width or self.width // self.heads

    @property
    def width_of_network(self) -> int:
        """Width inside the feed-forward networks."""
        return self.hidden or 8 * -(-self.width // 3)


class Block(nn.Module):
    """Causal self-attention and SwiGLU, each behind a norm and inside its residual.

    The norm is by the root mean square (Zhang 2019, 1910.07467).
    """

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.before = None if config.window is None else config.window - 1
        self.sinks = config.sinks
        self.self_attention = heads(config)
        self.feedforward = SwiGLU(config.width, config.width_of_network)
        norms = (nn.RMSNorm(config.width, config.epsilon) for _ in range(2))
        self.norms = nn.ModuleList(norms)
        self.dropout = Dropout(config.dropout)

    def forward(self, states: States, cache: KVCache) -> tuple[States, KVCache]:
        """Process positions that follow `cache`.

        Returns:
            Their states, and the cache including them.
        """
        heads, inputs = self.self_attention, self.norms[0](states)
        reach = self.before, self.sinks
        context, cache = causal_attention(heads, inputs, cache, *reach)
        states = states + self.dropout(context)
        return states + self.dropout(self.feedforward(self.norms[1](states))), cache


def heads(config: LlamaConfig) -> MultiHead:
    """Heads with rotary positions, which share heads of keys and values."""
    width = config.width_of_head
    kind = MultiHead
    if config.normalized:
        kind = partial(NormalizedHeads, epsilon=config.epsilon)
    attention = kind(
        config.width,
        config.heads,
        head_width=width,
        key_value_heads=config.key_value_heads,
        attend=Attend(ScaledDot(), dropout=config.attention_dropout),
        positions=Rotary(width, base=config.base, scaling=config.scaling),
    )
    maps = attention.query, attention.key, attention.value, attention.output
    remove_bias(*(maps[3:] if config.biased else maps))
    return attention


class Llama(LanguageModel[CausalState]):
    """Blocks over embedded tokens, a final norm, and the output layer.

    Weights start normal with deviation 0.02.
    """

    config_class = LlamaConfig

    self_attention = "blocks.*.self_attention"

    def __init__(self, vocabulary: int, config: LlamaConfig):
        super().__init__()
        self.context = config.context
        self.embedding = TokenEmbedding(vocabulary, config.width, scale=1.0)
        self.dropout = Dropout(config.dropout)
        self.blocks = Blocks(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, config.epsilon)
        tied = self.embedding if config.tied else None
        kind = output_kind(config.softmax)
        self.output = kind(config.width, vocabulary, tied, bias=False)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=DEVIATION)

    def begin(self, batch: int) -> CausalState:
        return self.blocks.start(self.zeros(batch))

    def run(self, tokens: Tokens, state: CausalState) -> tuple[States, CausalState]:
        states, state = self.blocks(self.dropout(self.embedding(tokens)), state)
        return self.norm(states), state
