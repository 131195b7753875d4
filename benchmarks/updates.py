"""A process that makes updates of one model on request: `python -m benchmarks.updates SYSTEM FILE`.

FILE has batches, as `torch.save` wrote them. Each line that it reads says the number of a batch and `fp32` or `bf16`;
each that it writes, the seconds of processor time that the update took. Peers are trained as a plain loop would:
autocast, clipping, PyTorch's fused AdamW. Sizes are the same but of the one-pass model, whose encoder is twice as wide
as JoeyNMT's. Their libraries are imported when they are needed, because no environment has them all.
"""

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW

from benchmarks.arithmetic import Update, products_of
from regard.data.batching import PairBatch
from regard.data.order import START
from regard.models.catalog import MODELS
from regard.nn.encoder_decoder import EncoderDecoder
from regard.text.special import IGNORED
from regard.training.allocator import keep_freed_memory
from regard.training.batches import Position, Prepared
from regard.training.objective import Carried, Loss, LossModule
from regard.training.processes import Processes
from regard.training.settings import Training
from regard.training.signals import Stop
from regard.training.update import Updater, make_optimizer

VOCABULARY, WIDTH, HIDDEN, HEADS, LAYERS, DROPOUT, SMOOTHING, LONGEST = 8000, 256, 1024, 4, 3, 0.1, 0.1, 128


def looped(model: nn.Module, loss: Callable[[PairBatch], Tensor]) -> Update:
    """A plain loop's update."""
    optimizer = AdamW(model.parameters(), lr=1e-3, fused=True)

    def update(batch: PairBatch, bf16: bool) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            total = loss(batch)
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return update


def smoothed(logits: Tensor, batch: PairBatch) -> Tensor:
    """The mean cross-entropy of what is no padding."""
    expected = batch.target_out.flatten()
    return functional.cross_entropy(logits.flatten(0, 1), expected, ignore_index=IGNORED, label_smoothing=SMOOTHING)


class Ready:
    """The task of learning from batches that are made already."""

    metric, higher_is_better = "loss", False

    def __init__(self, made: Sequence[PairBatch] = ()):
        self.made = made

    def batches(self, epoch: int) -> list[list[int]]:
        return [[number] for number in range(len(self.made))]

    def batch(self, epoch: int, indices: list[int]) -> PairBatch:
        return self.made[indices[0]]

    def loss(self, model: nn.Module, batch: PairBatch, update: int, carried: Carried | None = None) -> Loss:
        read = batch.source, batch.source_lengths, batch.target_in
        assert isinstance(model, EncoderDecoder)
        total, _ = model.decoder.output.loss(model.features(*read), batch.target_out, SMOOTHING)
        return Loss(total, batch.target_tokens)

    def validate(self, model: nn.Module) -> dict[str, float]:
        return {"loss": sum(self.loss(model, batch, 0).total.item() for batch in self.made)}


def ours(name: str, **sizes: Any) -> Update:
    """One of this library's, as `regard train` trains it."""
    keep_freed_memory()
    settings = Training(device="cpu", threads=1, precision="fp32")
    model = MODELS[name](VOCABULARY, VOCABULARY, MODELS[name].config_class(dropout=DROPOUT, **sizes)).train()
    optimizer, losses = make_optimizer(model, settings), LossModule(model, Ready())
    here, stop = Processes(settings), Stop()
    updaters = {
        bf16: Updater(losses, optimizer, replace(settings, precision=precision), here, stop)
        for bf16, precision in ((False, "fp32"), (True, "bf16"))
    }

    def update(batch: PairBatch, bf16: bool) -> object:
        return updaters[bf16]([Prepared(Position(0, 0, [], START), batch)], 1, settings.learning_rate)

    return update


def marian() -> Update:
    """Hugging Face's."""
    from transformers import MarianConfig, MarianMTModel

    side: dict[str, Any] = {"layers": LAYERS, "ffn_dim": HIDDEN, "attention_heads": HEADS}
    sides = {f"{name}_{what}": number for name in ("encoder", "decoder") for what, number in side.items()}
    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, **sides, dropout=DROPOUT, activation_function="relu",
        max_position_embeddings=LONGEST, pad_token_id=0, decoder_start_token_id=2, eos_token_id=3, scale_embedding=True,
    )  # fmt: skip
    model = MarianMTModel(config).train()

    def loss(batch: PairBatch) -> Tensor:
        source = {"input_ids": batch.source, "attention_mask": batch.source != 0}
        return smoothed(model(**source, decoder_input_ids=batch.target_in, use_cache=False).logits, batch)

    return looped(model, loss)


