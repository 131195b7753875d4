"""Export runs as ONNX graphs."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention.masks import as_mask
from regard.attention.memory import Memory
from regard.errors import InputError
from regard.hub.card import write_card
from regard.hub.exports.inputs import write_inputs
from regard.hub.parity import SHAPES, compare
from regard.models.bert import Bert, BertClassifier, BertEncoder, BertSpans, BertTagger
from regard.models.gpt2 import GPT2, Block
from regard.models.language_model import LanguageModel
from regard.models.transformer import Transformer
from regard.models.vit import Vit
from regard.nn.embeddings import Learned, TokenEmbedding
from regard.nn.layers import Residual
from regard.nn.transformer import TransformerDecoder, TransformerEncoder
from regard.runs.load import load
from regard.storage.atomic import explained, new_folder

LONGEST = 4096
"""The maximum of positions in a graph whose model has no limit."""
Inputs = tuple[Tensor, ...]
BATCH, ROWS = {0: "batch"}, {0: "batch", 1: "position"}
SOURCE = {0: "batch", 1: "source_position"}
"""Names of the dynamic axes."""


@dataclass(frozen=True)
class Graph:
    """A module and the `name` of its file. `axes` are the dynamic axes of each input, with up to `most` positions.
    `example` makes inputs from a number of texts and a number of positions. Of a graph with a cache, the inputs
    behind the first `fixed` are its keys and values; its axes may have any size, and one is the sum of two."""

    name: str
    module: nn.Module
    axes: dict[str, dict[int, str]]
    outputs: tuple[str, ...]
    example: Callable[[int, int], Inputs]
    most: int
    fixed: int | None = None


def example_ids(texts: int, positions: int, vocabulary: int) -> Tensor:
    """Return distinct ids as far as the vocabulary reaches."""
    return torch.arange(texts * positions).view(texts, positions) % vocabulary


def example_mask(texts: int, positions: int) -> Tensor:
    """Return a mask of texts of which the last is the shortest."""
    lengths = positions - torch.arange(texts) % positions
    return (torch.arange(positions) < lengths[:, None]).long()


class ExportedReader(nn.Module):
    """A BERT with or without a head: ids, a mask of the real ones, and segments where it has them -> the last states,
    logits, or two tensors of logits for a span. Padding follows the text."""

    def __init__(self, model: Bert | BertClassifier | BertSpans | BertTagger):
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> Any:
        model, lengths = self.model, attention_mask.sum(1)
        if isinstance(model, BertTagger):
            return model(input_ids, lengths)
        outputs = model(input_ids, lengths, token_type_ids)
        if isinstance(model, BertSpans):
            return outputs[..., 0], outputs[..., 1]
        if isinstance(model, BertClassifier) or model.predictions is None:
            return outputs
        return outputs, model.predictions(outputs)


class ExportedGPT2(nn.Module):
    """The next tokens with what was read before: ids, a mask `(batch, past + position)` of the real tokens, their
    positions, and the keys and values of each layer `(batch, head, past, width)` -> the logits of each next token, and
    the keys and values with the new ones behind them. Padding precedes the text."""

    def __init__(self, model: GPT2):
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        *past: Tensor,
    ) -> Any:
        model, read = self.model, past[0].shape[2]
        places = (
            torch.arange(input_ids.shape[1], device=input_ids.device)[:, None] + read
        )
        causal = (
            torch.arange(attention_mask.shape[1], device=input_ids.device) <= places
        )
        mask = (attention_mask[:, None] > 0) & causal  # (batch, position, key)
        states = (
            model.embedding(input_ids)
            + cast(Learned, model.positions).table[position_ids]
        )
        present: list[Tensor] = []
        for block, key, value in zip(
            cast("list[Block]", [*model.blocks]), past[::2], past[1::2], strict=True
        ):
            first, second = cast("list[Residual]", [*block.residuals])
            new = first.input(states)
            own = block.self_attention.prepare(Memory(new, new))
            key, value = torch.cat([key, own.key], 2), torch.cat([value, own.value], 2)
            context = block.self_attention.read(
                new, Memory(key, value, as_mask(mask[:, None]), zero_masked=False)
            ).context
            states = first.add(states, context)
            states = second.add(states, block.feedforward(second.input(states)))
            present += [key, value]
        return model.output(model.norm(states)), *present


class ExportedTexts(nn.Module):
    """Whole texts of a language model whose keys depend on their distance -> the logits of each next token."""

    def __init__(self, model: LanguageModel):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.model(input_ids, self.model.begin(input_ids.shape[0]))[0]


class ExportedEncoder(nn.Module):
    """Source ids with the end, and a mask of the real ones -> the encoder's states."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.encoder = model.encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.encoder(input_ids, attention_mask.sum(1)).value


