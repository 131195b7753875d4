"""The training loop.

Updates, validation, checkpoints, an exact resume, and the choice of the final weights.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import InitVar, dataclass
from typing import Any

import torch
from torch import nn

from regard.errors import RunError
from regard.storage.run_folder import WEIGHTS, Checkpoint, RunDirectory
from regard.training.layers import compile_layers
from regard.training.objectives import LossModule, Objective, unit_of
from regard.training.progress import MetricsFile, Progress, UpdateSums
from regard.training.settings import (
    MovingAverage,
    Training,
    Validated,
    count_parameters,
    rate,
    use_threads,
)
from regard.training.snapshot import (
    TrainingState,
    describe_regrouping,
    explain_restoring,
    keep_random_state,
    load_weights,
    restore_optimizer,
    restore_random_state,
    seed_everything,
    snapshot,
)
from regard.training.update import (
    BatchStream,
    Processes,
    Stop,
    Stopped,
    Updater,
    UpdateResult,
    build_optimizer,
    explain_lost_processes,
)
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
        trainer = Trainer(
            model,
            objective,
            settings,
            run,
            processes,
            stop,
        )
        step = None
        if resume and processes.main:
            newest = run.checkpoints.newest()
            step = None if newest is None else newest.step
        step = processes.from_main(step)
        checkpoint = None if step is None else trainer.checkpoint(step)
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


@dataclass(eq=False)
class Trainer:
    """One run of `fit`: its parts and its state."""

    model: nn.Module
    objective: Objective
    settings: Training
    run: RunDirectory
    processes: Processes
    stop: InitVar[Stop]

    def __post_init__(self, stop: Stop) -> None:
        model, objective, settings = self.model, self.objective, self.settings
        processes = self.processes
        self.parameters = count_parameters(model)
        seed_everything(settings.seed + processes.rank)
        losses = processes.wrap(LossModule(model, objective))
        self.optimizer = build_optimizer(model, settings)
        self.updater = Updater(
            losses,
            self.optimizer,
            settings,
            processes,
            stop,
        )
        self.average: MovingAverage | None = None
        self.state = TrainingState()
        self.saved = -1
        self.late = False
        self.sums = UpdateSums()
        self.clock = time.monotonic()
        self.unit = unit_of(objective)
        self.progress = Progress(
            settings.steps, settings.log_every, processes.main, self.unit
        )
        self.metrics = MetricsFile(self.run if processes.main else None, settings)

    def train(
        self,
        checkpoint: Checkpoint | None,
        resume: bool,
        on_ready: Callable[[], None] | None,
    ) -> dict[str, float | int]:
        """Train to the end, from a checkpoint if there is one."""
        decay = self.settings.average_decay
        if checkpoint is not None:
            with explain_restoring(checkpoint.folder):
                self._restore(checkpoint)
                if decay:  # it starts from the weights that the model has
                    self._load_average(checkpoint)
        if decay:
            self.average = MovingAverage(self.updater.parameters, decay)
        if checkpoint is not None:
            load_weights(self.model.state_dict(), checkpoint.tensors("model"))
        start = self.state.counters.start
        with BatchStream(
            self.objective, self.settings, self.processes, start
        ) as stream:
            if checkpoint is not None:
                # Only now, because building the stream may use random numbers.
                with explain_restoring(checkpoint.folder):
                    self._restore_random(checkpoint.state["random"])
            if on_ready is not None:
                on_ready()
            if resume:  # also where it was killed before its first checkpoint
                self.metrics.rewind(self.state.counters.update)
            self.metrics.open_board()
            while True:
                self._validate_if_due()
                self._save_if_due()
                if self._finished():
                    return self._finish()
                self._update(stream)

    def close(self) -> None:
        """Close the progress bar and TensorBoard's files."""
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
        restore_optimizer(self.model, self.optimizer, checkpoint.tensors("optimizer"))
        self.progress.note(f"going on after update {checkpoint.step}")
        rank = self.processes.rank
        count = self.processes.count
        if checkpoint.state["processes"] != count:
            accumulate = self.settings.accumulate
            line = describe_regrouping(checkpoint.state, count, accumulate)
            self.progress.note(line)
        elif checkpoint.state["carries"][rank]:
            carried = checkpoint.tensors(f"carried-{rank}").items()
            device = self.processes.device
            self.updater.carried = {name: value.to(device) for name, value in carried}

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
        counters.follow(prepared[-1].position)
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
        loss, norm = outcome.loss, outcome.norm
        if not outcome.good:
            line = f"update {update} skipped: loss {loss}, gradient norm {norm}"
            self.progress.note(line)
            self.metrics.write("skipped", update, {"loss": loss, "gradient_norm": norm})
            return
        self.sums.add(outcome, elapsed)
        self.progress.update(update, loss, self.sums.tokens_per_second)
        if update % self.settings.log_every == 0 or update == self.settings.steps:
            position = {"rate": speed, "epoch": self.state.counters.epoch}
            self.metrics.write("training", update, self.sums.figures() | position)
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
        is_last = counters.update == settings.steps
        interval = settings.validate_every
        is_due = is_last or (interval and counters.update % interval == 0)
        if counters.update == counters.validated or not is_due:
            return
        self.model.eval()
        with (
            nullcontext() if self.average is None else self.average.use(),
            torch.no_grad(),
            self.progress.show_elapsed("validating"),
            divide_among(self.processes),
        ):
            figures = self.processes.from_main(self.objective.validate(self.model))
        self.model.train()
        value = figures[self.objective.metric]
        validated = Validated(counters.update, value, figures)
        improved = self.state.selection.observe(
            validated, settings, self.objective.higher_is_better
        )
        counters.validated = counters.update
        counters.figures = figures
        self.metrics.write("validation", counters.update, figures)
        listed = "  ".join(f"{name} {figure:.4g}" for name, figure in figures.items())
        mark = "  (best)" if improved else ""
        self.progress.note(f"validation after update {counters.update}: {listed}{mark}")
        self._save()

    def _save_if_due(self) -> None:
        counters = self.state.counters
        interval = self.settings.checkpoint_every
        is_regular = interval and counters.update and counters.update % interval == 0
        is_due = self.late or (is_regular and not counters.bad)
        if is_due and counters.update != self.saved:
            self._save()
        self.late = False

    def _save(self) -> None:
        """Save a checkpoint and remove those that `Selection` drops.

        Every process calls it.
        """
        counters = self.state.counters
        counters.seconds += time.monotonic() - self.clock
        self.clock = time.monotonic()
        update = counters.update
        outdated = self.state.selection.add(update)
        carried = self.updater.carried
        parts = self.model, self.optimizer, self.average, carried
        tensors = snapshot(*parts, self.processes)
        state = self.state.to_json(self.processes, carried is not None)
        state["accumulate"] = self.settings.accumulate
        if self.processes.main:
            self.run.checkpoints.save(update, tensors, state)
            for step in set(outdated) & set(self.run.checkpoints.steps()):
                self.run.checkpoints.remove(step)
        self.saved = update

    def _finished(self) -> bool:
        selection = self.state.selection
        if self.state.counters.update >= self.settings.steps:
            return True
        if selection.exhausted(self.settings):
            self.progress.note(
                f"{self.objective.metric} has not improved in {selection.waited} "
                "validations: training ends (training.patience)"
            )
            return True
        return False

    def _finish(self) -> dict[str, float | int]:
        """Load and save the selected weights; return the figures of the run."""
        counters = self.state.counters
        best = self.state.selection.best
        self.processes.wait()  # the first process may still be writing the last checkpoint
        chosen = self.checkpoint(best[0].update if best else self.saved)
        load_weights(self.model.state_dict(), chosen.tensors("model"))
        if self.average is not None:
            self._load_average(chosen)
        if self.processes.main:
            self.run.save_tensors(WEIGHTS, self.model.state_dict(), {})
        self.processes.wait()
        speed = counters.tokens / max(counters.updating, 1e-9)
        return {
            **(best[0].figures if best else counters.figures),
            "seconds": counters.seconds + time.monotonic() - self.clock,
            "steps": counters.update,
            "parameters": self.parameters,
            f"{self.unit}_per_second": speed,
        }

    def checkpoint(self, update: int) -> Checkpoint:
        """Return a checkpoint, which the first process verifies."""
        return self.run.checkpoints.load(update, verified=not self.processes.main)
