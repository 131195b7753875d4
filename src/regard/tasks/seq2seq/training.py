"""Training of sequence-to-sequence models: pairs of texts, the loss and the set-up."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, product
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
from regard.data.swapped_sides import COPIED, are_sides_swapped, target_length_ratio
from regard.data.tokens import Tokenizers, replace_absent_copies
from regard.decoding.search import Search
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
from regard.tasks.fine_tuning import add_vector_texts, initialize_word_vectors
from regard.tasks.seq2seq.config import Seq2Seq
from regard.tasks.seq2seq.metrics import PERPLEXITY, Scoring, score_pairs
from regard.tasks.seq2seq.run import load_tokenizers
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    abridge,
    describe_rows,
    measure_unknown_shares,
    request_of,
    sample_evenly,
    warn_repeated,
    warn_unknown,
)
from regard.tasks.tokenizers import SOURCE, TARGET, train_on_examples
from regard.text import Tokenizer
from regard.text.words import word_indices
from regard.training.attention_losses import AttentionLoss, AttentionLosses
from regard.training.objectives import Carried, Loss
from regard.training.settings import Training

Limits = tuple[int | None, int | None]
"""The most tokens of a source and of a target that the model takes, END included."""
PieceLinks = list[tuple[int, int]]
"""A target piece and a source piece, counted from 0."""
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
    source, target = shard.columns["source"][row], shard.columns["target"][row]
    return source.tolist(), target.tolist()


def warn_cut(name: str, cut: int, count: int, limit: int | None) -> None:
    """Log how many of how many texts were cut, if any were."""
    if cut:
        message = "%d of %d %s were cut to the model's maximum of %d"
        log.warning(message, cut, count, name, limit)


def link_pieces(pairs: Sequence[Pair], tokenizers: Tokenizers) -> list[PieceLinks]:
    """Link every piece of a target word to every piece of each linked source word.

    Raises:
        InputError: No pair has links, or the segmentation changes every epoch.
    """
    if all(pair.links is None for pair in pairs):
        raise InputError(
            "attention_losses.guided needs word links; name their file in data.links"
        )
    if uses_dropout(tokenizers):
        raise InputError(
            "attention_losses.guided needs pieces that stay; set the tokenizers' dropout "
            "to 0"
        )
    links = []
    for pair in pairs:
        sources = _pieces_of_words(tokenizers.source, pair.source)
        targets = _pieces_of_words(tokenizers.target, pair.target)
        pieces: PieceLinks = []
        for source, target in sorted(pair.links or ()):
            pieces += product(targets[target], sources[source])
        links.append(pieces)
    return links


def uses_dropout(tokenizers: Tokenizers) -> bool:
    """Return whether a segmentation is sampled anew in every epoch."""
    sides = tokenizers.source, tokenizers.target
    return any(side.settings.dropout > 0 for side in sides)


def link_rows(
    links: Sequence[PieceLinks], targets: int, sources: int
) -> Float[Tensor, "pair target source"]:
    """Return each target piece's links as a row that sums to 1, or to 0 without any."""
    rows = torch.zeros(len(links), targets, sources)
    for row, pieces in zip(rows, links, strict=True):
        for target, source in pieces:
            row[target, source] = 1.0
    return rows / rows.sum(-1, keepdim=True).clamp(min=1.0)


def _pieces_of_words(tokenizer: Tokenizer, text: str) -> list[list[int]]:
    words: list[list[int]] = [[] for _ in text.split()]
    for piece, word in enumerate(word_indices(text, tokenizer.offsets(text))):
        words[word].append(piece)
    return words


