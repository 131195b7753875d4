"""What every language model is: a decoder that has no source."""

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
    """p(text) as the product over its tokens of softmax(output(features)), each given those before it.

    A text follows another: what stands before its first token is the end.
    """

    output: Predictor
    source_attention = None
    context: int | None = None
    """The most tokens that can be read in a row; None: any number."""

    @abstractmethod
    def begin(self, batch: int) -> S:
        """The state before anything is read, for so many texts."""

    @abstractmethod
    def carried(self, state: S) -> S | None:
        """What goes on from one part of a long text to the next, as tensors alone and without a gradient; None: every
        part is read by itself."""

    def start(self, memory: Memory) -> S:
        """As `begin`, for as many texts as the memory has rows; there is no source, so nothing else of it is read."""
        return self.begin(len(memory.value))

    def nothing(self, *shape: int) -> Tensor:
        """Zeros of this shape, of the model's type and on its device."""
        weight = next(self.parameters())
        return torch.zeros(shape, dtype=weight.dtype, device=weight.device)

    def forward(self, tokens: Tokens, state: S) -> tuple[Float[Tensor, "batch position vocabulary"], S]:
        """Logits `(batch, position, vocabulary)` of what follows each token, and the state after the last. Their loss
        without storing them is `output.loss(features, expected)` of what `run` gives."""
        features, state = self.run(tokens, state)
        return self.output(features), state


def make_output(
    width: int, embedding: TokenEmbedding, kind: Callable[..., Output], *, tied: bool
) -> tuple[nn.Module, Output]:
    """What makes features of states of this width, and the output layer on them. One that shares the embedding's weight
    has a linear map before it: states between -1 and 1 alone would leave the logits flat."""
    if not tied:
        return nn.Identity(), kind(width, embedding.vocabulary)
    return nn.Linear(width, embedding.width), kind(embedding.width, embedding.vocabulary, tied=embedding)
