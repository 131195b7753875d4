"""Objectives of training: their protocol, one of a list of examples, and losses on attention."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

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
from regard.data.batches import Batch as TensorBatch
from regard.data.batches import Shuffled, move
from regard.data.records import DataFrame, records_of
from regard.errors import InputError
from regard.metrics import Metrics
from regard.models.sizes import Share
from regard.nn.decoders import Decoder
from regard.shapes import Float, Scalar
from regard.text.kinds import IGNORED
from regard.training.settings import Amount, Training, forcing
from regard.work import compute_batches


@runtime_checkable
class Batch(Protocol):
    """The result of `Objective.batch`; the loop only moves it to a device."""

    def to(self, device: torch.device, /) -> "Batch": ...


Carried = dict[str, Tensor]


@dataclass(frozen=True)
class Loss:
    """A loss summed over its tokens.

    The loop divides by the tokens of the whole update, over all processes.
    """

    total: Tensor
    """A scalar with a gradient."""
    tokens: int
    """How many terms were summed: target tokens, as a rule."""
    carried: Carried | None = None
    """Tensors by name, without a gradient, for the loss of the next batch."""
    read: int = 0
    """How many tokens, images or steps the model read; 0: as many as `tokens`."""


@runtime_checkable
class Objective(Protocol):
    """A training objective: its examples, batches, loss and validation.

    `batches` and `batch` are pure functions of the objective's settings and their
    arguments, with generators seeded by them and never the global random states: so a
    run does not depend on its number of workers, and a resumed run has the same
    batches. `loss` may use the global random states and carry tensors to its next call,
    both of which a checkpoint saves; it keeps no other state. Whatever else changes
    during a run is a function of the update.
    """

    @property
    def metric(self) -> str:
        """The key of `validate`'s result that selects the best weights."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Whether the best weights have the highest value of the metric."""
        ...

    def batches(self, epoch: int) -> Sequence[list[int]]:
        """Return the epoch's batches as lists of example indices, in the order of training.

        A list, or an `Order` of data/batches.py, which holds a chunk of a large set at a time.
        """
        ...

    def batch(self, epoch: int, indices: list[int]) -> Any:
        """Build one batch, which has `.to(device)`; may run in a worker process."""
        ...

    def loss(
        self,
        model: nn.Module,
        batch: Any,
        update: int,
        carried: Carried | None,
    ) -> Loss:
        """Return the summed loss of a batch at an update (counted from 1).

        It may call any part of the model (see `LossModule`). `carried` comes from the
        batch before, in the same process; None at the start and after an update that
        was skipped.
        """
        ...

    def validate(self, model: nn.Module) -> Metrics:
        """Metrics on held-out examples, `self.metric` among them.

        The model is in evaluation mode, in full precision and without gradients. Every
        process calls it; the first one's metrics count. Batches that it computes
        through `regard.work.computed` are divided among the processes.
        """
        ...


