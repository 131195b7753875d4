"""Language models: their base class, blocks with KV caches, kinds of output softmax, and the recurrent one."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.attention.heads import empty_cache
from regard.attention.memory import KVCache, Memory
from regard.models.sizes import Share, Size
from regard.nn.decoders import S, SequenceDecoder, State
from regard.nn.layers import Output, OutputLayer, TokenEmbedding, VariationalDropout
from regard.nn.output import AdaptiveOutput, SampledOutput
from regard.nn.recurrent import RecurrentName, RecurrentStack
from regard.shapes import Logits, States, Tokens


@dataclass(frozen=True)
class FullSoftmax:
    """Training with the softmax over the whole vocabulary."""

    kind: Literal["full"] = "full"


@dataclass(frozen=True)
class SampledSoftmax:
    """Training with the softmax over the target and a sample of other words.

    `samples` words are sampled for each batch. Validation and decoding use the full
    softmax. It works best if ids are sorted by frequency.
    """

    kind: Literal["sampled"] = "sampled"
    samples: Size = 8192


@dataclass(frozen=True)
class AdaptiveSoftmax:
    """A softmax over frequent words and clusters of others, then within the cluster.

    It is exact, and fast if ids are sorted by frequency. Ids below the first of
    `cutoffs` are frequent, and each further cutoff ends a cluster.
    """

    kind: Literal["adaptive"] = "adaptive"
    cutoffs: tuple[Size, ...] = (4000, 12000)

    def __post_init__(self) -> None:
        if not self.cutoffs or list(self.cutoffs) != sorted(set(self.cutoffs)):
            raise ValueError(
                f"cutoffs are {list(self.cutoffs)}; expected at least one id, each above the one before"
            )


Softmax = FullSoftmax | SampledSoftmax | AdaptiveSoftmax
FULL = FullSoftmax()


def output_kind(softmax: Softmax) -> Callable[..., Output]:
    """Return a function that builds the output layer of a softmax, from its sizes."""
    match softmax:
        case SampledSoftmax(samples=samples):
            return partial(SampledOutput, samples=samples)
        case AdaptiveSoftmax(cutoffs=cutoffs):
            return partial(AdaptiveOutput, cutoffs=cutoffs)
        case _:
            return Output


def check_smoothing(softmax: Softmax, smoothing: float) -> None:
    """Check that label smoothing is used with the full softmax only.

    Raises:
        ValueError: It is used with another softmax, where most words have no logit.
    """
    if smoothing and not isinstance(softmax, FullSoftmax):
        raise ValueError(
            "training.label_smoothing needs a full softmax; set it to 0 or model.softmax.kind to full"
        )


class LanguageModel(SequenceDecoder[S]):
    """A model of each token of a text, given the tokens before it.

        p(text) = prod_t p(y_t | y_1 ... y_{t-1}) = prod_t softmax(output(features_t))
        loss = -1/T sum_t log p(y_t | y_1 ... y_{t-1}),  perplexity = exp(loss)

    Texts follow one another: the token before a text's first token is the end token.
    """

    output: OutputLayer
    source_attention = None
    context: int | None = None
    """Largest number of tokens in a row; None for any number."""
    shorter_windows: ClassVar[bool] = False
    """Whether it may be trained on windows that are shorter than `context`."""

    @abstractmethod
    def begin(self, batch: int) -> S:
        """Return the state before the first token, for `batch` texts."""

    def detach_state(self, state: S) -> S | None:
        """Return what carries over to the next part of a long text, without a gradient.

        The default, None, reads every part by itself.
        """
        return None

    def start(self, memory: Memory) -> S:
        """Return the state before the first token, for each row of the memory.

        The memory's values are not read: a language model has no source.
        """
        return self.begin(len(memory.value))

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros of this shape, with the model's dtype and device."""
        weight = next(self.parameters())
        return torch.zeros(shape, dtype=weight.dtype, device=weight.device)

    def forward(
        self,
        tokens: Tokens,
        state: S,
    ) -> tuple[Logits, S]:
        """Predict the token after each token.

        Training does not call it: `output.loss(features, targets)` computes the loss
        from the features of `run` without storing all logits.

        Returns:
            Logits `(batch, position, vocabulary)`, and the new state.
        """
        features, state = self.run(tokens, state)
        return self.output(features), state


