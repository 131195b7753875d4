"""The base class of language models: decoders without a source."""

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.nn.decoders.protocol import S, SequenceDecoder
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output, Predictor
from regard.shapes import Float, Tokens


class LanguageModel(SequenceDecoder[S]):
    """p(text) as the product over its tokens of softmax(output(features)), each from the tokens before it.

    Texts follow one another: the token before a text's first token is the end token.
    """

    output: Predictor
    source_attention = None
    context: int | None = None
    """Largest number of tokens in a row; None for any number."""

    @abstractmethod
    def begin(self, batch: int) -> S:
        """The state before the first token, for `batch` texts."""

    @abstractmethod
    def carried(self, state: S) -> S | None:
        """The part of the state that carries over to the next part of a long text, as tensors without a gradient; None
        if every part is read by itself."""

    def start(self, memory: Memory) -> S:
        """`begin` for as many texts as the memory has rows. Nothing else of the memory is read."""
        return self.begin(len(memory.value))

    def zeros(self, *shape: int) -> Tensor:
        """Zeros of this shape, with the model's dtype and device."""
        weight = next(self.parameters())
        return torch.zeros(shape, dtype=weight.dtype, device=weight.device)

    def forward(
        self, tokens: Tokens, state: S
    ) -> tuple[Float[Tensor, "batch position vocabulary"], S]:
        """Logits `(batch, position, vocabulary)` of the token after each token, and the new state.
        `output.loss(features, expected)` computes their loss from the features of `run` without storing them."""
        features, state = self.run(tokens, state)
        return self.output(features), state


def make_output(
    width: int, embedding: TokenEmbedding, kind: Callable[..., Output], *, tied: bool
) -> tuple[nn.Module, Output]:
    """A module from states of this width to features, and the output layer. If the output layer is tied to the
    embedding, the module is linear: states between -1 and 1 would leave the logits flat. Otherwise it is the
    identity."""
    if not tied:
        return nn.Identity(), kind(width, embedding.vocabulary)
    return nn.Linear(width, embedding.width), kind(
        embedding.width, embedding.vocabulary, tied=embedding
    )
