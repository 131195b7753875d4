"""Export runs as ONNX graphs."""

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.errors import InputError
from regard.hub.exporting import write_inputs
from regard.hub.model_card import write_card
from regard.hub.parity import (
    SHAPES,
    Tensors,
    compare_outputs,
    find_limit,
    make_inputs,
    run_model,
)
from regard.models.bert import Bert, BertClassifier, BertSpans, BertTagger
from regard.models.gpt2 import GPT2
from regard.models.transformer import Transformer
from regard.models.vit import Vit
from regard.runs.run_file import load
from regard.storage.atomic import explain_errors, new_folder

FOLDER = "onnx"
"""The folder of the graphs within an export."""


@dataclass(frozen=True)
class Graph:
    """A graph to write.

    Attributes:
        name: The name of its file.
        model: The model.
        run: Returns the outputs of the model by name for inputs by name.
        make: Returns inputs for a number of texts and of positions. The first axis is
            the batch; a second axis of positions has any length.
    """

    name: str
    model: Any
    run: Callable[[Any, Tensors], Tensors]
    make: Callable[[int, int], Tensors]


class GraphModule(nn.Module):
    """A graph with its inputs by position, as the exporter needs it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.model = graph.model
        self.graph = graph
        self.names = list(graph.make(2, 7))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs."""
        named = dict(zip(self.names, inputs, strict=True))
        return tuple(self.graph.run(self.model, named).values())


def make_graphs(model: Any) -> list[Graph]:
    """Return the graphs of a model. Raise InputError for a model without one."""

    def make(texts: int, positions: int) -> Tensors:
        return make_inputs(model, texts, positions)

    def make_source(texts: int, positions: int) -> Tensors:
        inputs = make(texts, positions)
        return {name: inputs[name] for name in ("input_ids", "attention_mask")}

    def make_target(texts: int, positions: int) -> Tensors:
        inputs = make(texts, positions + 1)
        mask = inputs["attention_mask"]
        width = model.decoder.embedding.width
        states = torch.linspace(-1, 1, mask.numel() * width)
        return {
            "input_ids": inputs["decoder_input_ids"][:, 1:],
            "encoder_hidden_states": states.view(*mask.shape, width),
            "encoder_attention_mask": mask,
        }

    if isinstance(model, Transformer):
        return [
            Graph("encoder_model", model, compute_states, make_source),
            Graph("decoder_model", model, compute_target, make_target),
        ]
    has_graph = (Bert, BertClassifier, BertTagger, BertSpans, GPT2)
    if isinstance(model, has_graph) or (isinstance(model, Vit) and model.classes):
        return [Graph("model", model, run_model, make)]
    raise InputError(
        f"a {type(model).__name__} has no ONNX graph; regard exports BERT, ViT, GPT-2 "
        "and Transformers, and no recurrent models"
    )


def compute_states(model: Any, inputs: Tensors) -> Tensors:
    """Return the encoder's states of sources with their end."""
    lengths = inputs["attention_mask"].sum(1)
    return {"last_hidden_state": model.encoder(inputs["input_ids"], lengths).value}


def compute_target(model: Any, inputs: Tensors) -> Tensors:
    """Return the logits of each next token of targets that begin with the start."""
    lengths = inputs["encoder_attention_mask"].sum(1)
    memory = Memory.of(inputs["encoder_hidden_states"], lengths)
    decoder = model.decoder
    features = decoder.features(inputs["input_ids"], decoder.start(memory))
    return {"logits": decoder.output(features)}


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
    inputs = graph.make(2, 7)
    batch = torch.export.Dim("batch", min=1)
    limit = find_limit(graph.model)
    axes = {
        name: torch.export.Dim(name, min=2, max=limit)
        for name in ("source", "position")
    }
    shapes = []
    for name, tensor in inputs.items():
        shape: dict[int, Any] = {0: batch}
        if tensor.ndim in (2, 3):  # not pixels
            shape[1] = axes["source" if name.startswith("encoder_") else "position"]
        shapes.append(shape)
    # the exporter reports about itself and missing packages
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with (
        warnings.catch_warnings(action="ignore"),
        torch._dynamo.config.patch(fake_tensor_cache_enabled=False),
    ):
        program: Any = torch.onnx.export(
            GraphModule(graph),
            tuple(inputs.values()),
            dynamo=True,
            dynamic_shapes=(tuple(shapes),),
            input_names=list(inputs),
            output_names=list(graph.run(graph.model, inputs)),
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
        inputs = graph.make(texts, max(2, positions))
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        names = [output.name for output in session.get_outputs()]
        results = map(torch.from_numpy, session.run(names, arrays))
        published = dict(zip(names, results, strict=True))
        outputs = graph.run(graph.model, inputs)
        compare_outputs(outputs, published, inputs, path.parent.parent)
