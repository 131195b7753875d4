"""Training of sequence-to-sequence models: pairs of texts, the loss and the set-up."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batches import (
    LENGTH_MULTIPLE,
    PairBatch,
    collate,
)
from regard.data.cache import Ragged, Shard, ShardTable, cache_table
from regard.data.pairs import Pair, are_sides_swapped
from regard.data.splits import Splits
from regard.data.tokens import Tokenizers, replace_absent_copies
from regard.decoding.texts import check_lengths
from regard.errors import InputError
from regard.models.span_reader import SpanEncoder
from regard.nn.decoders import EncoderDecoder
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import (
    SOURCE,
    TARGET,
    TOKENIZER,
    Setup,
    TokenBatchObjective,
    check_beam,
    digest_splits,
    setup_task,
    train_on_examples,
)
from regard.tasks.fine_tuning import initialize_word_vectors
from regard.tasks.run import Task
from regard.tasks.seq2seq.run import (
    PERPLEXITY,
    Seq2Seq,
    Seq2SeqRun,
    build_model,
    load_tokenizers,
)
from regard.tasks.summary import summarize_texts
from regard.text import Tokenizer, TokenizerSettings
from regard.training.objectives import AttentionLoss, Carried, Loss

Limits = tuple[int | None, int | None]
"""The most tokens of a source and of a target that the model takes, END included."""
START_FROM_READER = {"pretrained": {"encoder": ""}, "fresh": ("edges",)}
"""What an encoder takes from a span reader in `training.start`, and what is new."""
log = logging.getLogger("regard")


def encode_pairs(
    pairs: Sequence[Pair], tokenizers: Tokenizers, limits: Limits, *, truncate: bool
) -> ShardTable:
    """Encode training pairs, without start and end, and log how many were cut.

    Raises:
        InputError: A side is longer than the model takes, without `truncate`.
    """

    def encode(pairs: Sequence[Pair]) -> Shard:
        places = [pair.place for pair in pairs]
        sources, targets = tokenizers.all_ids(pairs)
        sources, cut = check_lengths(limits[0], sources, places, truncate=truncate)
        targets, cut_targets = check_lengths(
            limits[1], targets, places, truncate=truncate, side="target"
        )
        if tokenizers.copying:
            targets = [
                replace_absent_copies(target, source, tokenizers.target)
                for source, target in zip(sources, targets, strict=True)
            ]
        columns = {"source": Ragged.of_ids(sources), "target": Ragged.of_ids(targets)}
        return Shard(columns, {"sources": cut, "targets": cut_targets})

    digests = tokenizers.source.digest, tokenizers.target.digest
    name = f"pairs {digests} {tokenizers.copying} {limits} {truncate}"
    table = cache_table(pairs, name, encode)
    for side, limit in zip(("sources", "targets"), limits, strict=True):
        warn_cut(f"training {side}", table.count(side), len(pairs), limit)
    return table


def warn_cut(name: str, cut: int, count: int, limit: int | None) -> None:
    """Log how many of how many texts were cut, if any were."""
    if cut:
        message = "%d of %d %s were cut to the model's maximum of %d"
        log.warning(message, cut, count, name, limit)


def link_pieces(
    pairs: Sequence[Pair], tokenizers: Tokenizers, targets: int, sources: int
) -> Float[Tensor, "pair target source"]:
    """Link every piece of a target word to every piece of each linked source word.

    Returns:
        A row for each target piece, which sums to 1, or to 0 without links.
    """
    links = torch.zeros(len(pairs), targets, sources)
    for matrix, pair in zip(links, pairs, strict=True):
        columns, rows = map(torch.tensor, tokenizers.words(pair))
        for source, target in pair.links or ():
            part = matrix[: len(rows), : len(columns)]
            part += torch.outer(rows == target, columns == source)
    return links / links.sum(-1, keepdim=True).clamp(min=1.0)


class Seq2SeqObjective(TokenBatchObjective[Pair, PairBatch]):
    """Maximum likelihood of the target given the source, one token at a time."""

    def __init__(
        self,
        config: Seq2Seq,
        splits: Splits[Pair],
        tokenizers: Tokenizers,
        model: EncoderDecoder,
    ):
        """Encode the pairs.

        Raises:
            InputError: There are no pairs, one is longer than a batch or than the model
                takes without `truncate`, or model or data do not support an attention
                loss.
        """
        self.config = config
        self.tokenizers = tokenizers
        self.metric = config.metrics[0]
        self.higher_is_better = self.metric != PERPLEXITY
        self.limits = (model.max_source, model.max_target)
        self.attention_loss = AttentionLoss(config.attention_losses, model.decoder)
        settings = tokenizers.source.settings, tokenizers.target.settings
        self.has_dropout = any(side.dropout > 0 for side in settings)
        self.is_guided = bool(config.attention_losses.guided)
        has_links = any(pair.links is not None for pair in splits.train)
        if self.is_guided and (self.has_dropout or not has_links):
            raise InputError(
                "attention_losses.guided needs word links, whose file data.links names, and "
                "tokenizers without dropout"
            )
        truncate = config.truncate
        for name, pairs in (("validation", splits.valid), ("test", splits.test)):
            ids, _ = tokenizers.all_ids(pairs)
            places = [pair.place for pair in pairs]
            limit = model.max_source
            _, cut = check_lengths(limit, ids, places, truncate=truncate)
            warn_cut(f"{name} sources", cut, len(pairs), limit)
        self.ids = encode_pairs(
            splits.train, tokenizers, self.limits, truncate=truncate
        )
        lengths = self.ids.lengths("source", "target")
        lengths += 1  # in place: ten million pairs would need another 80 megabytes
        run = Seq2SeqRun(config, model, tokenizers)
        super().__init__(
            splits.train,
            splits.valid,
            config.training,
            lengths,
            "pairs",
            run=run.with_model,
        )

    def frequencies(self) -> Float[Tensor, "token"]:
        """Count each entry of the vocabulary in the training targets, END included."""
        size = self.tokenizers.target.size
        special = self.tokenizers.target.special
        counts = np.zeros(size, dtype=np.int64)
        for shard in self.ids.shards:
            tokens = shard.columns["target"].values
            ordinary = np.where(tokens < size, tokens, special.unknown)
            counts += np.bincount(ordinary, minlength=size)
        counts[special.end] += len(self.ids)
        return torch.from_numpy(counts).float()

    def batch(self, epoch: int, indices: list[int]) -> PairBatch:
        """Return a batch; BPE-dropout depends on the seed, the epoch and the pair."""
        examples = [self._encode(epoch, index) for index in indices]
        batch = collate(examples, *self.tokenizers.special, multiple=LENGTH_MULTIPLE)
        if not self.is_guided:
            return batch
        pairs = [self.train[index] for index in indices]
        sizes = batch.target_in.shape[1], batch.source.shape[1]
        return replace(batch, links=link_pieces(pairs, self.tokenizers, *sizes))

    def loss(
        self,
        model: nn.Module,
        batch: PairBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, EncoderDecoder)
        sources = batch.source, batch.source_lengths
        total = self.attention_loss.of(model, sources, batch, self.settings, update)
        return Loss(total, batch.target_tokens)

    def _encode(self, epoch: int, index: int) -> tuple[list[int], list[int]]:
        if self.has_dropout:
            name = f"{self.settings.seed}/{epoch}/{index}".encode()
            seed = int.from_bytes(blake2b(name, digest_size=7).digest())
            pair = self.train[index]
            source = self.tokenizers.source.encode_with_dropout(pair.source, seed)
            target = self.tokenizers.target.encode_with_dropout(pair.target, seed + 1)
            lengths = zip(self.limits, (source, target), strict=True)
            if all(limit is None or len(ids) < limit for limit, ids in lengths):
                return source, target
        shard, row = self.ids.at(index)
        source, target = (shard.columns[side][row] for side in ("source", "target"))
        return source.tolist(), target.tolist()


def setup(config: Seq2Seq, folder: RunDirectory, processes: int) -> Setup:
    """Read the data and build tokenizers, model and objective.

    Raises:
        InputError: The data, the model or the search is invalid.
    """
    splits = config.data.load()
    vectors = config.vectors
    texts: list[str] = []
    if vectors is not None and vectors.cooccurrence is not None:
        sides = ["source"] if config.tokenizers.target else ["source", "target"]
        texts = vectors.add_texts(read_sides(splits.train, *sides), folder)
    if folder.has(SOURCE) and folder.has(TARGET):
        tokenizers = load_tokenizers(folder, config)
    elif folder.has(TOKENIZER):  # that of the reader in `training.start`
        reader = Tokenizer.load(folder.file(TOKENIZER))
        tokenizers = Tokenizers(reader, reader, config.model.copying)
    else:
        tokenizers = train_tokenizers(config, splits.train, texts)
    result = setup_pairs(config, config.data, splits, tokenizers)
    if vectors is not None:
        encoder = result.model.get_submodule("encoder")
        initialize_word_vectors(encoder, vectors, tokenizers.source, texts, folder)
    return result


def setup_pairs(
    config: Seq2Seq,
    data: Any,
    splits: Splits[Pair],
    tokenizers: Tokenizers,
    target: str = "target",
) -> Setup:
    """Build model and objective for pairs.

    Args:
        config: The run file.
        data: The `data:` section.
        splits: The sets.
        tokenizers: Those of both sides.
        target: What to call the side of the target.

    Raises:
        InputError: The data, the model or the search is invalid.
    """
    model = build_model(config.model, tokenizers)
    check_beam(config.search.beam, tokenizers.target.size, "target vocabulary")
    objective = Seq2SeqObjective(config, splits, tokenizers, model)
    if config.output_bias == "frequencies":
        model.decoder.output.start_from(objective.frequencies())
    for name, pairs in (("valid", splits.valid), ("test", splits.test)):
        if are_sides_swapped(splits.train, pairs):
            raise InputError(
                f"data.{name}: its sources are like the targets of data.train, and its "
                "targets like their sources; exchange source and target of one of the two"
            )
    summary = summarize_texts(
        data,
        splits,
        {
            "source": (tokenizers.source, lambda pair: pair.source),
            target: (tokenizers.target, lambda pair: pair.target),
        },
        unit="pairs",
        warn=not tokenizers.copying,
    )
    sizes = tokenizers.sizes
    return setup_task(
        model,
        objective,
        splits,
        digest_pairs(splits),
        summary,
        details=[f"vocabularies of {sizes[0]:,} and {sizes[1]:,}"],
        **START_FROM_READER if isinstance(model.encoder, SpanEncoder) else {},
        tokenizers={SOURCE: tokenizers.source, TARGET: tokenizers.target},
    )


def train_tokenizers(
    config: Seq2Seq, pairs: Sequence[Pair], texts: Sequence[str] = ()
) -> Tokenizers:
    """Train the tokenizers on the training pairs.

    Args:
        config: The run file.
        pairs: The training pairs.
        texts: What the source's tokenizer is trained on instead, if any.
    """
    source, target = config.tokenizers.source, config.tokenizers.target

    def train(settings: TokenizerSettings, *sides: str) -> Tokenizer:
        name = " ".join(sides)
        return train_on_examples(
            pairs, settings, name, lambda pairs: read_sides(pairs, *sides)
        )

    if texts:
        first = Tokenizer.train(source, texts)
    elif target is None:
        first = train(source, "source", "target")
    else:
        first = train(source, "source")
    if target is None:
        return Tokenizers(first, first, config.model.copying)
    return Tokenizers(first, train(target, "target"))


def read_sides(pairs: Sequence[Pair], *sides: str) -> Iterator[str]:
    """Return the texts of some sides of pairs, one in memory at a time."""
    return (getattr(pair, side) for side in sides for pair in pairs)


def digest_pairs(splits: Splits[Pair]) -> str:
    """Identify the training and the validation pairs."""
    return digest_splits(splits, lambda pair: f"{pair.source}\0{pair.target}\n")


TASK = Task(Seq2Seq, setup, Seq2SeqRun, command="")
