"""Export runs as ONNX graphs."""

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.errors import InputError
from regard.hub.card import write_card
from regard.hub.exporting import write_inputs
from regard.hub.parity import SHAPES, compare
from regard.models.bert import Bert, BertClassifier, BertSpans, BertTagger
from regard.models.gpt2 import GPT2
from regard.models.transformer import Transformer
from regard.models.vit import Vit
from regard.runs.load import load
from regard.storage.atomic import explain_errors, new_folder

LONGEST = 4096
"""The maximum of positions in a graph whose model has no limit."""
FOLDER = "onnx"
"""The folder of the graphs within an export."""


class Exported(nn.Module):
    """A part of a model as a graph: tensors to tensors."""

    def __init__(self, model: nn.Module, compute: Callable[..., Any]):
        super().__init__()
        self.model = model
        self.compute = compute

    def forward(self, *inputs: Tensor) -> Any:
        """Return the outputs."""
        return self.compute(self.model, *inputs)


@dataclass(frozen=True)
class Graph:
    """A graph to write.

    Attributes:
        name: The name of its file.
        module: What it computes.
        example: From a number of texts and of positions to its inputs by name. The first
            axis is the batch; a second axis of positions has any length.
        outputs: The names of its outputs.
        limit: The largest number of positions.
    """

    name: str
    module: nn.Module
    example: Callable[[int, int], dict[str, Tensor]]
    outputs: Sequence[str]
    limit: int = LONGEST


def make_graphs(model: nn.Module) -> list[Graph]:
    """Return the graphs of a model. Raise InputError for a model without one."""
    match model:
        case Bert() | BertClassifier() | BertTagger() | BertSpans():
            return [_reader(model)]
        case Vit() if model.classes:
            config = model.config

            def pixels(images: int, _: int) -> dict[str, Tensor]:
                shape = images, config.channels, config.image, config.image
                numbers = torch.linspace(-2, 2, torch.Size(shape).numel())
                return {"pixel_values": numbers.sin().view(shape)}

            return [Graph("model", model, pixels, ["logits"])]
        case GPT2():
            size = model.embedding.vocabulary
            context = model.context or LONGEST

            def tokens(texts: int, positions: int) -> dict[str, Tensor]:
                return {"input_ids": example_ids(texts, positions, size)}

            module = Exported(model, compute_language_model)
            return [Graph("model", module, tokens, ["logits"], context)]
        case Transformer():
            return _encoder_and_decoder(model)
    raise InputError(
        f"a {type(model).__name__} has no ONNX graph; regard exports BERT, ViT, GPT-2 "
        "and Transformers"
    )


def example_ids(texts: int, positions: int, vocabulary: int) -> Tensor:
    """Return distinct ids as far as the vocabulary reaches."""
    return torch.arange(texts * positions).view(texts, positions) % vocabulary


def example_mask(texts: int, positions: int) -> Tensor:
    """Return a mask of texts of which the last is the shortest."""
    lengths = positions - torch.arange(texts) % positions
    return (torch.arange(positions) < lengths[:, None]).long()


def compute_reader(model: Any, ids: Tensor, mask: Tensor, *segments: Tensor) -> Any:
    """Read texts, behind which padding stands, with a BERT or one of its heads."""
    outputs = model(ids, mask.sum(1), *segments)
    if isinstance(model, BertSpans):
        return outputs[..., 0], outputs[..., 1]
    if isinstance(model, Bert) and model.predictions is not None:
        return outputs, model.predictions(outputs)
    return outputs


def compute_language_model(model: Any, ids: Tensor) -> Tensor:
    """Return the logits of each next token of whole texts."""
    return model(ids, model.begin(ids.shape[0]))[0]


