"""A tiny Transformer as it is written and compiled, in a process of its own: the tests' check of shapes cannot be
compiled. As a script: `compiled.py BACKEND`; what was found, as JSON."""

import json
import logging
import sys
import warnings
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.utils import counters

from regard.attention.heads import MultiHead
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.layers import compile_layers

SIZES = [(3, 13, 17), (5, 17, 19), (2, 19, 13)]
"""Sentences of a batch, and the longest of their sources and targets."""


def transformer() -> Transformer:
    torch.manual_seed(7)
    config = TransformerConfig(layers=2, width=10, heads=2, hidden=11, dropout=0.25)
    return Transformer(13, 17, config).train()


def loss(model: Transformer, batch: int, source: int, target: int) -> Tensor:
    """Of a batch that is padded, with dropout: a function of the sizes alone."""
    torch.manual_seed(batch)
    words, expected = torch.randint(4, 13, (batch, source)), torch.randint(4, 17, (batch, target))
    lengths = torch.cat([torch.tensor([source]), torch.randint(1, source, (batch - 1,))])
    total, _ = model.decoder.output.loss(model.features(words, lengths, expected.clamp(max=12)), expected, 0.1)
    return total


def updates(model: Transformer) -> list[Tensor]:
    """Losses and gradients of batches of all sizes."""
    found = []
    for sizes in SIZES:
        total = loss(model, *sizes)
        parameters = [each for each in model.parameters() if each.requires_grad]
        found += [total.detach(), *torch.autograd.grad(total, parameters)]
    return found


def maps(model: Transformer) -> dict[str, Tensor]:
    with record(model) as found:
        loss(model, *SIZES[0])
    return dict(found)


def own_graph() -> list[str]:
    """What is recorded of a module that somebody has compiled and called before."""
    attention, states = MultiHead(10, 2), torch.randn(2, 3, 10)
    made = torch.compile(attention, backend="eager")
    made(states, Memory(states, states))
    with record(attention) as found:
        made(states, Memory(states, states))
    return list(found)


def difference(one: Any, other: Any) -> float:
    """The largest, relative to numbers beyond 1."""
    return max(((a - b).abs() / b.abs().clamp(min=1.0)).max().item() for a, b in zip(one, other, strict=True))


def main(backend: str) -> dict[str, Any]:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    written, compiled = transformer(), transformer()
    plain, recorded = updates(written), maps(written)
    with compile_layers(compiled, backend=backend):
        before = counters["stats"]["unique_graphs"]
        result: dict[str, Any] = {"updates": difference(plain, updates(compiled))}
        result["graphs"], result["breaks"] = counters["stats"]["unique_graphs"] - before, [*counters["graph_break"]]
        result["names"] = [*compiled.state_dict()] == [*written.state_dict()]
        found = maps(compiled)
        result["maps"] = [*found] == [*recorded] and difference(recorded.values(), found.values())
        with torch.no_grad():
            loss(compiled, 4, 3, 2)
        result["graphs later"] = counters["stats"]["unique_graphs"] - before
    with torch.no_grad():
        result["own"] = own_graph()
    result["left"] = [name for name, each in compiled.named_modules() if "forward" in vars(each)]
    return result


if __name__ == "__main__":
    warnings.simplefilter("error")
    print(json.dumps(main(sys.argv[1])))
