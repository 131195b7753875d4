"""Training of translation into several languages: a source with all its targets in one batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import torch
from torch import nn

from regard.data.batching import PairBatch
from regard.data.pair import Pair
from regard.data.splits import Splits
from regard.data.token_batches import token_batches
from regard.data.tokenizer_pair import Tokenizers
from regard.models.one_to_many import OneToMany
from regard.tasks.seq2seq.metrics import Scoring
from regard.tasks.seq2seq.training import Seq2SeqObjective
from regard.training.objective import Carried, Loss
from regard.training.schedules import forcing
from regard.training.settings import Training


@dataclass(frozen=True)
class ManyBatch:
    """A batch of each language, all with the same sources."""

    parts: Mapping[str, PairBatch]

    def to(self, device: torch.device | str) -> "ManyBatch":
        """The same batch on `device`."""
        return replace(
            self, parts={name: part.to(device) for name, part in self.parts.items()}
        )


class MultiTargetObjective:
    """Maximum likelihood of all targets of a source. Raises InputError as `Seq2SeqObjective`."""

    def __init__(
        self,
        splits: Mapping[str, Splits[Pair]],
        tokenizers: Mapping[str, Tokenizers],
        settings: Training,
        scoring: Scoring,
        *,
        model: OneToMany,
        truncate: bool = False,
    ):
        self.settings = settings
        self.parts = {
            name: Seq2SeqObjective(
                each,
                tokenizers[name],
                settings,
                scoring,
                model=model.of(name),
                truncate=truncate,
            )
            for name, each in splits.items()
        }
        self.first = next(iter(self.parts.values()))
        self.metric, self.higher_is_better = (
            self.first.metric,
            self.first.higher_is_better,
        )
        self.lengths = np.stack([part.lengths for part in self.parts.values()]).max(0)

    def place(self, index: int) -> str:
        """The file and line of a source."""
        return self.first.place(index)

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(
            self.lengths, self.settings.batch_tokens, self.settings.seed, epoch
        )

    def batch(self, epoch: int, indices: list[int]) -> ManyBatch:
        return ManyBatch(
            {name: part.batch(epoch, indices) for name, part in self.parts.items()}
        )

    def loss(
        self,
        model: nn.Module,
        batch: ManyBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        first = next(iter(batch.parts.values()))
        assert isinstance(model, OneToMany)
        targets = {name: part.target_in for name, part in batch.parts.items()}
        features = model.features(
            first.source, first.source_lengths, targets, forcing(self.settings, update)
        )
        totals = [
            model.output(name).loss(
                features[name], part.target_out, self.settings.label_smoothing
            )[0]
            for name, part in batch.parts.items()
        ]
        return Loss(
            torch.stack(totals).sum(),
            sum(part.target_tokens for part in batch.parts.values()),
        )

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, OneToMany)
        return of_all(
            {name: part.validate(model.of(name)) for name, part in self.parts.items()}
        )


def of_all(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean of each figure over the languages, and each language's own as `figure/language`."""
    names = list(next(iter(found.values())))
    means = {name: fmean(each[name] for each in found.values()) for name in names}
    return means | {
        f"{name}/{language}": found[language][name]
        for name in names
        for language in found
    }
