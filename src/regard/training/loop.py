"""The training loop.

Updates, validation, checkpoints, an exact resume, and the choice of the final weights.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from regard.errors import RunError
from regard.storage.checkpoints import Checkpoint
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.training.batches import BatchStream
from regard.training.devices import count_parameters, use_threads
from regard.training.layers import compile_layers
from regard.training.objectives import LossModule, Objective, unit_of
from regard.training.processes import (
    Processes,
    Stop,
    Stopped,
    explain_lost_processes,
)
from regard.training.progress import Metrics, Progress, UpdateSums
from regard.training.schedules import MovingAverage, Validated, rate
from regard.training.settings import Training
from regard.training.snapshot import (
    TrainingState,
    describe_regrouping,
    explain_restoring,
    load_weights,
    snapshot,
)
from regard.training.state import (
    keep_random_state,
    restore_optimizer,
    restore_random_state,
    seed_everything,
    weights,
)
from regard.training.update import Updater, UpdateResult, build_optimizer
from regard.work import divide_among


def fit(
    model: nn.Module,
    objective: Objective,
    settings: Training,
    run: RunDirectory,
    *,
    resume: bool = False,
    on_ready: Callable[[], None] | None = None,
) -> dict[str, float | int]:
    """Train the model and save the selected weights as `weights.safetensors`.

    Selected are the weights with the best validation (the moving average's, if there is
    one); the model has them afterwards. Under torchrun every process calls `fit` with the same model and a
    `run` on the same directory; only the first process writes. On another number of
    processes a resumed run keeps the order of examples, and a line says what changes.

    Args:
        model: The model, with initial weights.
        objective: Its batches, loss and validation.
        settings: The settings of the loop.
        run: The folder of the run.
        resume: Continue from the newest checkpoint, if there is one, to the same
            weights as a run without interruption.
        on_ready: Called once before the first update, after a checkpoint is restored;
            an error before leaves the folder as it was.

    Returns:
        The validation metrics of the chosen weights, `seconds`, `steps` (updates
        made), `parameters` and `tokens_per_second` (of all processes together, without
        validation), or `images_per_second`.

    Raises:
        InputError: The device is missing, there are too few batches, or the checkpoint
            is of another model.
        RunError: Loss or gradient was not finite too often, memory ran out, a batch
            could not be built, or (`Stopped`, with exit codes 143, 130 and 129) a
            signal stopped training after its state was saved.
    """
    processes = Processes(settings)
    with Stop() as stop, keep_random_state(processes.device):
        trainer = Trainer(model, objective, settings, run, processes, stop)
        checkpoint = trainer.find_newest() if resume else None
        processes.wait()
        try:
            with (
                explain_lost_processes(settings.process_timeout),
                use_threads(settings.threads or torch.get_num_threads()),
                compile_layers(model, log_layers=processes.main)
                if settings.compile
                else nullcontext(),
            ):
                return trainer.train(checkpoint, resume, on_ready)
        finally:
            trainer.close()


class Trainer:
    """One run of `fit`: its parts and its state."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        settings: Training,
        run: RunDirectory,
        processes: Processes,
        stop: Stop,
    ) -> None:
        self.model = model
        self.objective = objective
        self.settings = settings
        self.run = run
        self.processes = processes
        self.parameters = count_parameters(model)
        seed_everything(settings.seed + processes.rank)
        self.losses = processes.wrap(LossModule(model, objective))
        self.optimizer = build_optimizer(model, settings)
        self.updater = Updater(self.losses, self.optimizer, settings, processes, stop)
        self.average: MovingAverage | None = None
        self.state = TrainingState()
        self.saved = -1
        self.late = False
        self.sums = UpdateSums()
        self.clock = time.monotonic()
        self.progress = Progress(
            settings.steps, settings.log_every, processes.main, unit_of(objective)
        )
        self.metrics = Metrics(run if processes.main else None, settings)

    def train(
        self,
        checkpoint: Checkpoint | None,
        resume: bool,
        on_ready: Callable[[], None] | None,
    ) -> dict[str, float | int]:
        """Train to the end, from a checkpoint if there is one."""
        if checkpoint is not None:
            with explain_restoring(checkpoint.folder):
                self._restore(checkpoint)
        self._start_average(checkpoint)
        counters = self.state.counters
        settings = self.settings
        with BatchStream(
            self.objective, settings, self.processes, counters.start
        ) as stream:
            if checkpoint is not None:
                # Only now, because building the stream may use random numbers.
                with explain_restoring(checkpoint.folder):
                    self._restore_random(checkpoint.state["random"])
            if on_ready is not None:
                on_ready()
            if resume:  # also where it was killed before its first checkpoint
                self.metrics.rewind(counters.update)
            self.metrics.open_trackers()
            while True:
                self._validate_if_due()
                self._save_if_due()
                if self._finished():
                    return self._finish()
                self._update(stream)

    def find_newest(self) -> Checkpoint | None:
        """Return the latest undamaged checkpoint, which the first process looks for."""
        if self.processes.count == 1:
            return self.run.newest_checkpoint()
        newest = self.run.newest_checkpoint() if self.processes.main else None
        step = self.processes.from_main(None if newest is None else newest.step)
        return None if step is None else self._checkpoint(step)

    def close(self) -> None:
        """Close the progress bar and the trackers."""
        self.progress.close()
        self.metrics.close()

    def _restore_random(self, states: list[dict[str, Any]]) -> None:
        """Restore this process's random states; seed a process more than before."""
        rank = self.processes.rank
        seed = self.settings.seed
        if rank < len(states):
            restore_random_state(states[rank], self.processes.device)
        else:
            seed_everything(seed + (self.state.counters.update << 16) + rank)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.state = TrainingState.restore(checkpoint.state, self.processes)
        self.saved = checkpoint.step
        load_weights(self.model.state_dict(), checkpoint.tensors("model"))
        restore_optimizer(self.model, self.optimizer, checkpoint.tensors("optimizer"))
        self.progress.note(f"going on after update {checkpoint.step}")
        rank = self.processes.rank
        count = self.processes.count
        if checkpoint.state["processes"] != count:
            self.progress.note(
                describe_regrouping(checkpoint.state, count, self.settings.accumulate)
            )
        elif checkpoint.state["carries"][rank]:
            carried = {}
            for name, tensor in checkpoint.tensors(f"carried-{rank}").items():
                carried[name] = tensor.to(self.processes.device)
            self.updater.carried = carried

    def _start_average(self, checkpoint: Checkpoint | None) -> None:
        """Start the moving average from the checkpoint's, or from the weights."""
        if not self.settings.average_decay:
            return
        decay = self.settings.average_decay
        if checkpoint is None:
            self.average = MovingAverage(self.updater.parameters, decay)
            return
        with explain_restoring(checkpoint.folder):
            self._load_average(checkpoint)
            self.average = MovingAverage(self.updater.parameters, decay)
            load_weights(self.model.state_dict(), checkpoint.tensors("model"))

    def _load_average(self, checkpoint: Checkpoint) -> None:
        """Load a checkpoint's moving average into the model's parameters."""
        parameters = dict(self.model.named_parameters())
        tensors = checkpoint.tensors("average")
        load_weights({name: parameters[name] for name in tensors}, tensors)

    def _update(self, stream: BatchStream) -> None:
        counters = self.state.counters
        settings = self.settings
        began = time.monotonic()
        prepared = [next(stream) for _ in range(settings.accumulate)]
        speed = rate(settings, counters.update + 1)
        late = 0 < 60 * settings.checkpoint_minutes <= began - self.clock
        outcome = self.updater(prepared, counters.update + 1, speed, late=late)
        counters.update += 1
        if self.average is not None and outcome.good:
            self.average.update(counters.update)
        last = prepared[-1].position
        counters.follow(last)
        elapsed = time.monotonic() - began
        counters.tokens += outcome.read
        counters.updating += elapsed
        self._log(outcome, speed, elapsed)
        self._check(outcome)
        if outcome.stop:
            self._save()  # where a validation is due, the resumed run saves once more
            raise Stopped(outcome.stop, counters.update, self.run.path)
        self.late = outcome.late and not counters.bad

    def _log(self, outcome: UpdateResult, speed: float, elapsed: float) -> None:
        update = self.state.counters.update
        if not outcome.good:
            self.progress.note(
                f"update {update} skipped: loss {outcome.loss}, gradient norm {outcome.norm}"
            )
            self.metrics.write(
                "skipped", update, {"loss": outcome.loss, "gradient_norm": outcome.norm}
            )
            return
        self.sums.add(outcome, elapsed)
        self.progress.update(update, outcome.loss, self.sums.tokens_per_second)
        if update % self.settings.log_every == 0 or update == self.settings.steps:
            figures = {
                **self.sums.figures(),
                "rate": speed,
                "epoch": self.state.counters.epoch,
            }
            self.metrics.write("training", update, figures)
            self.sums = UpdateSums()

    def _check(self, outcome: UpdateResult) -> None:
        """Raise RunError after too many updates that are not finite."""
        counters = self.state.counters
        counters.bad = 0 if outcome.good else counters.bad + 1
        if counters.bad < self.settings.maximum_bad_updates:
            return
        good = "there is no checkpoint"
        if self.saved >= 0:
            good = f"the last good checkpoint is of update {self.saved}"
        raise RunError(
            f"loss or gradient was not finite in {counters.bad} updates in a row, the last {counters.update}; {good} "
            f"in {self.run.path}; lower learning_rate or clip, or check the data"
        )

    def _validate_if_due(self) -> None:
        counters = self.state.counters
        settings = self.settings
        regular = (
            settings.validate_every and counters.update % settings.validate_every == 0
        )
        if counters.update == counters.validated or not (
            regular or counters.update == settings.steps
        ):
            return
        with nullcontext() if self.average is None else self.average.use():
            figures = self._validate()
        value = figures[self.objective.metric]
        validated = Validated(counters.update, value, figures)
        improved = self.state.selection.observe(
            validated, settings, self.objective.higher_is_better
        )
        counters.validated = counters.update
        counters.figures = figures
        self.metrics.write("validation", counters.update, figures)
        listed = "  ".join(f"{name} {figure:.4g}" for name, figure in figures.items())
        self.progress.note(
            f"validation after update {counters.update}: {listed}{'  (best)' if improved else ''}"
        )
        self._save()

    def _validate(self) -> dict[str, float]:
        self.model.eval()
        listed = self.progress.show_elapsed("validating")
        with (
            torch.no_grad(),
            listed,
            divide_among(self.processes),
        ):
            figures = self.processes.from_main(self.objective.validate(self.model))
        self.model.train()
        return figures

    def _save_if_due(self) -> None:
        if self.state.counters.update != self.saved and (
            self.late or self._checkpoint_due()
        ):
            self._save()
        self.late = False

    def _checkpoint_due(self) -> bool:
        interval = self.settings.checkpoint_every
        counters = self.state.counters
        return bool(
            counters.update
            and interval
            and counters.update % interval == 0
            and not counters.bad
        )

    def _save(self) -> None:
        """Save a checkpoint and remove those that `Selection` drops.

        Every process calls it.
        """
        counters = self.state.counters
        counters.seconds += time.monotonic() - self.clock
        self.clock = time.monotonic()
        update = counters.update
        outdated = self.state.selection.add(update)
        tensors = snapshot(
            self.model,
            self.optimizer,
            self.average,
            self.updater.carried,
            self.processes,
        )
        state = self.state.to_json(self.processes, self.updater.carried is not None)
        state["accumulate"] = self.settings.accumulate
        if self.processes.main:
            self.run.save_checkpoint(update, tensors, state)
            for step in set(outdated) & set(self.run.checkpoint_steps()):
                self.run.remove_checkpoint(step)
        self.saved = update

    def _finished(self) -> bool:
        if self.state.counters.update >= self.settings.steps:
            return True
        if not self.state.selection.exhausted(self.settings):
            return False
        waited = self.state.selection.waited
        self.progress.note(
            f"{self.objective.metric} has not improved in {waited} validations: training ends (training.patience)"
        )
        return True

    def _finish(self) -> dict[str, float | int]:
        figures = self._choose()
        chosen = weights(self.model)
        counters = self.state.counters
        if self.processes.main:
            self.run.save_tensors(WEIGHTS, chosen, {})
        self.processes.wait()
        return {
            **figures,
            "seconds": counters.seconds + time.monotonic() - self.clock,
            "steps": counters.update,
            "parameters": self.parameters,
            f"{unit_of(self.objective)}_per_second": counters.tokens
            / max(counters.updating, 1e-9),
        }

    def _choose(self) -> dict[str, float]:
        """Load the selected weights into the model; return their figures."""
        best = self.state.selection.best
        self.processes.wait()  # the first process may still be writing the last checkpoint
        chosen = self._checkpoint(best[0].update if best else self.saved)
        load_weights(self.model.state_dict(), chosen.tensors("model"))
        if self.average is not None:
            self._load_average(chosen)
        return best[0].figures if best else self.state.counters.figures

    def _checkpoint(self, update: int) -> Checkpoint:
        return self.run.checkpoint(update, verified=not self.processes.main)
