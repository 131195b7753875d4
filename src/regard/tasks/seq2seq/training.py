"""Training of sequence-to-sequence models: pairs of texts to batches, the loss and the metrics."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batching import LENGTH_MULTIPLE, PairBatch, collate
from regard.data.pair import Pair
from regard.data.splits import Splits
from regard.data.token_batches import batch_size, require_room, token_batches
from regard.data.tokenizer_pair import Tokenizers
from regard.decoding.texts import limited
from regard.nn.encoder_decoder import EncoderDecoder
from regard.shapes import Float
from regard.tasks.seq2seq.encoded import encode_pairs, pair_ids, warn_cut
from regard.tasks.seq2seq.guidance import link_rows, piece_links
from regard.tasks.seq2seq.metrics import PERPLEXITY, Scoring, figures
from regard.training.attention_losses import AttentionLoss, AttentionLosses
from regard.training.objective import Carried, Loss
from regard.training.settings import Training


class Seq2SeqObjective:
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
        """Raises InputError for no pairs, for one longer than a batch, and for one longer than the
        model can take, in any of the sets, unless `truncate` cuts it; and for an attention loss that model or data do
        not support."""
        self.train, self.valid, self.tokenizers, self.settings = (
            splits.train,
            splits.valid,
            tokenizers,
            settings,
        )
        self.scoring = replace(scoring, truncate=truncate)
        self.metric = scoring.metrics[0]
        self.higher_is_better = self.metric != PERPLEXITY
        self.limits = (model.max_source, model.max_target)
        attention = AttentionLosses() if attention is None else attention
        self.attention_loss = AttentionLoss(attention, model.decoder)
        self.links = piece_links(self.train, tokenizers) if attention.guided else None
        self._check_sources("validation", splits.valid, truncate)
        self._check_sources("test", splits.test, truncate)
        self.ids = encode_pairs(self.train, tokenizers, self.limits, truncate=truncate)
        self.lengths = self.ids.lengths("source", "target")
        self.lengths += 1  # in place: ten million pairs would need another 80 megabytes
        self.random = (
            max(tokenizers.source.settings.dropout, tokenizers.target.settings.dropout)
            > 0
        )
        self.tokens = batch_size(self.lengths, settings.batch_tokens, "training pairs")
        require_room(self.lengths, settings.batch_tokens, self.place, "pair")

    def _check_sources(self, name: str, pairs: Sequence[Pair], truncate: bool) -> None:
        ids, limit = self.tokenizers.all_source_ids(pairs), self.limits[0]
        _, cut = limited(limit, ids, [pair.place for pair in pairs], truncate=truncate)
        warn_cut(f"{name} sources", (cut, len(pairs)), limit)

    def place(self, index: int) -> str:
        """The file and line of a training pair."""
        return self.train[index].place

    def frequencies(self) -> Float[Tensor, "token"]:
        """The count of each entry of the target vocabulary in the training targets, END included."""
        size, special = self.tokenizers.target.size, self.tokenizers.target.special
        counts = np.zeros(size, dtype=np.int64)
        for shard in self.ids.shards:
            tokens = shard.columns["target"].values
            counts += np.bincount(
                np.where(tokens < size, tokens, special.unknown), minlength=size
            )
        counts[special.end] += len(self.ids)
        return torch.from_numpy(counts).float()

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> PairBatch:
        """A batch. BPE-dropout samples a segmentation as a function of the seed, the epoch and the pair."""
        examples = [
            self._encode_anew(epoch, index)
            if self.random
            else pair_ids(self.ids, index)
            for index in indices
        ]
        batch = collate(examples, *self.tokenizers.special, multiple=LENGTH_MULTIPLE)
        if self.links is None:
            return batch
        sizes = batch.target_in.shape[1], batch.source.shape[1]
        return replace(
            batch, links=link_rows([self.links[index] for index in indices], *sizes)
        )

    def loss(
        self,
        model: nn.Module,
        batch: PairBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, EncoderDecoder)
        sources = batch.source, batch.source_lengths
        return Loss(
            self.attention_loss.of(model, sources, batch, self.settings, update),
            batch.target_tokens,
        )

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, EncoderDecoder)
        return figures(model, self.tokenizers, self.valid, self.scoring)

    def _encode_anew(self, epoch: int, index: int) -> tuple[list[int], list[int]]:
        name = f"{self.settings.seed}/{epoch}/{index}".encode()
        seed = int.from_bytes(blake2b(name, digest_size=7).digest())
        pair = self.train[index]
        source = self.tokenizers.source.encode_with_dropout(pair.source, seed)
        target = self.tokenizers.target.encode_with_dropout(pair.target, seed + 1)
        plain = pair_ids(self.ids, index)
        fits = all(
            limit is None or len(new) < limit
            for limit, new in zip(self.limits, (source, target), strict=True)
        )
        return (source, target) if fits else plain