class LossModule(nn.Module):
    """From a batch to its loss in one call, of a model that computes logits and an objective that computes losses.

    DDP and FSDP exchange gradients of what happens within one call of the module that they wrap. They wrap this one, so
    an objective may call parts of the model, and a model's `forward` need not know of losses.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(
        self,
        batch: Any,
        update: int,
        carried: Carried | None,
    ) -> tuple[Tensor, int, Carried | None, int]:
        """Return the fields of a `Loss`.

        FSDP finds tensors in tuples, not in dataclasses.
        """
        loss = self.objective.loss(self.model, batch, update, carried)
        return loss.total, loss.tokens, loss.carried, loss.read or loss.tokens


@runtime_checkable
class HasLocations(Protocol):
    """An objective that also knows the origin of an example, as `file:line`, for error messages."""

    def place(self, index: int) -> str: ...


@runtime_checkable
class HasUnit(Protocol):
    """An objective that reads something else than tokens.

    `unit` names it in the plural.
    """

    unit: str


def unit_of(objective: object) -> str:
    """Return what the speed of a training counts."""
    return objective.unit if isinstance(objective, HasUnit) else "tokens"


def origin(objective: object, indices: Sequence[int]) -> str:
    """Return the origins of examples in brackets, or nothing where they are unknown."""
    if not isinstance(objective, HasLocations):
        return ""
    return f" ({', '.join(objective.place(index) for index in indices)})"


E = TypeVar("E")
Evaluate = Callable[[nn.Module], Mapping[str, float]]


@dataclass(frozen=True)
class Tensors(TensorBatch):
    """A batch as the collate function returned it: tensors in tuples, lists and dicts.

    The rest stays where it is.
    """

    content: Any
    examples: int


@dataclass(frozen=True, kw_only=True)
class Supervised(Generic[E]):
    """An objective of examples and a loss, for `regard.fit` and for tasks.

    Raises:
        InputError: There are no examples, or the batch size is below 1.
    """

    train: Sequence[E]
    """The examples; those of a data frame are its rows, a mapping each."""
    valid: Sequence[E]
    """The examples of the validation."""
    collate: Callable[[list[E]], Any]
    """Makes a batch of examples: tensors, or tuples, lists and dicts of tensors."""
    loss_of: Callable[[nn.Module, Any], Tensor]
    """`loss_of(model, batch)` is the mean loss, a scalar with a gradient."""
    batch_size: int = 32
    """Examples in a batch."""
    evaluate: Evaluate | None = None
    """Metrics of the model in evaluation mode. Default: the mean loss on `valid`."""
    metric: str = "loss"
    """The metric that chooses the best weights."""
    higher_is_better: bool = False
    seed: int = 1
    """The seed of the order of the examples."""

    def __post_init__(self) -> None:
        for name, examples in (("train", self.train), ("valid", self.valid)):
            if isinstance(examples, DataFrame):
                object.__setattr__(self, name, records_of(examples))
        if not len(self.train) or not (len(self.valid) or self.evaluate):
            raise InputError(
                f"{len(self.train)} examples to train on, {len(self.valid)} to validate on; expected some"
            )
        if self.batch_size < 1:
            raise InputError(f"batch_size is {self.batch_size}; expected at least 1")

    def batches(self, epoch: int) -> Sequence[list[int]]:
        """Return the order of the epoch, a function of seed and epoch only."""
        return Shuffled(len(self.train), self.batch_size, f"{self.seed} {epoch}")

    def batch(self, epoch: int, indices: list[int]) -> Tensors:
        """Make a batch; this may run in a worker process."""
        examples = [self.train[index] for index in indices]
        return Tensors(self.collate(examples), len(indices))

    def loss(
        self,
        model: nn.Module,
        batch: Tensors,
        update: int,
        carried: Carried | None,
    ) -> Loss:
        """Return the loss of a batch, weighted by its size."""
        return Loss(self.loss_of(model, batch.content) * batch.examples, batch.examples)

    def validate(self, model: nn.Module) -> Metrics:
        """Return the metrics that choose the best weights."""
        if self.evaluate is not None:
            return dict(self.evaluate(model))
        device = next(model.parameters()).device

        def loss(first: int) -> float:
            examples = list(self.valid[first : first + self.batch_size])
            batch = move(self.collate(examples), device)
            return self.loss_of(model, batch).item() * len(examples)

        starts = range(0, len(self.valid), self.batch_size)
        return {"loss": sum(compute_batches(loss, starts)) / len(self.valid)}


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
    guided_input: bool = False
    """The links of a word guide the step after its prediction, whose query knows the word (Chen 2020, Accurate word
    alignment induction). For runs that only align."""
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
            links = batch.links
            if settings.guided_input:
                links = links.roll(1, 1)  # the end, in the last row, has none
            total += settings.guided * guidance(mean, links).sum()
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
