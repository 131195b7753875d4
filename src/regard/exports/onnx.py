"""Runs as ONNX graphs, for onnxruntime and others."""

import warnings
from pathlib import Path
from typing import Any

import torch

from regard.exchange.comparison import SHAPES, compare
from regard.exports.folder import write_tokenizers, writing
from regard.exports.graphs import Graph, graphs
from regard.runs import load


def export_onnx(path: Path, out: Path) -> list[str]:
    """Write a run's model to the folder `out` as graphs, NAME.onnx, beside its tokenizers, and check the graphs: at
    three sizes, run by onnxruntime.

    Returns: what it was checked against.

    Raises:
        InputError: no graph is made of the run's model, or `out` exists.
        RunError: what was written does not compute the same; it is removed.
    """
    run = load(path, "cpu")
    parts = graphs(run.model)
    with writing(out) as folder:
        write_tokenizers(run, folder)
        for graph in parts:
            write(graph, folder / f"{graph.name}.onnx")
            check(graph, folder / f"{graph.name}.onnx")
    return ["onnxruntime"]


@torch.no_grad()
def write(graph: Graph, path: Path) -> None:
    """Write a graph whose inputs may have any sizes."""
    batch = torch.export.Dim("batch", min=1)
    sizes = {"batch": batch}
    for axes in graph.axes.values():
        for name in axes.values():
            sizes.setdefault(name, torch.export.Dim(name, min=2, max=graph.most))
    shapes = [{place: sizes[name] for place, name in axes.items()} for axes in graph.axes.values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        program: Any = torch.onnx.export(
            graph.module,
            graph.example(2, 7),
            dynamo=True,
            dynamic_shapes=tuple(shapes),
            input_names=list(graph.axes),
            output_names=list(graph.outputs),
            verbose=False,
        )
    program.save(str(path))


@torch.no_grad()
def check(graph: Graph, path: Path) -> None:
    """Raises RunError where onnxruntime computes something else."""
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for texts, positions in SHAPES:
        given = graph.example(texts, max(2, min(positions, graph.most)))
        named = {name: tensor.numpy() for name, tensor in zip(graph.axes, given, strict=True)}
        expected = graph.module(*given)
        for one, other in zip(
            (expected,) if isinstance(expected, torch.Tensor) else expected, session.run(None, named), strict=True
        ):
            compare(one, torch.from_numpy(other), path.parent)
