"""Target tokens per second in training, on one thread, beside JoeyNMT and Marian of the same sizes.

`python -m benchmarks.training [FOLDER]`. FOLDER has Multi30k's `train.de.gz` and `train.en.gz`; without one, sentence
pairs are sampled whose lengths are like theirs. All systems get the same batches and take turns; peers are trained by a
plain loop with PyTorch's fused AdamW. Beside each of our models stand its matrix products alone: an update that did
everything else for nothing.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from benchmarks import peers, report, sources
from benchmarks.aim import Aim
from benchmarks.peers import DROPOUT, HEADS, HIDDEN, LAYERS, VOCABULARY, WIDTH
from regard.data.batches import LENGTH_MULTIPLE, START, PairBatch, collate, token_batches
from regard.models.catalog import MODELS
from regard.nn.decoders import EncoderDecoder
from regard.text import Tokenizer, TokenizerSettings
from regard.training.objectives import Carried, Loss, LossModule
from regard.training.settings import Training, keep_freed_memory, supports_bf16_products
from regard.training.update import BatchPosition, Prepared, Processes, Stop, Updater, build_optimizer

MODULE = "benchmarks.training"
SMOOTHING, LONGEST, PAIRS, SEED, FIRST = 0.1, 128, 29_000, 1, 4
SIZES, BATCHES, ROUNDS = (1024, 4096), 4, 9
aten = torch.ops.aten
PRODUCTS = {
    aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    aten.mkldnn_rnn_layer.default, aten.mkldnn_rnn_layer_backward.default,
}  # fmt: skip
"""Fused attention and recurrent layers count whole, because their products are inside."""
Update = Callable[[PairBatch, bool], object]
"""Learn from a batch, with bf16 products or without."""


def sample_pairs() -> list[tuple[list[int], list[int]]]:
    """Sample as many pairs as Multi30k has, of about 14 tokens, with targets about as long as sources."""
    random = Random(SEED)
    lengths = [min(LONGEST - 2, max(3, round(random.lognormvariate(2.6, 0.32)))) for _ in range(PAIRS)]
    pairs = []
    for length in lengths:
        target_length = max(3, round(length * random.gauss(1.0, 0.15)))
        sides = [[random.randrange(FIRST, VOCABULARY) for _ in range(size)] for size in (length, target_length)]
        pairs.append((sides[0], sides[1]))
    return pairs


def read_pairs(folder: Path) -> list[tuple[list[int], list[int]]]:
    """Read Multi30k in joint BPE."""
    texts = [sources.read_lines(folder / f"train.{language}.gz") for language in ("de", "en")]
    tokenizer = Tokenizer.train(TokenizerSettings("bpe", size=VOCABULARY), [line for side in texts for line in side])
    ids = [[tokenizer.encode(line)[: LONGEST - 2] for line in side] for side in texts]
    return list(zip(*ids, strict=True))


def make_batches(pairs: Sequence[tuple[list[int], list[int]]], tokens: int) -> list[PairBatch]:
    """Return some batches, made as training makes them."""
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    chosen = token_batches(lengths, tokens, SEED, 0)[:BATCHES]
    return [collate([pairs[index] for index in indices], multiple=LENGTH_MULTIPLE) for indices in chosen]


def plain_loop(model: nn.Module, loss: Callable[[PairBatch], Tensor]) -> Update:
    """Return the update of a plain training loop."""
    optimizer = AdamW(model.parameters(), lr=1e-3, fused=True)

    def update(batch: PairBatch, bf16: bool) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            total = loss(batch)
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return update


class PairLoss:
    """The objective of a translation model over batches that exist already."""

    metric, higher_is_better = "loss", False

    def batches(self, epoch: int) -> list[list[int]]:
        """Return nothing: the batches are passed to the update."""
        return []

    def batch(self, epoch: int, indices: list[int]) -> PairBatch:
        """Return no batch."""
        raise IndexError(indices)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return no figures."""
        return {}

    def loss(self, model: nn.Module, batch: PairBatch, update: int, carried: Carried | None = None) -> Loss:
        """Return the loss of a batch."""
        assert isinstance(model, EncoderDecoder)
        features = model.features(batch.source, batch.source_lengths, batch.target_in)
        total, _ = model.decoder.output.loss(features, batch.target_out, SMOOTHING)
        return Loss(total, batch.target_tokens)


