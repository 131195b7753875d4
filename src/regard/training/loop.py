"""The training loop: updates, validation, checkpoints, an exact resume, and the choice of the final weights."""

import time
from contextlib import nullcontext

import torch
from torch import nn

from regard.errors import RunError
from regard.storage.checkpoints import Checkpoint
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.training.batches import BatchStream
from regard.training.checkpoint_writer import CheckpointWriter
from regard.training.compiling import compiling
from regard.training.layers import recomputing
from regard.training.objective import LossModule, Objective, unit_of
from regard.training.processes import Processes, WholeModel, answering
from regard.training.progress import Metrics, Progress, Window
from regard.training.schedules import rate
from regard.training.selection import MovingAverage, Validated, mean
from regard.training.settings import Training
from regard.training.signals import Stop, Stopped
from regard.training.snapshot import (
    TrainingState,
    load_average,
    load_weights,
    regrouped,
    restore_random,
    restoring,
    snapshot,
)
from regard.training.state import (
    count_parameters,
    keeping_random_state,
    like_optimizer_tensors,
    restore_optimizer,
    seed_everything,
    weights,
)
from regard.training.threads import threads
from regard.training.update import Outcome, Updater, make_optimizer
from regard.work import divided_by


def fit(
    model: nn.Module,
    objective: Objective,
    settings: Training,
    run: RunDirectory,
    *,
    resume: bool = False,
) -> dict[str, float | int]:
    """Train the model and save the selected weights as `weights.safetensors`; the model has them afterwards.

    Selected are the weights with the best validation (the moving average's, if there is one), or the mean of the last
    checkpoints if that validates better. With `resume`, training continues from the newest checkpoint, if there is one,
    and ends with the same weights as a run without interruption. Under torchrun every process calls `fit` with the same
    model and a `run` on the same directory; only the first process writes. On another number of processes a resumed run
    keeps the order of examples, and a line says what changes.

    Returns: the validation figures of the chosen weights, `seconds`, `steps` (updates made), `parameters` and
        `tokens_per_second` (of all processes together, validation left out), of an objective of images
        `images_per_second`.

    Raises:
        InputError: the device is not there; too few batches; the checkpoint is of another model.
        RunError: the loss or gradient was not finite too often, memory ran out, a batch could not be built, or
            (`Stopped`, with exit codes 143, 130 and 129) a signal stopped training after its state was saved.
    """
    here = Processes(settings)
    with Stop() as stop, keeping_random_state(here.device):
        trainer = Trainer(model, objective, settings, run, here, stop)
        found = trainer.writer.newest() if resume else None
        if resume and found is None:  # it was killed before its first checkpoint
            trainer.metrics.rewind(0)
        here.wait()
        try:
            with (
                answering(settings.process_timeout),
                threads(settings.threads or torch.get_num_threads()),
                compiling(model, log_layers=here.main)
                if settings.compile
                else nullcontext(),
                recomputing(model) if settings.recompute else nullcontext(),
            ):
                return trainer.train(found)
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
        here: Processes,
        stop: Stop,
    ) -> None:
        self.model, self.objective, self.settings, self.run, self.here = (
            model,
            objective,
            settings,
            run,
            here,
        )
        self.parameters = count_parameters(model)
        seed_everything(settings.seed + here.rank)
        self.whole = WholeModel(model, settings.sharded)
        self.losses = here.wrap(LossModule(model, objective), settings)
        self.optimizer = make_optimizer(model, settings)
        self.updater = Updater(self.losses, self.optimizer, settings, here, stop)
        self.average: MovingAverage | None = None
        self.writer = CheckpointWriter(run, here, settings)
        self.state = TrainingState()
        self.saved, self.late = -1, False
        self.window = Window()
        self.clock = time.monotonic()
        self.progress = Progress(
            settings.steps, settings.log_every, here.main, unit_of(objective)
        )
        self.metrics = Metrics(run if here.main else None, settings)

    def train(self, found: Checkpoint | None) -> dict[str, float | int]:
        """Train to the end, from a checkpoint if there is one."""
        with nullcontext() if found is None else restoring(found.folder):
            self._restore(found)
        counters, settings = self.state.counters, self.settings
        with BatchStream(self.objective, settings, self.here, counters.start) as stream:
            if (
                found is not None
            ):  # only now, because building the stream may use random numbers
                with restoring(found.folder):
                    restore_random(
                        found.state["random"],
                        self.here,
                        settings.seed + (counters.update << 16),
                    )
            while True:
                self._validate_if_due()
                self._save_if_due()
                if self._finished():
                    return self._finish()
                self._update(stream)

    def close(self) -> None:
        """Finish the last checkpoint; close the progress bar and the trackers."""
        try:
            self.writer.wait()
        finally:
            self.progress.close()
            self.metrics.close()

    def _restore(self, found: Checkpoint | None) -> None:
        if found is not None:
            self.state = TrainingState.restore(found.state, self.here)
            self.saved = found.step
            self.metrics.rewind(found.step)
            self.progress.note(f"going on after update {found.step}")
            moments = found.tensors("optimizer", like_optimizer_tensors(self.model))
            restore_optimizer(self.model, self.optimizer, moments)
            if found.state["processes"] != self.here.count:
                self.progress.note(
                    regrouped(found.state, self.here.count, self.settings.accumulate)
                )
            elif found.state["carries"][self.here.rank]:
                carried = found.tensors(f"carried-{self.here.rank}")
                self.updater.carried = {
                    name: tensor.to(self.here.device)
                    for name, tensor in carried.items()
                }
        if self.settings.average_decay:
            if found is not None:
                load_average(
                    self.model,
                    found.tensors("average", dict(self.model.named_parameters())),
                )
            self.average = MovingAverage(
                self.updater.parameters, self.settings.average_decay
            )
        if found is not None:
            load_weights(self.model, found.tensors("model", self.model.state_dict()))

    def _update(self, stream: BatchStream) -> None:
        counters, settings = self.state.counters, self.settings
        began = time.monotonic()
        prepared = [next(stream) for _ in range(settings.accumulate)]
        speed = rate(settings, counters.update + 1, self.state.plateau.factor)
        outcome = self.updater(prepared, counters.update + 1, speed, late=self._late())
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
            self._save(
                regular=self._checkpoint_due()
            )  # where a validation is due, the resumed run saves once more
            self.writer.wait()
            raise Stopped(outcome.stop, counters.update, self.run.path)
        self.late = outcome.late and not counters.bad

    def _log(self, outcome: Outcome, speed: float, elapsed: float) -> None:
        update = self.state.counters.update
        if not outcome.good:
            self.progress.note(
                f"update {update} skipped: loss {outcome.loss}, gradient norm {outcome.norm}"
            )
            self.metrics.write(
                "skipped", update, {"loss": outcome.loss, "gradient_norm": outcome.norm}
            )
            return
        self.window.add(outcome, elapsed)
        self.progress.update(update, outcome.loss, self.window.tokens_per_second)
        if update % self.settings.log_every == 0 or update == self.settings.steps:
            figures = {
                **self.window.figures(),
                "rate": speed,
                "epoch": self.state.counters.epoch,
            }
            self.metrics.write("training", update, figures)
            self.window = Window()

    def _check(self, outcome: Outcome) -> None:
        """Raise RunError after too many updates that are not finite, or a loss above `stop_above`."""
        counters, settings = self.state.counters, self.settings
        counters.bad = 0 if outcome.good else counters.bad + 1
        what = ""
        if counters.bad >= settings.maximum_bad_updates:
            what = f"loss or gradient was not finite in {counters.bad} updates in a row, the last {counters.update}"
        elif outcome.good and 0 < settings.stop_above < outcome.loss:
            what = f"the loss per token is {outcome.loss:.4g} at update {counters.update}, above stop_above"
        if what:
            good = (
                f"the last good checkpoint is of update {self.saved}"
                if self.saved >= 0
                else "there is no checkpoint"
            )
            raise RunError(
                f"{what}; {good} in {self.run.path}; lower learning_rate or clip, or check the data"
            )

    def _validate_if_due(self) -> None:
        counters, settings = self.state.counters, self.settings
        regular = (
            settings.validate_every and counters.update % settings.validate_every == 0
        )
        if counters.update == counters.validated or not (
            regular or counters.update == settings.steps
        ):
            return
        with nullcontext() if self.average is None else self.average.applied():
            figures = self._validate()
        value = figures[self.objective.metric]
        validated = Validated(counters.update, value, figures)
        improved = self.state.selection.observe(
            validated, settings, self.objective.higher_is_better
        )
        self.state.plateau.observe(improved, settings)
        counters.validated, counters.figures = counters.update, figures
        self.metrics.write("validation", counters.update, figures)
        shown = "  ".join(f"{name} {figure:.4g}" for name, figure in figures.items())
        self.progress.note(
            f"validation after update {counters.update}: {shown}{'  (best)' if improved else ''}"
        )
        self._save()

    def _validate(self) -> dict[str, float]:
        self.model.eval()
        shown = self.progress.elapsed("validating")
        with (
            torch.no_grad(),
            self.whole.gathered(self.here.device) as model,
            shown,
            divided_by(self.here),
        ):
            figures = self.here.from_main(self.objective.validate(model))
        self.model.train()
        return figures

    def _save_if_due(self) -> None:
        if self.state.counters.update != self.saved and (
            self.late or self._checkpoint_due()
        ):
            self._save(
                regular=self._checkpoint_due()
            )  # the clock must not decide which checkpoints are averaged
        self.late = False

    def _late(self) -> bool:
        """Whether the last checkpoint is longer ago than `checkpoint_minutes`."""
        return (
            0 < 60 * self.settings.checkpoint_minutes <= time.monotonic() - self.clock
        )

    def _checkpoint_due(self) -> bool:
        every, counters = self.settings.checkpoint_every, self.state.counters
        return bool(
            counters.update
            and every
            and counters.update % every == 0
            and not counters.bad
        )

    def _save(self, *, regular: bool = True) -> None:
        """Save a checkpoint and remove those that `Selection` drops; every process calls it. A checkpoint is not
        regular if only a stop or the clock is its reason."""
        counters, selection = self.state.counters, self.state.selection
        counters.seconds += time.monotonic() - self.clock
        self.clock = time.monotonic()
        update = counters.update
        outdated = (
            selection.saved(update, self.settings)
            if regular
            else selection.stopped(update)
        )
        tensors = snapshot(
            self.model, self.optimizer, self.average, self.updater.carried, self.here
        )
        state = self.state.to_json(self.here, self.updater.carried is not None)
        state["accumulate"] = self.settings.accumulate
        self.writer.save(update, tensors, state, outdated)
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
        if self.here.main:
            self.run.save_tensors(WEIGHTS, chosen, {})
        self.here.wait()
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
        best, settings, like = (
            self.state.selection.best,
            self.settings,
            self.model.state_dict(),
        )
        self.writer.wait()
        self.here.wait()  # the first process may still be writing the last checkpoint
        if settings.average_last > 1:
            recent = self.state.selection.last(settings.average_last)
            load_weights(
                self.model,
                mean(
                    [
                        self._checkpoint(update).tensors("model", like)
                        for update in recent
                    ]
                ),
            )
            figures = self._validate()
            self.metrics.write("mean", self.state.counters.update, figures)
            sign = 1 if self.objective.higher_is_better else -1
            if (
                not best
                or sign * figures[self.objective.metric] >= sign * best[0].value
            ):
                return figures
        chosen = self._checkpoint(best[0].update if best else self.saved)
        load_weights(self.model, chosen.tensors("model", like))
        if self.average is not None:
            load_average(
                self.model,
                chosen.tensors("average", dict(self.model.named_parameters())),
            )
        return best[0].figures if best else self.state.counters.figures

    def _checkpoint(self, update: int) -> Checkpoint:
        return self.run.checkpoint(update, verified=not self.here.main)