@dataclass(frozen=True, eq=False)
class CausalState(State):
    """The KV cache of each layer."""

    caches: tuple[KVCache, ...]

    @property
    def position(self) -> int:
        """Number of tokens read so far."""
        return self.caches[0].position


class Blocks(nn.ModuleList):
    """Blocks on top of each other.

    A block has a `self_attention`, and maps the states of positions and the cache of
    those before them to its states and the cache that includes them.
    """

    def start(self, like: Tensor) -> CausalState:
        """Return the state before the first token, for as many texts as `like (batch, ...)` has rows."""
        blocks: Any = self
        return CausalState(
            tuple(empty_cache(block.self_attention, like) for block in blocks)
        )

    def forward(self, states: States, state: CausalState) -> tuple[States, CausalState]:
        """Return the last block's states of the next positions, and the state after them."""
        caches = []
        for block, cache in zip(self, state.caches, strict=True):
            states, grown = block(states, cache)
            caches.append(grown)
        return states, replace(state, caches=tuple(caches))


def make_output(
    width: int,
    embedding: TokenEmbedding,
    kind: Callable[..., Output],
    *,
    tied: bool,
) -> tuple[nn.Module, Output]:
    """Return a module from states of this width to features, and the output layer.

    If the output layer is tied to the embedding, the module is linear: states between
    -1 and 1 would leave the logits flat. Otherwise it is the identity.
    """
    if not tied:
        return nn.Identity(), kind(width, embedding.vocabulary)
    return nn.Linear(width, embedding.width), kind(
        embedding.width, embedding.vocabulary, tied=embedding
    )


@dataclass(frozen=True)
class RecurrentLanguageModelConfig:
    """The sizes and options of a `RecurrentLanguageModel`.

    `tied` shares the output layer's weight with the embedding (Inan 2017, 1611.01462;
    Press 2017, 1608.05859). `dropout` applies to the input of each layer and to the
    last output, with one mask for all positions (Gal 2016, 1512.05287).
    """

    name: Literal["recurrent"] = "recurrent"
    cell: RecurrentName = "lstm"
    embedding: Size = 256
    width: Size = 256
    layers: Size = 2
    tied: bool = True
    dropout: Share = 0.3
    softmax: Softmax = FULL


@dataclass(frozen=True, eq=False)
class RecurrentState(State):
    """The state of all layers, `(batch, layer, state_width)`."""

    cells: Tensor


class RecurrentLanguageModel(LanguageModel[RecurrentState]):
    """A language model with a recurrent network.

        h_t = f(E y_{t-1}, h_{t-1}),  p(y_t) = softmax(W h_t)

    The state carries over from one part of a text to the next.
    """

    config_class = RecurrentLanguageModelConfig

    def __init__(self, vocabulary: int, config: RecurrentLanguageModelConfig):
        super().__init__()
        self.embedding = TokenEmbedding(vocabulary, config.embedding)
        dropout = VariationalDropout(config.dropout)
        self.network = RecurrentStack(
            config.cell, config.embedding, config.width, config.layers, dropout
        )
        self.readout, self.output = make_output(
            config.width, self.embedding, output_kind(config.softmax), tied=config.tied
        )

    def begin(self, batch: int) -> RecurrentState:
        return RecurrentState(self.zeros(batch, *self.network.state_shape))

    def detach_state(self, state: RecurrentState) -> RecurrentState:
        return state.detach()

    def run(
        self,
        tokens: Tokens,
        state: RecurrentState,
    ) -> tuple[States, RecurrentState]:
        outputs, cells = self.network(self.embedding(tokens), state.cells)
        return self.readout(outputs), RecurrentState(cells)