def build_ours(name: str, **sizes: Any) -> Update:
    """Return the update of one of our models, as `regard train` makes it."""
    keep_freed_memory()
    settings = Training(device="cpu", threads=1, precision="fp32")
    model = MODELS[name](VOCABULARY, VOCABULARY, MODELS[name].config_class(dropout=DROPOUT, **sizes)).train()
    optimizer, losses = build_optimizer(model, settings), LossModule(model, PairLoss())
    processes, stop = Processes(settings), Stop()
    updaters = {
        bf16: Updater(losses, optimizer, replace(settings, precision=precision), processes, stop)
        for bf16, precision in ((False, "fp32"), (True, "bf16"))
    }

    def update(batch: PairBatch, bf16: bool) -> object:
        return updaters[bf16]([Prepared(BatchPosition(0, 0, [], START), batch)], 1, settings.learning_rate)

    return update


def smoothed_loss(logits: Tensor, batch: PairBatch) -> Tensor:
    """Return the mean cross-entropy of what is no padding."""
    expected = batch.target_out.flatten()
    return functional.cross_entropy(logits.flatten(0, 1), expected, ignore_index=-100, label_smoothing=SMOOTHING)


def build_marian() -> Update:
    """Return the update of Hugging Face's Marian."""
    from transformers import MarianConfig, MarianMTModel

    side: dict[str, Any] = {"layers": LAYERS, "ffn_dim": HIDDEN, "attention_heads": HEADS}
    sides = {f"{name}_{key}": value for name in ("encoder", "decoder") for key, value in side.items()}
    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, **sides, dropout=DROPOUT, activation_function="relu",
        max_position_embeddings=LONGEST, pad_token_id=0, decoder_start_token_id=2, eos_token_id=3, scale_embedding=True,
    )  # fmt: skip
    model = MarianMTModel(config).train()

    def loss(batch: PairBatch) -> Tensor:
        inputs = {"input_ids": batch.source, "attention_mask": batch.source != 0}
        return smoothed_loss(model(**inputs, decoder_input_ids=batch.target_in, use_cache=False).logits, batch)

    return plain_loop(model, loss)


def build_joeynmt() -> Update:
    """Return the update of JoeyNMT's recurrent model, with its own loss."""
    model = peers.build_joeynmt("luong")
    model.loss_function = "crossentropy", SMOOTHING

    def loss(batch: PairBatch) -> Tensor:
        order = batch.source_lengths.argsort(descending=True)
        source, target, expected = (side[order] for side in (batch.source, batch.target_in, batch.target_out))
        # JoeyNMT pads with 1.
        sides = [side.masked_fill(side == 0, 1) for side in (source, target, expected.clamp(min=0))]
        masks = {"src_mask": (sides[0] != 1)[:, None], "trg_mask": (sides[2] != 1)[:, None]}
        inputs = {"src": sides[0], "src_length": batch.source_lengths[order], "trg_input": sides[1], "trg": sides[2]}
        return model(return_type="loss", **inputs, **masks)[0] / batch.target_tokens

    return plain_loop(model.train(), loss)