def pairs_summary(
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
    first, sources, targets = splits.train[0], [], []
    for pair in sample_evenly(splits.train):
        ids = tokenizers.target_ids(pair.target, pair.source)
        sources.append(tokenizers.ended_source(tokenizers.source_ids(pair.source)))
        targets.append(tokenizers.ended_target(ids))
    source_pieces = tokenizers.source_pieces(sources[0], first.source)
    target_pieces = tokenizers.target_pieces(targets[0], first.source)
    unknown, warnings = _find_unknown(splits, tokenizers, target)
    return DataSummary(
        unit="pairs",
        rows=describe_rows(data, splits),
        lengths={
            "source": Lengths.of(list(map(len, sources))),
            target: Lengths.of(list(map(len, targets))),
        },
        unknown=unknown,
        unknown_unit=tokenizers.source.unknown_unit,
        example={
            "source": abridge(source_pieces, len(sources[0])),
            target: abridge(target_pieces, len(targets[0])),
        },
        request=request_of(text=first.source),
        warnings=(
            *_check_sides(splits, copying=tokenizers.copying),
            *warn_repeated(data, splits, lambda pair: pair.source),
            *warnings,
        ),
    )


def _find_unknown(
    splits: Splits[Pair], tokenizers: Tokenizers, target: str
) -> tuple[dict[str, float], list[str]]:
    """Return the shares of unknown characters, and warnings unless words copy."""
    plural = "targets" if target == "target" else target
    sources, targets = {}, {}
    for name, pairs in splits.named.items():
        if sample := sample_evenly(pairs) if len(pairs) else []:
            sources[f"{name} sources"] = [pair.source for pair in sample]
            targets[f"{name} {plural}"] = [pair.target for pair in sample]
    read = measure_unknown_shares(tokenizers.source, sources)
    written = measure_unknown_shares(tokenizers.target, targets)
    if tokenizers.copying:
        return read | written, []
    warnings = warn_unknown(tokenizers.source, read)
    return read | written, warnings + warn_unknown(tokenizers.target, written)


def _check_sides(splits: Splits[Pair], *, copying: bool) -> list[str]:
    """Return a warning where the sides of all sets may be exchanged.

    Raises:
        InputError: Those of one set are.
    """
    for name, pairs in (("valid", splits.valid), ("test", splits.test)):
        if are_sides_swapped(splits.train, pairs):
            raise InputError(
                f"data.{name}: its sources are like the targets of data.train, and its "
                "targets like their sources; exchange source and target of one of the two"
            )
    times = target_length_ratio(splits.train)
    if not copying or times <= COPIED:
        return []
    return [
        f"the targets are {times:.0f} times as long as the sources, and this model copies "
        "words of its source; if the shorter text should be predicted, exchange source and "
        "target"
    ]


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
        truncate: bool = False,
    ):
        """Encode the pairs.

        Raises:
            InputError: There are no pairs, one is longer than a batch or than the model
                takes without `truncate`, or model or data do not support an attention
                loss.
        """
        self.tokenizers, self.scoring = tokenizers, replace(scoring, truncate=truncate)
        self.metric = scoring.metrics[0]
        self.higher_is_better = self.metric != PERPLEXITY
        self.limits = (model.max_source, model.max_target)
        attention = AttentionLosses() if attention is None else attention
        self.attention_loss = AttentionLoss(attention, model.decoder)
        self.links = link_pieces(splits.train, tokenizers) if attention.guided else None
        for name, pairs in (("validation", splits.valid), ("test", splits.test)):
            ids, places = tokenizers.all_source_ids(pairs), [p.place for p in pairs]
            _, cut = check_lengths(model.max_source, ids, places, truncate=truncate)
            warn_cut(f"{name} sources", cut, len(pairs), model.max_source)
        self.ids = encode_pairs(
            splits.train, tokenizers, self.limits, truncate=truncate
        )
        lengths = self.ids.lengths("source", "target")
        lengths += 1  # in place: ten million pairs would need another 80 megabytes
        self.random = uses_dropout(tokenizers)
        super().__init__(
            splits.train, splits.valid, settings, lengths, "pairs", strict=True
        )

    def frequencies(self) -> Float[Tensor, "token"]:
        """Count each entry of the vocabulary in the training targets, END included."""
        size, special = self.tokenizers.target.size, self.tokenizers.target.special
        counts = np.zeros(size, dtype=np.int64)
        for shard in self.ids.shards:
            tokens = shard.columns["target"].values
            ordinary = np.where(tokens < size, tokens, special.unknown)
            counts += np.bincount(ordinary, minlength=size)
        counts[special.end] += len(self.ids)
        return torch.from_numpy(counts).float()

    def batch(self, epoch: int, indices: list[int]) -> PairBatch:
        """Return a batch; BPE-dropout depends on the seed, the epoch and the pair."""
        encode = self._sample_ids if self.random else self._ids
        examples = [encode(epoch, index) for index in indices]
        batch = collate(examples, *self.tokenizers.special, multiple=LENGTH_MULTIPLE)
        if self.links is None:
            return batch
        links = [self.links[index] for index in indices]
        rows = link_rows(links, batch.target_in.shape[1], batch.source.shape[1])
        return replace(batch, links=rows)

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

    def _ids(self, epoch: int, index: int) -> tuple[list[int], list[int]]:
        return pair_ids(self.ids, index)

    def _sample_ids(self, epoch: int, index: int) -> tuple[list[int], list[int]]:
        name = f"{self.settings.seed}/{epoch}/{index}".encode()
        seed = int.from_bytes(blake2b(name, digest_size=7).digest())
        pair = self.train[index]
        source = self.tokenizers.source.encode_with_dropout(pair.source, seed)
        target = self.tokenizers.target.encode_with_dropout(pair.target, seed + 1)
        for limit, ids in zip(self.limits, (source, target), strict=True):
            if limit is not None and len(ids) >= limit:
                return pair_ids(self.ids, index)
        return source, target


