"""The parts of a model that become ONNX graphs: modules over tensors only, with example inputs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.errors import InputError
from regard.models.bert import Bert, BertClassifier, BertEncoder, BertSpans, BertTagger
from regard.models.gpt2 import GPT2
from regard.models.transformer import Transformer
from regard.models.vit import Vit
from regard.nn.decoders.transformer import TransformerDecoder
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoders.transformer import TransformerEncoder

LONGEST = 4096
"""The maximum of positions in a graph whose model has no limit."""
Inputs = tuple[Tensor, ...]
BATCH, ROWS = {0: "batch"}, {0: "batch", 1: "position"}
"""Names of the dynamic axes."""


@dataclass(frozen=True)
class Graph:
    """A module and the `name` of its file. `axes` are the dynamic axes of each input, with up to `most` positions.
    `example` makes inputs from a number of texts and a number of positions."""

    name: str
    module: nn.Module
    axes: dict[str, dict[int, str]]
    outputs: tuple[str, ...]
    example: Callable[[int, int], Inputs]
    most: int


class ExportedBert(nn.Module):
    """Tokens, lengths and segments -> the last states, and the logits at each position."""

    def __init__(self, model: Bert):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor, segments: Tensor) -> Any:
        states = self.model(tokens, lengths, segments)
        return states if self.model.predictions is None else (states, self.model.predictions(states))


class ExportedGPT2(nn.Module):
    """Tokens, beginning with the end token -> the logits of each next token."""

    def __init__(self, model: GPT2):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, self.model.begin(tokens.shape[0]))[0]


class ExportedEncoder(nn.Module):
    """Source tokens with the end and their lengths -> the encoder's states."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.encoder = model.encoder

    def forward(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        return self.encoder(source, source_lengths).value


class ExportedDecoder(nn.Module):
    """The encoder's states, the source lengths and the target prefix, beginning with the start token -> the logits of
    each next token."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.decoder = model.decoder

    def forward(self, states: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
        memory = Memory.of(states, source_lengths)
        return self.decoder.output(self.decoder.features(target, self.decoder.start(memory)))


def graphs(model: nn.Module) -> list[Graph]:
    """Return the graphs of a model. Raises InputError for a model without one."""
    match model:
        case Bert():
            outputs = ("states",) if model.predictions is None else ("states", "logits")
            return [_read_at_once(ExportedBert(model), model.encoder, outputs)]
        case BertClassifier() | BertSpans():
            return [_read_at_once(model, model.encoder, ("logits",))]
        case BertTagger():
            graph = _read_at_once(model, model.encoder, ("logits",))
            axes = {name: graph.axes[name] for name in ("tokens", "lengths")}
            return [replace(graph, axes=axes, example=lambda texts, positions: graph.example(texts, positions)[:2])]
        case Vit():
            return [_of_images(model)]
        case GPT2():
            size = model.embedding.vocabulary

            def tokens(texts: int, positions: int) -> Inputs:
                return (_ids(texts, positions, size),)

            return [
                Graph("model", ExportedGPT2(model), {"tokens": ROWS}, ("logits",), tokens, model.context or LONGEST)
            ]
        case Transformer():
            return _in_two(model)
    raise InputError(
        f"a model of class {type(model).__name__} has no graph; bert, gpt2, transformer and vit are exported to onnx"
    )


def _read_at_once(module: nn.Module, encoder: BertEncoder, outputs: tuple[str, ...]) -> Graph:
    size, most = encoder.embedding.vocabulary, encoder.context

    def example(texts: int, positions: int) -> Inputs:
        ids = _ids(texts, positions, size)
        return ids, _lengths(texts, positions), torch.arange(positions).expand(texts, -1) // (positions - 1)

    return Graph("model", module, {"tokens": ROWS, "lengths": BATCH, "segments": ROWS}, outputs, example, most)


def _of_images(model: Vit) -> Graph:
    """Return the graph of images of the model's own size: `pixel_values (batch, channel, height, width)` -> logits."""
    shape = model.config.channels, model.config.image, model.config.image

    def pixels(images: int, _: int) -> Inputs:
        return (torch.linspace(-2, 2, images * math.prod(shape)).sin().view(images, *shape),)

    return Graph("model", model, {"pixel_values": BATCH}, ("logits",), pixels, LONGEST)


def _in_two(model: Transformer) -> list[Graph]:
    """Return the encoder's and the decoder's graph."""
    encoder, decoder = cast(TransformerEncoder, model.encoder), cast(TransformerDecoder, model.decoder)
    width, most = decoder.embedding.width, model.max_source or LONGEST
    sizes = cast(TokenEmbedding, encoder.embedding).vocabulary, decoder.embedding.vocabulary

    def read(texts: int, positions: int) -> Inputs:
        return _ids(texts, positions, sizes[0]), _lengths(texts, positions)

    def written(texts: int, positions: int) -> Inputs:
        states = torch.linspace(-1, 1, texts * (positions + 1) * width).view(texts, positions + 1, width)
        return states, _lengths(texts, positions + 1), _ids(texts, positions, sizes[1])

    sources = {"source": {0: "batch", 1: "source_position"}, "source_lengths": BATCH}
    memory = {"states": {0: "batch", 1: "source_position"}, "source_lengths": BATCH}
    return [
        Graph("encoder", ExportedEncoder(model), sources, ("states",), read, most),
        Graph("decoder", ExportedDecoder(model), memory | {"target": ROWS}, ("logits",), written, most),
    ]


def _ids(texts: int, positions: int, vocabulary: int) -> Tensor:
    """Return distinct ids as far as the vocabulary reaches."""
    return torch.arange(texts * positions).view(texts, positions) % vocabulary


def _lengths(texts: int, positions: int) -> Tensor:
    """Return lengths of which the last is the shortest."""
    return positions - torch.arange(texts) % positions
