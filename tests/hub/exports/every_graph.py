"""Writes every graph of some models and runs it with onnxruntime, which must notice where a model was changed since.
BERT, GPT-2 and the Transformer with default settings are exported by `test_published_names` and
`test_exports`."""

import logging
import tempfile
from collections.abc import Callable
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

Models = dict[str, Callable[[], nn.Module]]
BERT = BertConfig(layers=1, width=12, heads=3, hidden=5, context=17)
HEADLESS = BertConfig(layers=1, width=6, heads=2, hidden=7, context=11, segments=0, predictions=False, pooler=False,
                      next_sentence=False)  # fmt: skip
ATTENTIVE: Models = {
    "bert without heads": lambda: Bert(31, HEADLESS),
    "classes": lambda: BertClassifier(31, 3, BERT),
    "spans": lambda: BertSpans(31, BERT),
    "tags": lambda: BertTagger(31, 3, BERT),
    "vit": lambda: Vit(5, VitConfig(image=12, patch=4, layers=1, width=12, heads=3, hidden=7)),
    "transformer": lambda: Transformer(
        29,
        37,
        TransformerConfig(
            layers=1,
            width=12,
            heads=4,
            key_value_heads=2,
            hidden=5,
            norm="after",
            positions="learned",
            max_length=70,
            shared=False,
            tied=False,
        ),
    ),
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


def main() -> None:
    """A line for each graph. PyTorch would parse its translations of operators for each of them."""
    logging.disable(logging.WARNING)
    once = patch.object(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
    with once, tempfile.TemporaryDirectory() as folder:
        for name, make in ATTENTIVE.items():
            for graph in make_graphs(perturbed(make())):
                path = Path(folder) / "x.onnx"
                onnx.write(graph, path)
                equal = same(graph, path)
                for parameter in graph.module.parameters():
                    parameter.data += 0.3
                print(f"{name} {graph.name}: {'the same' if equal and not same(graph, path) else 'another'}")
