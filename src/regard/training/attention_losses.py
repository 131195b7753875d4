"""What is added to the loss for how a model reads its source, and the gradient of reads that are drawn."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.attention.align import Hard
from regard.attention.align.losses import coverage, doubly_stochastic, entropy, guided
from regard.attention.masks import padding
from regard.attention.record import Maps, record
from regard.errors import InputError
from regard.models.sizes import Share
from regard.nn.decoders.protocol import Decoder
from regard.shapes import Float
from regard.text.special import IGNORED
from regard.training.schedules import forcing
from regard.training.settings import Amount, Training


@runtime_checkable
class Told(Protocol):
    """What is asked of a batch: the targets, how much of each source may be read, and where each target position
    should read if that is known, as `PairBatch` has it."""

    @property
    def target_in(self) -> Tensor: ...
    @property
    def target_out(self) -> Tensor: ...
    @property
    def source_lengths(self) -> Tensor: ...
    @property
    def links(self) -> Tensor | None: ...


TokenLosses = Float[Tensor, "batch target"]


@dataclass(frozen=True)
class AttentionLosses:
    """How much of each is added to a sequence's loss; 0 leaves it out. Several layers or heads count by their mean."""

    doubly_stochastic: Amount = 0.0
    """Every source position should be read once in all (Xu 2015)."""
    entropy: Amount = 0.0
    """Every read should be sharp."""
    coverage: Amount = 0.0
    """Nothing should be read twice (See 2017)."""
    guided: Amount = 0.0
    """Reads should be at the links given by `data.links` (Chen 2016)."""
    reinforce: Amount = 1.0
    """Of the gradient of a draw's log-probability, where the alignment is `hard` (Xu 2015: lambda_r)."""
    draw_entropy: Amount = 0.0
    """How much entropy of what is drawn from is wanted, per read (Xu 2015: lambda_e)."""
    baseline_decay: Share = 0.9
    """Of the moving average of the loss a token, to which a draw's outcome is compared."""

    @property
    def penalties(self) -> bool:
        return max(self.doubly_stochastic, self.entropy, self.coverage, self.guided) > 0


class AttentionLoss:
    """The settings, for one decoder.

    Raises:
        InputError: something is to be added for reads of the source, and the model does not read it.
    """

    def __init__(self, settings: AttentionLosses, decoder: Decoder):
        self.settings = settings
        self.readers = decoder.source_attention
        if settings.penalties and self.readers is None:
            raise InputError("attention_losses need a model that attends to its source; remove them")
        draws = any(isinstance(module, Hard) for module in decoder.modules())
        self.wanted = settings.penalties or draws

    def listening(self, model: nn.Module) -> AbstractContextManager[Maps | None]:
        """Hears what a call of the model, wrapped or not, reads."""
        if not self.wanted or self.readers is None:
            return nullcontext()
        inner: Any = model.module if isinstance(model, DistributedDataParallel) else model
        decoder = inner.decoder
        assert isinstance(decoder, nn.Module)
        return record(decoder, self.readers, differentiable=True)

    def of(
        self, model: nn.Module, sources: tuple[Tensor, ...], batch: Told, settings: Training, update: int
    ) -> Float[Tensor, ""]:
        """The loss of a batch's targets given its `sources`, teacher forced as the settings say at this update, with
        what is added for how they are read. Raises InputError where nothing could be compiled."""
        if settings.compile and self.wanted:
            raise InputError(
                "training.compile: attention_losses, and what hard attention draws, record attention in every update, "
                "and compiled layers do not tell it; leave training.compile out"
            )
        with self.listening(model) as maps:
            total, losses = model(
                *sources,
                batch.target_in,
                forcing=forcing(settings, update),
                expected=batch.target_out,
                smoothing=settings.label_smoothing,
            )
        return total if maps is None else total + self(maps, batch, losses)

    def __call__(self, maps: Maps, batch: Told, losses: TokenLosses) -> Float[Tensor, ""]:
        """What is added for a batch. `losses` are those of its target tokens, 0 past the end, without gradient."""
        real = batch.target_out != IGNORED
        return self._penalties(maps, batch, real.to(losses.dtype)) + self._draws(maps, losses, real.to(losses.dtype))

    def _penalties(self, maps: Maps, batch: Told, real: TokenLosses) -> Tensor:
        settings = self.settings
        weights = maps.together().to(real.dtype) * real[:, None, :, None]
        total = weights.new_zeros(())
        if settings.doubly_stochastic:
            readable = padding(batch.source_lengths, weights.shape[-1]).readable()
            total += settings.doubly_stochastic * doubly_stochastic(weights, readable[:, None]).mean(1).sum()
        if settings.entropy:
            total += settings.entropy * entropy(weights).mean(1).sum()
        if settings.coverage:
            total += settings.coverage * coverage(weights).mean(1).sum()
        if settings.guided and batch.links is not None:
            total += settings.guided * guided(weights.mean(1), batch.links).sum()
        return total

    def _draws(self, maps: Maps, losses: TokenLosses, real: TokenLosses) -> Tensor:
        """Score-function gradients (Williams 1992): each draw is credited with the losses from its own token on, less
        what is usual for so many. Xu 2015 credits every draw with log p of the whole caption, less a baseline of whole
        captions; what came before a draw does not depend on it, and is left out here. Adds the entropies' value alone.
        """
        total, settings = losses.new_zeros(()), self.settings
        for draws in maps.draws.values():
            log_probability = _joined([draw.log_probability for draw in draws]) * real
            entropies, baseline = _joined([draw.entropy for draw in draws]) * real, draws[0].baseline
            credit = _from_here_on(losses) - baseline * _from_here_on(real)
            learned = (credit * log_probability).sum()
            total += settings.reinforce * (learned - learned.detach()) - settings.draw_entropy * entropies.sum()
            usual = losses.sum() / real.sum()
            baseline.lerp_(torch.where(usual.isfinite(), usual, baseline), 1 - settings.baseline_decay)
        return total


def _joined(steps: list[Tensor]) -> Float[Tensor, "batch target"]:
    """The steps `(batch, [head,] query)` one after the other, summed over heads."""
    joined = torch.cat(steps, -1)
    return joined.sum(1) if joined.ndim == 3 else joined


def _from_here_on(each: TokenLosses) -> TokenLosses:
    return each.flip(1).cumsum(1).flip(1)
