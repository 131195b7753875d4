"""Writes every graph of some models and runs it with onnxruntime, which must notice where a model was changed since.
BERT, GPT-2, the Transformer with default settings and RNNsearch are exported by `test_published_names` and
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
from regard.hub.exports.graphs import Graph, graphs
from regard.models.bert import Bert, BertClassifier, BertConfig, BertSpans, BertTagger
from regard.models.bottleneck import Bottleneck, BottleneckConfig
from regard.models.han import FlatAttention, FlatConfig
from regard.models.luong import Luong, LuongConfig
from regard.models.one_pass import OnePass, OnePassConfig
from regard.models.recurrent_language_model import RecurrentLanguageModel, RecurrentLanguageModelConfig
from regard.models.recurrent_tagger import RecurrentTagger, RecurrentTaggerConfig
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
    "gray deit": lambda: Vit(
        3, VitConfig(image=9, patch=3, channels=1, layers=1, width=10, heads=2, hidden=7, distilled=True)
    ),
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
RECURRENT: Models = {
    "luong": lambda: Luong(29, 37, LuongConfig(embedding=6, width=8, layers=2, bidirectional=True, align="sparsemax")),
    "unfed luong": lambda: Luong(29, 37, LuongConfig(embedding=6, width=8, layers=1, cell="gru", input_feeding=False,
                                                     score="concat", align="local-p")),
    "one-pass": lambda: OnePass(31, 31, OnePassConfig(width=6, encoder_width=5, heads=2)),
    "bottleneck": lambda: Bottleneck(29, 37, BottleneckConfig(embedding=6, width=5, layers=1, cell="tanh",
                                                              summary="every-step")),
    "language": lambda: RecurrentLanguageModel(31, RecurrentLanguageModelConfig(embedding=6, width=7)),
    "recurrent tags": lambda: RecurrentTagger(31, 3, RecurrentTaggerConfig(embedding=6, width=4, heads=2)),
    "flat": lambda: FlatAttention(31, 3, FlatConfig(embedding=6, width=4, attention=5)),
}  # fmt: skip


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


def main(group: str) -> None:
    """A line for each graph. PyTorch would parse its translations of operators for each of them."""
    logging.disable(logging.WARNING)
    once = patch.object(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
    with once, tempfile.TemporaryDirectory() as folder:
        for name, make in {"attentive": ATTENTIVE, "recurrent": RECURRENT}[group].items():
            for graph in graphs(perturbed(make())):
                path = Path(folder) / "x.onnx"
                onnx.write(graph, path)
                equal = same(graph, path)
                for parameter in graph.module.parameters():
                    parameter.data += 0.3
                print(f"{name} {graph.name}: {'the same' if equal and not same(graph, path) else 'another'}")
