"""GPT-2, and a classifier that is made of its layers.

See Radford et al. 2019, "Language models are unsupervised multitask learners".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import nn
from torch.nn import functional

from regard.attention.heads import causal_attention, check_causal
from regard.attention.masks import padding
from regard.attention.memory import KVCache
from regard.models.attention import (
    ACTIVATIONS,
    POSITIONS,
    ActivationName,
    AttentionConfig,
    PositionsName,
    SelfAlignChoice,
)
from regard.models.classifier import Classifier
from regard.models.language_model import (
    FULL,
    Blocks,
    CausalState,
    LanguageModel,
    Softmax,
    output_kind,
)
from regard.models.sizes import Fraction, Share, Size
from regard.nn.layers import Dropout, FeedForward, PreNorm, Residual, TokenEmbedding
from regard.shapes import ClassLogits, Lengths, States, Tokens


@dataclass(frozen=True)
class GPT2Config(AttentionConfig):
    """Sizes of GPT-2.

    `hidden` is the width of the feed-forward networks, by default four times `width`. A row has at most `context`
    tokens. The released models were trained with an `attention_dropout` of 0.1. `activation` is that of the networks,
    `epsilon` is added to the variance in norms.
    """

    name: Literal["gpt2"] = "gpt2"
    layers: Size = 4
    context: Size = 256
    dropout: Share = 0.1
    hidden: Size | None = None
    softmax: Softmax = FULL
    align: SelfAlignChoice = "softmax"
    positions: PositionsName = "learned"
    activation: ActivationName = "gelu-tanh"
    epsilon: Fraction = 1e-5


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each inside its residual.

        x = x + attention(norm(x)),  x = x + W_2 gelu(W_1 norm(x))

    The paper has GELU approximated by tanh.
    """

    def __init__(self, config: GPT2Config):
        super().__init__()
        self.self_attention = config.build_heads(
            config.context, positions=config.positions
        )
        check_causal(self.self_attention)
        activation = ACTIVATIONS[config.activation]()
        hidden = config.hidden or 4 * config.width
        self.feedforward = FeedForward(config.width, hidden, activation)
        self.residuals = nn.ModuleList(
            PreNorm(config.width, config.dropout, config.epsilon) for _ in range(2)
        )

    def forward(self, states: States, cache: KVCache) -> tuple[States, KVCache]:
        """Process positions that follow `cache`.

        Returns:
            Their states, and the cache including them.
        """
        first, second = cast("Sequence[Residual]", self.residuals)
        inputs = first.input(states)
        context, cache = causal_attention(self.self_attention, inputs, cache)
        states = first.add(states, context)
        return second.add(states, self.feedforward(second.input(states))), cache


class GPT2(LanguageModel[CausalState]):
    """Blocks over embedded tokens with positions, and a final norm.

    Positions are learned in the paper, and the embedding is the output layer.

    Weights start normal with deviation 0.02; the last weight of each residual branch
    with 0.02 / sqrt(2 layers) (section 2.3).
    """

    config_class = GPT2Config

    self_attention = "blocks.*.self_attention"

    def __init__(self, vocabulary: int, config: GPT2Config):
        super().__init__()
        self.context = config.context
        self.embedding = TokenEmbedding(vocabulary, config.width, scale=1.0)
        self.positions = POSITIONS[config.positions](config.width, config.context)
        self.dropout = Dropout(config.dropout)
        self.blocks = Blocks(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, config.epsilon)
        self.output = output_kind(config.softmax)(
            config.width, vocabulary, self.embedding, bias=False
        )
        last = "self_attention.output.weight", "feedforward.2.weight"
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                scale = (2 * config.layers) ** 0.5 if name.endswith(last) else 1.0
                nn.init.normal_(parameter, std=0.02 / scale)

    def begin(self, batch: int) -> CausalState:
        return self.blocks.start(self.zeros(batch))

    def run(self, tokens: Tokens, state: CausalState) -> tuple[States, CausalState]:
        """Read tokens, at most `context` in all."""
        states = self.dropout(self.positions(self.embedding(tokens), state.position))
        states, state = self.blocks(states, state)
        return self.norm(states), state


class GPT2Classifier(Classifier):
    """GPT-2's blocks and a linear layer over the last token's state.

    That state has read the whole text (Radford et al. 2018, section 3.2).
    """

    config_class = GPT2Config
    form = "last-text"

    self_attention = GPT2.self_attention

    def __init__(self, vocabulary: int, classes: int, config: GPT2Config):
        super().__init__()
        language = GPT2(vocabulary, config)
        self.context = config.context
        self.embedding = language.embedding
        self.positions = language.positions
        self.dropout = language.dropout
        self.blocks = language.blocks
        self.norm = language.norm
        self.output = nn.Linear(config.width, classes, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, tokens: Tokens, lengths: Lengths) -> ClassLogits:
        """Return logits `(batch, class)` of padded tokens `(batch, position)`.

        Tokens are padded on the right. A text without tokens has zeros.

        Raises:
            ValueError: There are more tokens than `context`.
        """
        real = padding(lengths, tokens.shape[1]).readable()
        states = self.positions(self.embedding(tokens))
        states = self.dropout(states).where(real[..., None], 0.0)
        states, _ = self.blocks(states, self.blocks.start(states))
        states = functional.pad(self.norm(states), (0, 0, 1, 0))
        return self.output(states[torch.arange(len(tokens)), lengths])
