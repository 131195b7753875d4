"""Settings of a training, its learning rates, and the device, threads and precision it gets."""

import ctypes
import math
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeInt
from torch import nn

from regard.errors import InputError
from regard.metrics import Metrics, rank_ties
from regard.models.sizes import Fraction, Probability, Share

Positive = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PATIENCE = 5
"""Validations without improvement after which training ends by default, if the rate does not fall to zero."""
Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True)
class Training:
    """The settings of the training loop.

    An update is one step of the optimizer; `0` turns an optional part off.

    Same settings, data, number of processes and number of threads: the same weights,
    bit for bit, on one machine, for any number of workers and across interruptions (on
    a CPU with one or two processes; more processes and GPUs sum in no fixed order).
    """

    seed: NonNegativeInt = 1
    """The seed of the order of examples, of dropout and of everything else that is random."""
    steps: Positive = 10_000
    """The number of updates."""
    epochs: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] | None = (
        None
    )
    """Passes over the training examples, in place of `steps`, which is then computed from the batches of the first."""
    batch_tokens: Positive = 3072
    """The largest padded size of a batch in tokens, per process; read by the objective. With BPE-dropout batches are
    made by the lengths without it, so that a batch whose words are cut into more pieces is larger."""
    accumulate: Positive = 1
    """Batches per process whose gradients are added up for one update."""
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-3
    """The highest rate, reached at the end of the warm-up."""
    schedule: Literal["constant", "linear", "cosine", "inverse-square-root"] = (
        "constant"
    )
    """How the rate falls after the warm-up: not at all; to zero at the last update, straight or as half a cosine; as
    update^-0.5 (Vaswani et al. 2017)."""
    warmup: NonNegativeInt = 0
    """Updates in which the rate rises linearly from zero. Where an option lowers `steps` and leaves `warmup`, and with
    `epochs`, it is at most a tenth of the updates."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    """Adam's two decay rates."""
    epsilon: Fraction = 1e-9
    """Adam's epsilon."""
    weight_decay: Amount = 0.0
    """Decoupled decay (AdamW) of matrices; vectors (biases, norms) never decay."""
    clip: Amount = 1.0
    """The largest norm of the gradient of the mean loss per token; longer ones are scaled down."""
    label_smoothing: Share = 0.0
    """The probability of all other tokens together; read by the objective."""
    teacher_forcing: Probability = 1.0
    """The probability that the decoder gets the true previous token instead of its own prediction, at the first update:
    1 is teacher forcing, 0 free running, between them scheduled sampling (Bengio 2015, 1506.03099); read by the
    objective."""
    teacher_forcing_end: Probability | None = None
    """The same probability at update `steps`, linear between the two; None: constant."""
    precision: Precision = "fp32"
    """The precision of matrix products in training; weights, optimizer and validation stay in fp32. `auto` is bf16 on
    devices with instructions for it; a run's folder has the precision that was chosen."""
    compile: bool = False
    """Compile the layers of Transformers for the updates (`regard.training.layers`), which on a CPU needs a C++
    compiler. The first updates are slow then. Without a compiler, training warns and continues uncompiled."""
    validate_every: NonNegativeInt = 1000
    """Updates between validations; 0: only at the end."""
    patience: NonNegativeInt | None = None
    """Validations in a row without improvement after which training ends; 0: never. By default 0 where the schedule
    falls to zero (linear, cosine), since a model improves most at its end; else 5, counted once the metric has changed
    or is perfect, since a metric such as exact match may begin with many zeros."""
    keep_best: NonNegativeInt = 1
    """How many checkpoints with the best metric are kept beside the last; with 0 the last weights are the result."""
    average_decay: Share = 0.0
    """The decay of an exponential moving average of the weights, such as 0.997; it is validated and saved in their
    place."""
    checkpoint_every: NonNegativeInt = 0
    """Updates between checkpoints; 0: at validations, by the clock and at the end only."""
    checkpoint_minutes: Amount = 5.0
    """Minutes since the last checkpoint after which one is saved; 0: never for that reason."""
    log_every: Positive = 50
    """Updates between lines of `metrics.jsonl`."""
    maximum_bad_updates: Positive = 10
    """The number of successive updates with a loss or gradient that is not finite, at which the run ends."""
    workers: NonNegativeInt = 0
    """Processes that prepare batches ahead; 0: the training process does."""
    threads: NonNegativeInt = 0
    """Threads of each process; 0: `OMP_NUM_THREADS` where it is set, else one for a small model and PyTorch's choice
    for a large one (`regard.training.settings`)."""
    device: Literal["auto", "cpu", "cuda", "mps", "xpu"] = "auto"
    """Where to train; `auto` is an accelerator if there is one."""
    start: str | None = None
    """The folder of a run to start from, with its weights and tokenizers; its model must be the same."""
    process_timeout: Positive = 1800
    """Seconds that the processes of a run wait for each other; the run ends if one hangs for longer. Raise it where
    the first process prepares the data for longer, or one disk is slow."""
    tensorboard: bool = True
    """Write TensorBoard's files too, where it is installed."""

    def __post_init__(self) -> None:
        if self.warmup > self.steps and self.epochs is None:
            raise ValueError(
                f"warmup is {self.warmup}, and training ends after {self.steps} updates (steps); lower warmup, such as "
                f"to {tenth(self.steps)}, or raise steps"
            )
        if self.epochs is not None and self.teacher_forcing_end is not None:
            raise ValueError(
                "teacher_forcing_end changes by updates, so it needs steps; remove epochs or it"
            )

    def describe(self) -> str:
        """Return how long training takes, in a line."""
        epochs = "" if self.epochs is None else f" ({self.epochs:g} epochs)"
        plan = f"{self.steps:,} updates{epochs}, {self.warmup:,} of them warm-up"
        if not 0 < self.validate_every < self.steps:
            return f"{plan}; validation at the end"
        plan += f"; validation every {self.validate_every:,}"
        patience = self.early_end
        end = f"; it ends early after {patience} without improvement"
        return plan + (end if patience else "")

    @property
    def early_end(self) -> int:
        """Validations without improvement after which training ends; 0: never."""
        if self.patience is not None:
            return self.patience
        return 0 if self.schedule in ("linear", "cosine") else PATIENCE

    def with_epochs_as_steps(self, batches: int) -> "Training":
        """Return these settings with the `steps` of `epochs` of so many batches.

        Settings without epochs are returned unchanged.
        """
        if self.epochs is None:
            return self
        steps = max(1, math.ceil(self.epochs * batches / self.accumulate))
        return replace(self, steps=steps, warmup=min(self.warmup, tenth(steps)))