class ExportedDecoder(nn.Module):
    """The target prefix, beginning with the start token, the encoder's states and a mask of the real ones -> the logits
    of each next token."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.decoder = model.decoder

    def forward(
        self,
        input_ids: Tensor,
        encoder_hidden_states: Tensor,
        encoder_attention_mask: Tensor,
    ) -> Tensor:
        memory = Memory.of(encoder_hidden_states, encoder_attention_mask.sum(1))
        return self.decoder.output(
            self.decoder.features(input_ids, self.decoder.start(memory))
        )


def graphs(model: nn.Module) -> list[Graph]:
    """Return the graphs of a model. Raises InputError for a model without one."""
    match model:
        case Bert():
            outputs = (
                ("last_hidden_state",)
                if model.predictions is None
                else ("last_hidden_state", "logits")
            )
            return [_read_at_once(model, model.encoder, outputs)]
        case BertClassifier() | BertTagger():
            return [_read_at_once(model, model.encoder, ("logits",))]
        case BertSpans():
            return [_read_at_once(model, model.encoder, ("start_logits", "end_logits"))]
        case Vit() if model.classes:
            return [_of_images(model)]
        case GPT2() if isinstance(model.positions, Learned):
            return [_cached(model)]
        case GPT2():
            size, most = model.embedding.vocabulary, model.context or LONGEST

            def tokens(texts: int, positions: int) -> Inputs:
                return (example_ids(texts, positions, size),)

            return [
                Graph(
                    "model",
                    ExportedTexts(model),
                    {"input_ids": ROWS},
                    ("logits",),
                    tokens,
                    most,
                )
            ]
        case Transformer():
            return _in_two(model)
    raise InputError(
        f"a {type(model).__name__} has no ONNX graph; regard exports BERT, ViT, GPT-2 "
        "and Transformers"
    )


def _read_at_once(model: Any, encoder: BertEncoder, outputs: tuple[str, ...]) -> Graph:
    size, most = encoder.embedding.vocabulary, encoder.context
    more = encoder.segments is not None and encoder.segments.num_embeddings > 1
    segments = more and not isinstance(model, BertTagger)

    def example(texts: int, positions: int) -> Inputs:
        ids, mask = example_ids(texts, positions, size), example_mask(texts, positions)
        return (
            ids,
            mask,
            torch.arange(positions).expand(texts, -1) // (positions - 1),
        )[: 3 if segments else 2]

    names = ("input_ids", "attention_mask", *(["token_type_ids"] if segments else []))
    return Graph(
        "model",
        ExportedReader(model),
        dict.fromkeys(names, ROWS),
        outputs,
        example,
        most,
    )


def _cached(model: GPT2) -> Graph:
    """Return the graph of the next tokens behind a cache."""
    size, layers = model.embedding.vocabulary, range(len(model.blocks))
    heads = cast(Block, model.blocks[0]).self_attention
    width = heads.key.out_features // heads.heads

    def example(texts: int, positions: int) -> Inputs:
        read = max(2, positions - 2)
        real = torch.ones(texts, read + positions, dtype=torch.int64)
        real[-1, : read // 2] = 0  # padding before the last text
        place = (real.cumsum(1) - 1).clamp(min=0)[:, read:]
        shape = (texts, heads.heads, read, width)
        past = [
            torch.linspace(-1, 1 + number, math.prod(shape)).sin().view(shape)
            for number in range(2 * len(layers))
        ]
        return example_ids(texts, positions, size), real, place, *past

    parts = [f"{number}.{part}" for number in layers for part in ("key", "value")]
    axes = {
        "input_ids": ROWS,
        "attention_mask": {0: "batch", 1: "total"},
        "position_ids": ROWS,
    }
    axes |= {f"past_key_values.{part}": {0: "batch", 2: "past"} for part in parts}
    outputs = ("logits", *(f"present.{part}" for part in parts))
    most = (model.context or LONGEST) // 2
    return Graph("model", ExportedGPT2(model), axes, outputs, example, most, fixed=3)


def _of_images(model: Vit) -> Graph:
    """Return the graph of images of the model's own size: `pixel_values (batch, channel, height, width)` -> logits."""
    shape = model.config.channels, model.config.image, model.config.image

    def pixels(images: int, _: int) -> Inputs:
        return (
            torch.linspace(-2, 2, images * math.prod(shape)).sin().view(images, *shape),
        )

    return Graph("model", model, {"pixel_values": BATCH}, ("logits",), pixels, LONGEST)


