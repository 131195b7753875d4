"""Export runs as ONNX graphs."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from regard.hub.card import write_card
from regard.hub.exports.graphs import Graph, graphs
from regard.hub.exports.preparation import write_preparation
from regard.hub.exports.recurrent import as_operators
from regard.hub.tolerances import SHAPES, compare
from regard.runs.load import load
from regard.storage.atomic import explained, new_folder

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
        write_preparation(run, path, out)
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
            as_operators(graph.module),
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
        found = graph.module(*inputs)
        expected = (found,) if isinstance(found, torch.Tensor) else found
        for own, other in zip(expected, session.run(None, named), strict=True):
            compare(own, torch.from_numpy(other), path.parent.parent)
