"""In each of some processes, `main(FILE, *CHOICES)`: three updates of small models of each kind, and into FILE their
losses and the bytes that the first process holds. Choices are settings of training, NAME=VALUE, or NAME where
they are true."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from regard.data.batches import collate
from regard.models.bert import BertConfig
from regard.models.catalog import build, build_classifier
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.llama import Llama, LlamaConfig
from regard.models.transformer import TransformerConfig
from regard.models.vit import Vit, VitConfig
from regard.text.special import SPECIAL
from regard.training.batches import BEGINNING, Position, Prepared
from regard.training.layers import list_sharded_parts, recompute_layers
from regard.training.objectives import Loss, LossModule
from regard.training.processes import Processes, Stop
from regard.training.settings import Training
from regard.training.state import local_part
from regard.training.update import Updater, build_optimizer
from tests.training.toy import ToyBatch

ROWS, LENGTH, WORDS = 8, 7, 24
WAYS: dict[str, Any] = {"offloaded": {"offload": True}, "bf16": {"gathered_precision": "bf16", "precision": "bf16"}}
"""Other ways to shard a GPT-2."""


class Next:
    """To predict the next word of random rows, in the way of each kind of model."""

    metric, higher_is_better = "loss", False

    def batches(self, epoch: int) -> list[list[int]]:
        return []

    def batch(self, epoch: int, indices: list[int]) -> None:
        return None

    def validate(self, model: nn.Module) -> dict[str, float]:
        return {}

    def loss(self, model: nn.Module, batch: ToyBatch, update: int, carried: Any) -> Loss:
        words, count = batch.words, len(batch.words)
        lengths = torch.full((count,), LENGTH)
        if isinstance(model, GPT2 | Llama):
            logits = model(words[:, :-1], model.begin(count))[0]
            return Loss(nn.functional.cross_entropy(logits.mT, words[:, 1:], reduction="sum"), count * (LENGTH - 1))
        if isinstance(model, Vit):
            pixels = words[:, :4].float().div(WORDS).repeat_interleave(16, 1).view(count, 1, 8, 8)
            return Loss(nn.functional.cross_entropy(model(pixels), words[:, 0] % 3, reduction="sum"), count)
        if hasattr(model, "decoder"):
            pairs = collate([(row[:4].tolist(), row[4:].tolist()) for row in words], SPECIAL, SPECIAL)
            logits = model(pairs.source, pairs.source_lengths, pairs.target_in)
            loss = nn.functional.cross_entropy(logits.mT, pairs.target_out, reduction="sum", ignore_index=-100)
            return Loss(loss, pairs.target_tokens)
        logits = model(words, lengths, torch.zeros_like(words))
        return Loss(nn.functional.cross_entropy(logits, words[:, 0] % 3, reduction="sum"), count)


def models() -> dict[str, nn.Module]:
    """A model of each kind, without dropout."""
    torch.manual_seed(3)
    wide: dict[str, Any] = {"layers": 3, "width": 32, "heads": 2}
    return {
        "gpt2": GPT2(WORDS, GPT2Config(context=16, dropout=0.0, **wide)),
        "llama": Llama(WORDS, LlamaConfig(context=16, hidden=64, **wide)),
        "vit": Vit(3, VitConfig(image=8, patch=4, channels=1, hidden=64, dropout=0.0, **wide)),
        "bert": build_classifier(BertConfig(context=16, hidden=64, dropout=0.0, **wide), WORDS, 3),
        "transformer": build(TransformerConfig(hidden=64, dropout=0.0, **wide), WORDS, WORDS, (SPECIAL, SPECIAL)),
    }


def size(tensors: Any) -> int:
    return sum(local_part(each).numel() * each.element_size() for each in tensors)


def train(model: nn.Module, settings: Training) -> dict[str, Any]:
    here = Processes(settings)
    losses = here.wrap(LossModule(model, Next()), settings)
    optimizer, bytes_of, gathered, kinds = build_optimizer(model, settings), {}, [], set()
    parts = list_sharded_parts(losses)

    def held(*_: Any) -> None:
        bytes_of["gradients"] = size(each.grad for each in losses.parameters() if each.grad is not None)

    def watch(*_: Any) -> None:
        whole = [each for each in (next(part.parameters()) for part in parts) if not isinstance(each, DTensor)]
        gathered.append(len(whole))
        kinds.update(str(each.dtype) for each in whole)

    optimizer.register_step_pre_hook(held)
    for part in parts:
        part.register_forward_pre_hook(watch)
    generator = torch.Generator().manual_seed(5)
    found: list[float] = []
    with Stop() as stop:
        updater = Updater(losses, optimizer, settings, here, stop)
        for update in range(1, 4):
            words: Tensor = torch.randint(4, WORDS, (ROWS, LENGTH), generator=generator)[here.rank :: here.count]
            position = Position(0, update, [], BEGINNING[2])
            found.append(updater([Prepared(position, ToyBatch(words, words))], update, 1e-2).loss)
    bytes_of["parameters"] = size(losses.parameters())
    bytes_of["optimizer"] = size(each for state in optimizer.state.values() for each in state.values())
    counts = {"parts": len(parts), "gathered": max(gathered, default=0)}
    return {"losses": found, "bytes": bytes_of, **counts, "kinds": sorted(kinds)}


def main(path: Path, *choices: str) -> None:
    chosen: dict[str, Any] = {name: value or True for name, _, value in (each.partition("=") for each in choices)}
    settings = Training(device="cpu", **chosen)
    result = {}
    for name, model in models().items():
        if settings.recompute:
            with recompute_layers(model):
                result[name] = train(model, settings)
        else:
            result[name] = train(model, settings)
    if settings.sharded:
        for name, more in WAYS.items():
            result[name] = train(models()["gpt2"], replace(settings, **more))
    if Processes(settings).main:
        path.write_text(json.dumps(result), encoding="utf-8")