def tenth(steps: int) -> int:
    """Return the longest warm-up of so many updates that nobody chose."""
    return max(1, steps // 10)


def rate(settings: Training, update: int) -> float:
    """Return the learning rate of an update (counted from 1).

    It rises to the highest at `warmup`, then falls to 0 just after the last update, or
    as n^-0.5. With (D w)^-0.5 as the highest rate the latter is that of Vaswani et al.
    (2017) for a model of width D.
    """
    warmup = max(1, settings.warmup)
    after = settings.steps + 1
    future = min(1.0, (after - update) / (after - settings.warmup))
    falling = {
        "constant": 1.0,
        "linear": future,
        "cosine": 0.5 - 0.5 * math.cos(math.pi * future),
        "inverse-square-root": (warmup / update) ** 0.5,
    }
    share = min(1.0, update / warmup, falling[settings.schedule])
    return settings.learning_rate * share


def forcing(settings: Training, update: int) -> float:
    """Return the probability of teacher forcing in an update.

    Linear from `teacher_forcing` at the first update to `teacher_forcing_end` at the
    last (Bengio 2015, 1506.03099).
    """
    start = settings.teacher_forcing
    end = settings.teacher_forcing_end
    if end is None or settings.steps == 1:
        return start
    done = (update - 1) / (settings.steps - 1)
    return (1 - done) * start + done * end


RECENT = 2
"""The number of last checkpoints that are always validated: one is left if the newest is damaged."""


@dataclass
class Validated:
    """A checkpoint with its validation."""

    update: int
    value: float
    figures: Metrics


@dataclass
class Selection:
    """The checkpoints to keep, and when training ends early."""

    best: list[Validated] = field(default_factory=list)
    """Best first."""
    recent: list[int] = field(default_factory=list)
    """Newest last."""
    waited: int = 0
    """Validations since the last record."""
    record: float | None = None
    changed: bool = False
    """Whether the metric has changed since the first validation, or is perfect."""

    def observe(
        self,
        validated: Validated,
        settings: Training,
        higher_is_better: bool,
    ) -> bool:
        """Add a validation; True if it is a new record.

        Of two equals the next metrics decide, then the later one is better; NaN is
        never a record.
        """
        sign = 1.0 if higher_is_better else -1.0
        value = validated.value
        perfect = 100.0 if higher_is_better else 0.0
        self.changed = self.changed or self.record not in (None, value)
        self.changed = self.changed or value == perfect
        record = -sign * math.inf if self.record is None else self.record
        improved = sign * value > sign * record
        if improved:
            self.record = value
        self.waited = 0 if improved else self.waited + 1
        if not math.isnan(value):
            ranked = sorted(
                [*self.best, validated],
                key=lambda item: (
                    -sign * item.value,
                    *rank_ties(item.figures),
                    -item.update,
                ),
            )
            self.best = ranked[: settings.keep_best]
        return improved

    def exhausted(self, settings: Training) -> bool:
        """Return whether training ends early."""
        counts = self.changed or settings.patience is not None
        return counts and 0 < settings.early_end <= self.waited

    def add(self, update: int) -> list[int]:
        """Add a checkpoint; return those to remove."""
        steps = [*(step for step in self.recent if step != update), update]
        best = [validated.update for validated in self.best]
        self.recent = [step for step in steps if step in [*steps[-RECENT:], *best]]
        return [step for step in steps if step not in self.recent]


class MovingAverage:
    """average <- d average + (1 - d) weights after every update, with d = min(decay, (1 + n) / (10 + n)).

    The smaller d of the first updates keeps the random initial weights out of short runs. It holds one tensor per
    parameter and allocates nothing per update.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay = decay
        self._weights = [parameter.detach() for parameter in parameters]
        self._average = [weights.clone() for weights in self._weights]

    @torch.no_grad()
    def update(self, count: int) -> None:
        """Move towards the weights after update `count`."""
        decay = min(self.decay, (1 + count) / (10 + count))
        torch._foreach_lerp_(self._average, self._weights, 1 - decay)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Replace the weights by the average; restore them afterwards."""
        original = [weights.clone() for weights in self._weights]
        torch._foreach_copy_(self._weights, self._average)
        try:
            yield
        finally:
            torch._foreach_copy_(self._weights, original)


def devices() -> list[str]:
    """Return the kinds of device this machine has, the processor last."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return ["cpu"] if accelerator is None else [accelerator.type, "cpu"]


def choose_device(name: str) -> str:
    """Return the kind of device that `name` stands for.

    `auto` is an accelerator if there is one.

    Raises:
        InputError: this machine has no such device.
    """
    kinds = devices()
    if name == "auto":
        return kinds[0]
    if name not in kinds:
        raise InputError(
            f"device {name!r} is not available here; choose from: auto, {', '.join(kinds)}"
        )
    return name


def choose_own_accelerator() -> None:
    """Make the accelerator of this process's number the current one under torchrun.

    For processes that do not communicate.
    """
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    count = torch.accelerator.device_count()
    if rank and count:
        torch.accelerator.set_device_index(rank % count)


def choose_precision(name: Precision, device: str) -> Precision:
    """Return the precision that `name` stands for.

    `auto` is bf16 on devices with bf16 matrix products in hardware.
    """
    chosen: Precision = "bf16" if supports_bf16_products(device) else "fp32"
    return chosen if name == "auto" else name


def supports_bf16_products(device: str) -> bool:
    """Return whether the kind of device multiplies matrices of bf16 in hardware.

    Others emulate it, slower than fp32.
    """
    if device == "cpu":
        return torch.cpu._is_avx512_bf16_supported()  # processors with AMX have it too
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device == "xpu" and torch.xpu.is_bf16_supported()


VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of the environment that give PyTorch its number of threads."""
SMALL = 20_000_000
"""Parameters of a model below which one thread is chosen: the parts of its operations are too short to wait for each
other (docs/guide/training.md has the measurements)."""


def choose_threads(
    settings: Training,
    parameters: int,
    saved: int | None = None,
) -> int:
    """Return the number of threads of each process.

    The first of these decides: `settings.threads`; a variable of the environment;
    `saved`, the number that a resumed run began with; one for a small model; PyTorch's
    own choice.
    """
    if settings.threads:
        return settings.threads
    if any(os.environ.get(name) for name in VARIABLES):
        return torch.get_num_threads()
    if saved is not None:
        return saved
    return 1 if parameters < SMALL else torch.get_num_threads()


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Use this number of threads inside, and the former number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # mallopt's names for them, from malloc.h
KEEP = 1 << 30


def keep_freed_memory() -> bool:
    """Keep the memory of freed tensors for the next ones.

    Glibc keeps blocks below 1 GiB instead of returning them to the kernel, whose
    zeroing of fresh pages costs up to a fifth of an update on a CPU. For processes that
    train.

    Returns: whether the process keeps freed memory; other systems are left as they are.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    glibc = ctypes.CDLL(None)
    return all(
        glibc.mallopt(name, KEEP) == 1 for name in (MMAP_THRESHOLD, TRIM_THRESHOLD)
    )


def count_parameters(model: torch.nn.Module) -> int:
    """Return how many numbers its parameters are.

    Those that modules share count once.
    """
    return sum(parameter.numel() for parameter in model.parameters())
