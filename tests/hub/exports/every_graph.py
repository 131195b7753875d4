"""What only a process without type checks exports, since under them no sizes can be left open: commands, and every
graph of some models, of which onnxruntime must notice a changed weight."""

import contextlib
import io
import json
import logging
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from unittest.mock import patch

import torch
from torch import nn
from torch.onnx._internal.exporter._registration import ONNXRegistry

from regard.errors import RunError
from regard.hub.exports import onnx
from regard.hub.exports.onnx import Graph, make_graphs
from regard.models.bert import Bert, BertClassifier, BertConfig, BertSpans, BertTagger
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vit import Vit, VitConfig

BERT = BertConfig(layers=1, width=12, heads=3, hidden=5, context=17)
HEADLESS = BertConfig(layers=1, width=6, heads=2, hidden=7, context=11, segments=0, predictions=False, pooler=False,
                      next_sentence=False)  # fmt: skip
UNTIED = TransformerConfig(layers=1, width=12, heads=4, key_value_heads=2, hidden=5, norm="after",
                           positions="learned", max_length=70, shared=False, tied=False)  # fmt: skip
MODELS: dict[str, Callable[[], nn.Module]] = {
    "bert without heads": lambda: Bert(31, HEADLESS),
    "classes": lambda: BertClassifier(31, 3, BERT),
    "spans": lambda: BertSpans(31, BERT),
    "tags": lambda: BertTagger(31, 3, BERT),
    "vit": lambda: Vit(5, VitConfig(image=12, patch=4, layers=1, width=12, heads=3, hidden=7)),
    "transformer": lambda: Transformer(29, 37, UNTIED),
}


def perturbed(model: nn.Module) -> nn.Module:
    """With no parameter at zero or one, so that each counts."""
    torch.manual_seed(5)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.eval()


def same(graph: Graph, path: Path) -> bool:
    try:
        onnx.check(graph, path)
    except RunError:
        return False
    return True


def run_commands(commands: Sequence[Sequence[str]]) -> None:
    """Print the code, the output and the errors of each command as a line of JSON."""
    from regard.cli.main import main

    with translations_read_once():
        for command in commands:
            streams = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
                code = main(command)
            print(json.dumps([code, *(stream.getvalue() for stream in streams)]))


def translations_read_once() -> contextlib.AbstractContextManager[object]:
    """PyTorch would parse its translations of operators for each graph."""
    return patch.object(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))


def compare_graphs() -> None:
    """Print a line for each graph."""
    logging.disable(logging.WARNING)
    with translations_read_once(), tempfile.TemporaryDirectory() as folder:
        for name, make in MODELS.items():
            for graph in make_graphs(perturbed(make())):
                path = Path(folder) / "x.onnx"
                onnx.write(graph, path)
                equal = same(graph, path)
                for parameter in graph.model.parameters():
                    parameter.data += 0.3
                print(f"{name} {graph.name}: {'the same' if equal and not same(graph, path) else 'another'}")