def compute_states(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the encoder's states of sources with their end."""
    return model.encoder(ids, mask.sum(1)).value


def compute_target(model: Any, ids: Tensor, states: Tensor, mask: Tensor) -> Tensor:
    """Return the logits of each next token of targets that begin with the start."""
    decoder = model.decoder
    memory = Memory.of(states, mask.sum(1))
    return decoder.output(decoder.features(ids, decoder.start(memory)))


def _reader(model: Any) -> Graph:
    encoder = model.encoder
    kinds = 0 if encoder.segments is None else encoder.segments.num_embeddings

    def example(texts: int, positions: int) -> dict[str, Tensor]:
        ids = example_ids(texts, positions, encoder.embedding.vocabulary)
        mask = example_mask(texts, positions)
        inputs = {"input_ids": ids, "attention_mask": mask}
        if kinds > 1 and not isinstance(model, BertTagger):
            segments = torch.arange(positions) // (positions - 1)
            inputs["token_type_ids"] = segments.repeat(texts, 1)
        return inputs

    outputs = ["logits"]
    if isinstance(model, BertSpans):
        outputs = ["start_logits", "end_logits"]
    elif isinstance(model, Bert):
        head = [] if model.predictions is None else ["logits"]
        outputs = ["last_hidden_state", *head]
    module = Exported(model, compute_reader)
    return Graph("model", module, example, outputs, encoder.context)


def _encoder_and_decoder(model: Any) -> list[Graph]:
    encoder = model.encoder
    decoder = model.decoder
    limit = model.max_source or LONGEST

    def source(texts: int, positions: int) -> dict[str, Tensor]:
        ids = example_ids(texts, positions, encoder.embedding.vocabulary)
        return {"input_ids": ids, "attention_mask": example_mask(texts, positions)}

    def target(texts: int, positions: int) -> dict[str, Tensor]:
        shape = texts, positions + 1, decoder.embedding.width
        states = torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape)
        return {
            "input_ids": example_ids(texts, positions, decoder.embedding.vocabulary),
            "encoder_hidden_states": states,
            "encoder_attention_mask": example_mask(texts, positions + 1),
        }

    first = Exported(model, compute_states)
    second = Exported(model, compute_target)
    return [
        Graph("encoder_model", first, source, ["last_hidden_state"], limit),
        Graph("decoder_model", second, target, ["logits"], limit),
    ]


def export_onnx(path: Path, out: Path) -> list[str]:
    """Export a run's model as graphs, and compare each with the model.

    The graphs are onnx/NAME.onnx, with the files of the published family beside them, in
    the names of optimum and transformers.js.

    Returns:
        The runtimes that checked the export.

    Raises:
        InputError: The run's model has no graph, or `out` exists.
        RunError: The export computes other values; it is removed.
    """
    run = load(path, "cpu")
    graphs = make_graphs(run.model)
    with new_folder(out), explain_errors(out):
        write_card(path, out, "ONNX")
        write_inputs(run, out)
        (out / FOLDER).mkdir()
        for graph in graphs:
            write(graph, out / FOLDER / f"{graph.name}.onnx")
            check(graph, out / FOLDER / f"{graph.name}.onnx")
    return ["onnxruntime"]


@torch.no_grad()
def write(graph: Graph, path: Path) -> None:
    """Write a graph with inputs of dynamic size."""
    inputs = graph.example(2, 7)
    batch = torch.export.Dim("batch", min=1)
    dims = {}
    shapes = []
    for name, tensor in inputs.items():
        shape: dict[int, Any] = {0: batch}
        if tensor.ndim in (2, 3):  # not pixels
            axis = "source" if name.startswith("encoder_") else "position"
            dims.setdefault(axis, torch.export.Dim(axis, min=2, max=graph.limit))
            shape[1] = dims[axis]
        shapes.append(shape)
    is_wrapped = isinstance(graph.module, Exported)
    # the exporter reports about itself and missing packages
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with (
        warnings.catch_warnings(action="ignore"),
        torch._dynamo.config.patch(fake_tensor_cache_enabled=False),
    ):
        program: Any = torch.onnx.export(
            graph.module,
            tuple(inputs.values()),
            dynamo=True,
            dynamic_shapes=(tuple(shapes),) if is_wrapped else tuple(shapes),
            input_names=list(inputs),
            output_names=list(graph.outputs),
            verbose=False,
        )
    program.save(str(path))


@torch.no_grad()
def check(graph: Graph, path: Path) -> None:
    """Raise RunError if the outputs in onnxruntime differ."""
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    for texts, positions in SHAPES:
        inputs = graph.example(texts, max(2, min(positions, graph.limit)))
        outputs = graph.module(*inputs.values())
        expected = (outputs,) if isinstance(outputs, Tensor) else outputs
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        for tensor, result in zip(expected, session.run(None, arrays), strict=True):
            compare(tensor, torch.from_numpy(result), path.parent.parent)