class ProductRecorder(TorchDispatchMode):
    """Keeps the matrix products that are called, with arguments of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., Any], Any, Any]] = []
        self._copies: dict[tuple[object, ...], Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in PRODUCTS:
            self.calls.append((func, *tree_map_only(Tensor, self._copy, (args, kwargs or {}))))
        return func(*args, **(kwargs or {}))

    def _copy(self, tensor: Tensor) -> Tensor:
        # One tensor of each layout is enough, so that thousands of arguments fit in memory.
        layout = tensor.shape, tensor.stride(), tensor.dtype
        if layout not in self._copies:
            self._copies[layout] = torch.empty_strided(*layout[:2], dtype=tensor.dtype).copy_(tensor)
        return self._copies[layout]


def only_products(update: Update) -> Update:
    """Return the same update without all but its products, after the first call with a batch."""
    recorded: dict[tuple[int, bool], list[Any]] = {}

    def multiply(batch: PairBatch, bf16: bool) -> None:
        key = id(batch), bf16
        if key not in recorded:
            with ProductRecorder() as recorder:
                update(batch, bf16)
            recorded[key] = recorder.calls
        with torch.no_grad():
            for call, args, kwargs in recorded[key]:
                call(*args, **kwargs)

    return multiply


OURS: dict[str, Callable[[], Update]] = {
    "regard, one-pass LSTM": partial(build_ours, "one-pass", width=WIDTH, encoder_width=WIDTH),
    "regard, Luong GRU": partial(
        build_ours, "luong", embedding=WIDTH, width=WIDTH, layers=1, cell="gru", bidirectional=True
    ),
    "regard, Transformer": partial(build_ours, "transformer", layers=LAYERS, width=WIDTH, hidden=HIDDEN, heads=HEADS),
}
PRODUCTS_OF = {name: f"the products of {name}" for name in OURS}
SYSTEMS: dict[str, Callable[[], Update]] = {
    **OURS,
    **{PRODUCTS_OF[name]: lambda build=build: only_products(build()) for name, build in OURS.items()},
    "JoeyNMT, Luong GRU": build_joeynmt,
    "Hugging Face Marian": build_marian,
}
COMPARED = (
    ("regard, Luong GRU", "JoeyNMT, Luong GRU", 1.5),
    ("regard, one-pass LSTM", "JoeyNMT, Luong GRU", 1.5),
    ("regard, Transformer", "Hugging Face Marian", None),
    *((name, products, 0.85) for name, products in PRODUCTS_OF.items()),
)
"""Ours, the peer, and the least ratio of the peer's time to ours."""
REST = "the softmax over the vocabulary and operations on single numbers, such as gates, sums and copies"


def rates(systems: Sequence[str], precision: str, batches: Sequence[PairBatch], rounds: int) -> dict[str, float]:
    """Return the target tokens per second of each system; the first round warms up."""
    tokens = sum(batch.target_tokens for batch in batches)
    samples: dict[str, list[float]] = {system: [] for system in systems}
    with peers.workers(systems, list(batches), MODULE) as running:
        for _ in range(rounds + 1):
            for worker in running:
                seconds = sum(worker.seconds(number, precision) for number in range(len(batches)))
                samples[worker.system].append(tokens / seconds)
    return {system: median(values[1:]) for system, values in samples.items()}


def precisions() -> tuple[str, ...]:
    """Return fp32, and bf16 where the processor has its products, with all of its instructions."""
    is_narrow = torch.backends.cpu.get_cpu_capability() == "AVX2"
    return ("fp32", "bf16") if supports_bf16_products("cpu") and not is_narrow else ("fp32",)


def aims() -> list[Aim]:
    """Return the rows of a quick pass, with batches of 1,024 tokens."""
    batches, rows = make_batches(sample_pairs(), SIZES[0]), []
    for precision in precisions():
        cost = {name: 1e6 / rate for name, rate in rates(list(SYSTEMS), precision, batches, 3).items()}
        for ours, peer, ratio in COMPARED:
            name = f"training, {ours}, {precision}, 1,000 target tokens"
            limit = REST if peer in PRODUCTS_OF.values() else "matrix products"
            rows.append(Aim(name, "ms", cost[ours], peer, cost[peer], ratio, limited_by=limit))
    return rows


def run_worker(system: str, path: str) -> None:
    """Make updates on request."""
    torch.manual_seed(1)
    update, batches = SYSTEMS[system](), torch.load(path, weights_only=False)
    peers.answer(lambda number, precision: update(batches[int(number)], precision == "bf16"))


def main(folder: str = "") -> None:
    """Print the table and write the results."""
    pairs, rows = read_pairs(Path(folder)) if folder else sample_pairs(), list[dict[str, Any]]()
    report.head("tokens a batch", "precision", "system", "target tokens/s")
    for size in SIZES:
        for precision in precisions():
            for system, rate in rates(list(SYSTEMS), precision, make_batches(pairs, size), ROUNDS).items():
                report.row(size, precision, system, f"{rate:,.0f}")
                rows.append({"tokens": size, "precision": precision, "system": system, "rate": rate})
    report.write("training", rows, data="Multi30k" if folder else "sampled")


if __name__ == "__main__":
    run_worker(*sys.argv[2:]) if sys.argv[1:2] == ["worker"] else main(*sys.argv[1:])
