"""Training of sequence-to-sequence models: pairs of texts, the loss and the set-up."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batches import (
    LENGTH_MULTIPLE,
    PairBatch,
    collate,
)
from regard.data.cache import cache_table
from regard.data.pairs import Pair
from regard.data.shards import Ragged, Shard, ShardTable
from regard.data.splits import Splits
from regard.data.swapped_sides import are_sides_swapped
from regard.data.tokens import Tokenizers, replace_absent_copies
from regard.decoding.texts import check_lengths
from regard.errors import InputError
from regard.models.catalog import build
from regard.nn.encoder_decoder import EncoderDecoder
from regard.shapes import Float
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import (
    Setup,
    TokenBatchObjective,
    check_beam,
    digest_splits,
    setup_task,
)
from regard.tasks.seq2seq.config import Seq2Seq
from regard.tasks.seq2seq.metrics import PERPLEXITY, Scoring, score_pairs
from regard.tasks.seq2seq.run import load_tokenizers
from regard.tasks.summary import DataSummary, summarize_texts
from regard.tasks.tokenizers import SOURCE, TARGET, train_on_examples
from regard.text.words import word_indices
from regard.training.attention_losses import AttentionLoss, AttentionLosses
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training

Limits = tuple[int | None, int | None]
"""The most tokens of a source and of a target that the model takes, END included."""
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
        ids = tokenizers.all_source_ids(pairs)
        sources, cut = check_lengths(limits[0], ids, places, truncate=truncate)
        ids = tokenizers.all_target_ids(pairs)
        targets, cut_targets = check_lengths(
            limits[1], ids, places, truncate=truncate, side="target"
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


def pair_ids(table: ShardTable, index: int) -> tuple[list[int], list[int]]:
    """Return the ids of a pair."""
    shard, row = table.at(index)
    source = shard.columns["source"][row]
    target = shard.columns["target"][row]
    return source.tolist(), target.tolist()


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
        source_words = word_indices(pair.source, tokenizers.source.offsets(pair.source))
        target_words = word_indices(pair.target, tokenizers.target.offsets(pair.target))
        pair_links = pair.links or ()
        for row, target_word in enumerate(target_words):
            for column, source_word in enumerate(source_words):
                if (source_word, target_word) in pair_links:
                    matrix[row, column] = 1.0
    sums = links.sum(-1, keepdim=True)
    return links / sums.clamp(min=1.0)


def summarize_pairs(
    data: Any, splits: Splits[Pair], tokenizers: Tokenizers, *, target: str = "target"
) -> DataSummary:
    """Summarize pairs; how many are cut is in the log already.

    Args:
        data: The `data:` section.
        splits: The sets.
        tokenizers: Those of both sides.
        target: What to call the side of the target.

    Raises:
        InputError: Source and target of a set are exchanged.
    """
    for name, pairs in (("valid", splits.valid), ("test", splits.test)):
        if are_sides_swapped(splits.train, pairs):
            raise InputError(
                f"data.{name}: its sources are like the targets of data.train, and its "
                "targets like their sources; exchange source and target of one of the two"
            )
    return summarize_texts(
        data,
        splits,
        {
            "source": (tokenizers.source, lambda pair: pair.source),
            target: (tokenizers.target, lambda pair: pair.target),
        },
        unit="pairs",
        warn=not tokenizers.copying,
    )


class Seq2SeqObjective(TokenBatchObjective[Pair, PairBatch]):
    """Maximum likelihood of the target given the source, one token at a time."""

    def __init__(
        self,
        splits: Splits[Pair],
        tokenizers: Tokenizers,
        settings: Training,
        scoring: Scoring,
        *,
        model: EncoderDecoder,
        attention: AttentionLosses | None = None,
    ):
        """Encode the pairs.

        Raises:
            InputError: There are no pairs, one is longer than a batch or than the model
                takes without `truncate`, or model or data do not support an attention
                loss.
        """
        self.tokenizers = tokenizers
        self.scoring = scoring
        self.metric = scoring.metrics[0]
        self.higher_is_better = self.metric != PERPLEXITY
        self.limits = (model.max_source, model.max_target)
        attention = AttentionLosses() if attention is None else attention
        self.attention_loss = AttentionLoss(attention, model.decoder)
        sides = tokenizers.source, tokenizers.target
        self.has_dropout = any(side.settings.dropout > 0 for side in sides)
        self.is_guided = bool(attention.guided)
        has_links = any(pair.links is not None for pair in splits.train)
        if self.is_guided and (self.has_dropout or not has_links):
            raise InputError(
                "attention_losses.guided needs word links, whose file data.links names, and "
                "tokenizers without dropout"
            )
        truncate = scoring.truncate
        for name, pairs in (("validation", splits.valid), ("test", splits.test)):
            ids = tokenizers.all_source_ids(pairs)
            places = [p.place for p in pairs]
            _, cut = check_lengths(model.max_source, ids, places, truncate=truncate)
            warn_cut(f"{name} sources", cut, len(pairs), model.max_source)
        self.ids = encode_pairs(
            splits.train, tokenizers, self.limits, truncate=truncate
        )
        lengths = self.ids.lengths("source", "target")
        lengths += 1  # in place: ten million pairs would need another 80 megabytes
        super().__init__(
            splits.train, splits.valid, settings, lengths, "pairs", strict=True
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

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, EncoderDecoder)
        return score_pairs(model, self.tokenizers, self.valid, self.scoring)

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
        return pair_ids(self.ids, index)


def setup(config: Seq2Seq, folder: RunDirectory, processes: int) -> Setup:
    """Read the data and build tokenizers, model and objective.

    Raises:
        InputError: The data, the model or the search is invalid.
    """
    splits = config.data.load()
    if folder.has(SOURCE) and folder.has(TARGET):
        tokenizers = load_tokenizers(folder, config)
    else:
        tokenizers = train_tokenizers(config, splits.train)
    model = build(config.model, *tokenizers.sizes, tokenizers.special)
    check_beam(config.search.beam, tokenizers.target.size, "target vocabulary")
    task = Seq2SeqObjective(
        splits,
        tokenizers,
        config.training,
        Scoring(config.metrics, config.search.with_beam(beam=1), config.truncate),
        model=model,
        attention=config.attention_losses,
    )
    if config.output_bias == "frequencies":
        model.decoder.output.start_from(task.frequencies())
    source = tokenizers.source
    target = tokenizers.target
    return setup_task(
        model,
        task,
        splits,
        digest_pairs(splits),
        summarize_pairs(config.data, splits, tokenizers),
        details=[f"vocabularies of {source.size:,} and {target.size:,}"],
        tokenizers={SOURCE: source, TARGET: target},
    )


def train_tokenizers(config: Seq2Seq, pairs: Sequence[Pair]) -> Tokenizers:
    """Train the tokenizers on the training pairs."""
    settings = config.tokenizers
    if settings.target is None:
        tokenizer = train_on_examples(
            pairs,
            settings.source,
            "both",
            lambda pairs: chain(sources_of(pairs), targets_of(pairs)),
        )
        return Tokenizers(tokenizer, tokenizer, config.copying)
    source = train_on_examples(pairs, settings.source, "source", sources_of)
    target = train_on_examples(pairs, settings.target, "target", targets_of)
    return Tokenizers(source, target)


def sources_of(pairs: Sequence[Pair]) -> Iterator[str]:
    """Return the sources of pairs, one in memory at a time."""
    return (pair.source for pair in pairs)


def targets_of(pairs: Sequence[Pair]) -> Iterator[str]:
    """Return the targets of pairs, one in memory at a time."""
    return (pair.target for pair in pairs)


def digest_pairs(splits: Splits[Pair]) -> str:
    """Identify the training and the validation pairs."""
    return digest_splits(splits, lambda pair: f"{pair.source}\0{pair.target}\n")