def setup(config: Seq2Seq, folder: RunDirectory, processes: int) -> Setup:
    """Read the data and build tokenizers, model and objective.

    Raises:
        InputError: The data, the model or the search is invalid.
    """
    splits = config.data.load()
    texts = None
    if config.vectors is not None:
        read = texts_of if config.tokenizers.target is None else sources_of
        texts = add_vector_texts(config.vectors, list(read(splits.train)), folder)
    if folder.has(SOURCE) and folder.has(TARGET):
        tokenizers = load_tokenizers(folder, config)
    else:
        tokenizers = train_tokenizers(config, splits, texts)
    model = build(config.model, *tokenizers.sizes, tokenizers.special)
    initialize_word_vectors(
        model.encoder, config.vectors, tokenizers.source, texts or (), folder
    )
    check_search(config.search, tokenizers.target.size, model)
    task = Seq2SeqObjective(
        splits,
        tokenizers,
        config.training,
        Scoring(config.metrics, config.search.with_beam(beam=1)),
        model=model,
        attention=config.attention_losses,
        truncate=config.truncate,
    )
    if config.output_bias == "frequencies":
        model.decoder.output.start_from(task.frequencies())
    source, target = tokenizers.source, tokenizers.target
    return setup_task(
        model,
        task,
        splits,
        digest_pairs(splits),
        pairs_summary(config.data, splits, tokenizers),
        details=[f"vocabularies of {source.size:,} and {target.size:,}"],
        tokenizers={SOURCE: source, TARGET: target},
    )


def train_tokenizers(
    config: Seq2Seq, splits: Splits[Pair], texts: list[str] | None = None
) -> Tokenizers:
    """Train the tokenizers on the training pairs, the source's on `texts` if any."""
    settings, train = config.tokenizers, splits.train
    if texts is not None:
        source = Tokenizer.train(settings.source, texts)
    elif settings.target is None:
        source = train_on_examples(train, settings.source, "both", texts_of)
    else:
        source = train_on_examples(train, settings.source, "source", sources_of)
    if settings.target is None:
        return Tokenizers(source, source, config.copying)
    target = train_on_examples(train, settings.target, "target", targets_of)
    return Tokenizers(source, target)


def texts_of(pairs: Sequence[Pair]) -> Iterator[str]:
    """Return the sources of pairs, then the targets."""
    return chain(sources_of(pairs), targets_of(pairs))


def sources_of(pairs: Sequence[Pair]) -> Iterator[str]:
    """Return the sources of pairs, one in memory at a time."""
    return (pair.source for pair in pairs)


def targets_of(pairs: Sequence[Pair]) -> Iterator[str]:
    """Return the targets of pairs, one in memory at a time."""
    return (pair.target for pair in pairs)


def digest_pairs(splits: Splits[Pair]) -> str:
    """Identify the training and the validation pairs."""
    return digest_splits(splits, lambda pair: f"{pair.source}\0{pair.target}\n")


def check_search(search: Search, vocabulary: int, model: EncoderDecoder) -> None:
    """Check a search before hours are spent on training.

    Raises:
        InputError: The vocabulary can't fill the beam, or a model with a coverage
            penalty does not attend to its source.
    """
    if search.coverage_penalty and model.decoder.source_attention is None:
        raise InputError(
            "search.coverage_penalty needs a model that attends to its source; leave it 0"
        )
    check_beam(search.beam, vocabulary, "target vocabulary")
