"""Losses on attention weights, and the score-function gradient of hard attention."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.align import Hard
from regard.attention.align.losses import (
    coverage,
    diagonal,
    doubly_stochastic,
    entropy,
    guidance,
)
from regard.attention.masks import padding
from regard.attention.record import Maps, record
from regard.errors import InputError
from regard.models.sizes import Share
from regard.nn.decoders import Decoder
from regard.shapes import Float, Scalar
from regard.text.kinds import IGNORED
from regard.training.settings import Amount, Training, forcing


@runtime_checkable
class AttendedBatch(Protocol):
    """The parts of a batch that attention losses need.

    Targets, source lengths and, if known, the alignment links, as in `PairBatch`.
    """

    @property
    def target_in(self) -> Tensor: ...
    @property
    def target_out(self) -> Tensor: ...
    @property
    def source_lengths(self) -> Tensor: ...
    @property
    def links(self) -> Tensor | None: ...


@runtime_checkable
class SourceModel(Protocol):
    """A model that reads sources and writes targets, as `EncoderDecoder` and `Captioner`."""

    @property
    def decoder(self) -> Decoder: ...
    @property
    def features(self) -> Callable[..., Any]:
        """From the sources, the right-shifted target and the probability of teacher forcing."""
        ...


TokenLosses = Float[Tensor, "batch target"]


@dataclass(frozen=True)
class AttentionLosses:
    """The weight of each term in a sequence's loss; 0 turns it off.

    A term is the mean over layers and heads.
    """

    doubly_stochastic: Amount = 0.0
    """The weights of each source position should sum to 1 over the target (Xu 2015)."""
    entropy: Amount = 0.0
    """Every row of weights should have low entropy."""
    coverage: Amount = 0.0
    """No source position should be attended to twice (See 2017)."""
    guided: Amount = 0.0
    """Weights should lie on the links of `data.links` (Chen 2016)."""
    diagonal: Amount = 0.0
    """Weights should lie near the diagonal, where outputs are in the order of their sources (Tachibana 2018)."""
    reinforce: Amount = 1.0
    """The weight of the gradient of a sample's log-probability, for `hard` alignment (Xu 2015: lambda_r)."""
    draw_entropy: Amount = 0.0
    """The weight of the entropy of the sampled distribution, per lookup (Xu 2015: lambda_e)."""
    baseline_decay: Share = 0.9
    """The decay of the moving average of the loss per token, which is the baseline of a sample."""

    @property
    def penalties(self) -> bool:
        on_weights = self.doubly_stochastic + self.entropy + self.coverage
        return on_weights + self.guided + self.diagonal > 0


class AttentionLoss:
    """Attention losses of one decoder.

    Raises:
        InputError: a term is set, and the decoder does not attend to its source.
    """

    def __init__(self, settings: AttentionLosses, decoder: Decoder):
        self.settings = settings
        self.readers = decoder.source_attention
        if settings.penalties and self.readers is None:
            raise InputError(
                "attention_losses need a model that attends to its source; remove them"
            )
        draws = any(isinstance(module, Hard) for module in decoder.modules())
        self.active = settings.penalties or draws

    def recording(self, model: SourceModel) -> AbstractContextManager[Maps | None]:
        """Record the source attention of a call of the model."""
        if not self.active or self.readers is None:
            return nullcontext()
        return record(model.decoder, self.readers, differentiable=True)

    def of(
        self,
        model: SourceModel,
        sources: tuple[Any, ...],
        batch: AttendedBatch,
        settings: Training,
        update: int,
    ) -> Scalar:
        """Return the loss of a batch's targets with the attention losses."""
        if settings.compile and self.active:
            raise InputError(
                "training.compile: attention_losses and hard attention record attention in every update, "
                "which compiled layers do not; leave training.compile out"
            )
        with self.recording(model) as maps:
            features = model.features(
                *sources, batch.target_in, forcing=forcing(settings, update)
            )
            total, losses = model.decoder.output.loss(
                features, batch.target_out, settings.label_smoothing
            )
        return total if maps is None else total + self(maps, batch, losses)

    def __call__(self, maps: Maps, batch: AttendedBatch, losses: TokenLosses) -> Scalar:
        """Return the attention losses of a batch.

        `losses` are those of its target tokens, 0 past the end, without gradient.
        """
        counted = (batch.target_out != IGNORED).to(losses.dtype)
        penalties = self._penalties(maps, batch, counted)
        return penalties + self._draws(maps, losses, counted)

    def _penalties(self, maps: Maps, batch: AttendedBatch, real: TokenLosses) -> Tensor:
        settings = self.settings
        lengths = batch.source_lengths
        weights = maps.stack_heads().to(real.dtype) * real[:, None, :, None]
        mean = weights.mean(1)
        total = weights.new_zeros(())
        if settings.doubly_stochastic:
            readable = padding(lengths, weights.shape[-1]).readable()[:, None]
            loss = doubly_stochastic(weights, readable).mean(1).sum()
            total += settings.doubly_stochastic * loss
        if settings.entropy:
            total += settings.entropy * entropy(weights).mean(1).sum()
        if settings.coverage:
            total += settings.coverage * coverage(weights).mean(1).sum()
        if settings.guided and batch.links is not None:
            total += settings.guided * guidance(mean, batch.links).sum()
        if settings.diagonal:
            targets = (batch.target_out != IGNORED).sum(1)
            total += settings.diagonal * diagonal(mean, targets, lengths).sum()
        return total

    def _draws(self, maps: Maps, losses: TokenLosses, real: TokenLosses) -> Tensor:
        """Score-function gradients (Williams 1992).

        The return of a sample is the loss from its own token on, less a baseline of as
        many tokens. Xu 2015 uses log p of the whole caption, less a baseline of whole
        captions; tokens before a sample do not depend on it and are left out here. The
        value of the term is the entropies' alone.
        """
        total = losses.new_zeros(())
        settings = self.settings
        for draws in maps.draws.values():
            log_probability = _join([draw.log_probability for draw in draws]) * real
            entropies = _join([draw.entropy for draw in draws]) * real
            baseline = draws[0].baseline
            credit = _from_here_on(losses) - baseline * _from_here_on(real)
            learned = (credit * log_probability).sum()
            total += (
                settings.reinforce * (learned - learned.detach())
                - settings.draw_entropy * entropies.sum()
            )
            usual = losses.sum() / real.sum()
            baseline.lerp_(
                torch.where(usual.isfinite(), usual, baseline),
                1 - settings.baseline_decay,
            )
        return total


def _join(steps: list[Tensor]) -> Float[Tensor, "batch target"]:
    """Concatenate steps `(batch, [head,] query)`, summed over heads."""
    joined = torch.cat(steps, -1)
    return joined.sum(1) if joined.ndim == 3 else joined


def _from_here_on(loss: TokenLosses) -> TokenLosses:
    return loss.flip(1).cumsum(1).flip(1)