class Plain(nn.Module):
    """PyTorch's `nn.Transformer` between one embedding, sinusoids and an output layer that shares its weight. Its norms
    stand behind the sublayers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.body = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, HIDDEN, DROPOUT, batch_first=True)
        angle = torch.arange(LONGEST)[:, None] / 10_000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        self.positions = nn.Buffer(torch.stack([angle.sin(), angle.cos()], -1).flatten(1))

    def embedded(self, tokens: Tensor) -> Tensor:
        """Tokens that know their place."""
        states = self.embedding(tokens) * math.sqrt(WIDTH) + self.positions[: tokens.shape[1]]
        return functional.dropout(states, DROPOUT)

    def forward(self, batch: PairBatch) -> Tensor:
        source, target = batch.source, batch.target_in
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1]) < 0
        hidden = {"src_key_padding_mask": source == 0, "memory_key_padding_mask": source == 0}
        states = self.body(self.embedded(source), self.embedded(target), tgt_mask=future, tgt_is_causal=True, **hidden)
        return states @ self.embedding.weight.t()


def plain() -> Update:
    """`nn.Transformer` in a plain loop."""
    model = Plain().train()
    return looped(model, lambda batch: smoothed(model(batch), batch))


def joeynmt_model(kind: str) -> Any:
    """JoeyNMT's model; its padding is 1 and its unknown 0."""
    from joeynmt.model import build_model  # pyright: ignore[reportMissingImports]
    from joeynmt.vocabulary import Vocabulary  # pyright: ignore[reportMissingImports]

    names = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}
    marks = {f"{name}_token": f"<{name}>" for name in names} | {f"{name}_id": number for name, number in names.items()}
    known = SimpleNamespace(**marks, lang_tags=[], sep_token=None, sep_id=None)
    vocabulary = Vocabulary([str(number) for number in range(VOCABULARY - len(names))], known)
    return build_model(JOEYNMT[kind], vocabulary, vocabulary)


def joeynmt(kind: str) -> Update:
    """JoeyNMT's, with its own loss."""
    model = joeynmt_model(kind)
    model.loss_function = "crossentropy", SMOOTHING

    def loss(batch: PairBatch) -> Tensor:
        order = batch.source_lengths.argsort(descending=True)
        source, target, expected = (each[order] for each in (batch.source, batch.target_in, batch.target_out))
        expected = expected.clamp(min=0)  # padded with 0, as the others are
        source, target, expected = (each.masked_fill(each == 0, 1) for each in (source, target, expected))
        masks = {"src_mask": (source != 1)[:, None], "trg_mask": (expected != 1)[:, None]}
        given = {"src": source, "src_length": batch.source_lengths[order], "trg_input": target, "trg": expected}
        return model(return_type="loss", **given, **masks)[0] / batch.target_tokens

    return looped(model.train(), loss)


EMBEDDINGS = {"embedding_dim": WIDTH, "scale": False, "dropout": DROPOUT}
RECURRENT = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "embeddings": EMBEDDINGS, "dropout": DROPOUT}
LOOKING = {"attention": "luong", "init_hidden": "bridge", "input_feeding": True, "hidden_dropout": DROPOUT}
LAYERED = {"type": "transformer", "num_heads": HEADS, "num_layers": LAYERS, "layer_norm": "pre", "dropout": DROPOUT}
LAYERED |= {"embeddings": EMBEDDINGS | {"scale": True}, "hidden_size": WIDTH, "ff_size": HIDDEN}
JOEYNMT = {
    "luong": {
        "encoder": RECURRENT | {"hidden_size": WIDTH // 2, "bidirectional": True},
        "decoder": RECURRENT | {"hidden_size": WIDTH} | LOOKING,
    },
    "bahdanau": {
        "encoder": RECURRENT | {"hidden_size": WIDTH, "bidirectional": True},
        "decoder": RECURRENT | {"hidden_size": WIDTH} | LOOKING | {"attention": "bahdanau"},
    },
    "luong-lstm": {
        "encoder": RECURRENT | {"hidden_size": WIDTH, "bidirectional": True, "rnn_type": "lstm"},
        "decoder": RECURRENT | {"hidden_size": WIDTH, "rnn_type": "lstm"} | LOOKING,
    },
    "transformer": {"encoder": LAYERED, "decoder": LAYERED, "tied_embeddings": True, "tied_softmax": True},
}
OURS: dict[str, Callable[[], Update]] = {
    "regard, one-pass LSTM": lambda: ours("one-pass", width=WIDTH, encoder_width=WIDTH),
    "regard, Luong GRU": lambda: ours("luong", embedding=WIDTH, width=WIDTH, layers=1, cell="gru", bidirectional=True),
    "regard, Transformer": lambda: ours("transformer", layers=LAYERS, width=WIDTH, hidden=HIDDEN, heads=HEADS),
}
PRODUCTS = {name: f"the products of {name}" for name in OURS}
"""The limit of each: an update that would do all but its products for nothing."""


def products(name: str) -> Update:
    """The products of one of this library's updates."""
    return products_of(OURS[name]())


SYSTEMS: dict[str, Callable[[], Update]] = {
    **OURS,
    **{PRODUCTS[name]: partial(products, name) for name in OURS},
    "JoeyNMT, Luong GRU": lambda: joeynmt("luong"),
    "Hugging Face Marian": marian,
    "nn.Transformer": plain,
    "JoeyNMT, Transformer": lambda: joeynmt("transformer"),
}


def main(system: str, path: Path) -> None:
    """Answers until there is nothing more to read."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    update, batches = SYSTEMS[system](), torch.load(path, weights_only=False)
    print("ready", flush=True)
    for line in sys.stdin:
        number, precision = line.split()
        began = time.process_time()
        update(batches[int(number)], precision == "bf16")
        print(time.process_time() - began, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