def _in_two(model: Transformer) -> list[Graph]:
    """Return the encoder's and the decoder's graph."""
    encoder, decoder = (
        cast(TransformerEncoder, model.encoder),
        cast(TransformerDecoder, model.decoder),
    )
    width, most = decoder.embedding.width, model.max_source or LONGEST
    sizes = (
        cast(TokenEmbedding, encoder.embedding).vocabulary,
        decoder.embedding.vocabulary,
    )

    def read(texts: int, positions: int) -> Inputs:
        return example_ids(texts, positions, sizes[0]), example_mask(texts, positions)

    def written(texts: int, positions: int) -> Inputs:
        states = torch.linspace(-1, 1, texts * (positions + 1) * width).view(
            texts, positions + 1, width
        )
        return (
            example_ids(texts, positions, sizes[1]),
            states,
            example_mask(texts, positions + 1),
        )

    memory = {"encoder_hidden_states": SOURCE, "encoder_attention_mask": SOURCE}
    sources = {"input_ids": SOURCE, "attention_mask": SOURCE}
    return [
        Graph(
            "encoder_model",
            ExportedEncoder(model),
            sources,
            ("last_hidden_state",),
            read,
            most,
        ),
        Graph(
            "decoder_model",
            ExportedDecoder(model),
            {"input_ids": ROWS} | memory,
            ("logits",),
            written,
            most,
        ),
    ]


FOLDER = "onnx"
"""The folder of the graphs within an export."""


def export_onnx(path: Path, out: Path) -> list[str]:
    """Export a run's model to the folder `out` as graphs, onnx/NAME.onnx, with the files of its published family beside
    them: names and places are those of optimum and transformers.js. Compare each graph in onnxruntime with the model at
    three sizes.

    Returns: the runtimes that checked the export.

    Raises:
        InputError: the run's model has no graph, or `out` exists.
        RunError: the export computes other values; it is removed.
    """
    run = load(path, "cpu")
    parts = graphs(run.model)
    with new_folder(out), explained(out):
        write_card(path, out, "ONNX")
        write_inputs(run, out)
        (out / FOLDER).mkdir()
        for graph in parts:
            write(graph, out / FOLDER / f"{graph.name}.onnx")
            check(graph, out / FOLDER / f"{graph.name}.onnx")
    return ["onnxruntime"]


@torch.no_grad()
def write(graph: Graph, path: Path) -> None:
    """Write a graph with inputs of dynamic size."""
    batch = torch.export.Dim("batch", min=1)
    sizes: dict[str, Any] = {"batch": batch}
    for axes in graph.axes.values():
        for name in axes.values():
            sizes.setdefault(name, torch.export.Dim(name, min=2, max=graph.most))
    shapes: Any = tuple(
        {place: sizes[name] for place, name in axes.items()}
        for axes in graph.axes.values()
    )
    if graph.fixed is not None:
        free: list[Any] = [
            dict.fromkeys(axes, torch.export.Dim.AUTO) for axes in graph.axes.values()
        ]
        shapes = (*free[: graph.fixed], tuple(free[graph.fixed :]))
    with (
        quiet(),
        torch._dynamo.config.patch(fake_tensor_cache_enabled=False),
    ):  # with sizes left open it costs more
        program: Any = torch.onnx.export(
            graph.module,
            graph.example(2, 7),
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=list(graph.axes),
            output_names=list(graph.outputs),
            verbose=False,
        )
    program.save(str(path))


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the exporter's reports about itself and missing packages."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@torch.no_grad()
def check(graph: Graph, path: Path) -> None:
    """Raises RunError if onnxruntime's outputs differ."""
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    for texts, positions in SHAPES:
        inputs = graph.example(texts, max(2, min(positions, graph.most)))
        named = {
            name: tensor.numpy()
            for name, tensor in zip(graph.axes, inputs, strict=True)
        }
        outputs = graph.module(*inputs)
        expected = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        for own, other in zip(expected, session.run(None, named), strict=True):
            compare(own, torch.from_numpy(other), path.parent.parent)
