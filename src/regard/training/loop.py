"""The training loop: updates, validation, checkpoints, an exact resume, and the choice of the final weights."""

import time
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn

from regard.errors import RunError
from regard.storage.checkpoints import Checkpoint, load
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.training.averaging import MovingAverage, mean
from regard.training.batches import Stream
from regard.training.compiling import compiling
from regard.training.metrics_log import Metrics
from regard.training.objective import Objective
from regard.training.parameters import count_parameters
from regard.training.processes import Processes, whole
from regard.training.progress import Progress, Window
from regard.training.schedules import rate
from regard.training.selection import Kept
from regard.training.settings import Training
from regard.training.signals import Stop, Stopped
from regard.training.snapshot import Memo, load_average, load_weights, snapshot
from regard.training.state import restore_optimizer, restore_random_state, seed_everything, weights
from regard.training.update import Outcome, Updater, make_optimizer


def fit(
    model: nn.Module, objective: Objective, settings: Training, run: RunDirectory, *, resume: bool = False
) -> dict[str, float | int]:
    """Trains the model and saves the chosen weights as `weights.safetensors`; the model holds them afterwards.

    Chosen are the weights with the best validation (the moving average's, if there is one), or the mean of the last
    checkpoints where that validates better. With `resume` it goes on from the newest checkpoint, if there is one, and
    ends with the same weights as a run that was never interrupted. Under torchrun every process calls it, with the same
    model and a `run` on the same directory; the first process alone writes.

    Returns: the validation figures of the chosen weights, `seconds`, `steps` (updates made), `parameters` and
        `tokens_per_second` (of all processes together, validation left out).

    Raises:
        InputError: the device is not there; too few batches; the checkpoint is of another model or process count.
        RunError: the loss or gradient was not finite too often, memory ran out, a batch could not be built, or
            (`Stopped`, with exit codes 143 and 130) a signal asked to stop and the state is saved.
    """
    here = Processes(settings)
    with Stop() as stop:
        trainer = Trainer(model, objective, settings, run, here, stop)
        found = run.newest_checkpoint() if resume else None
        if resume and found is None:  # it was killed before its first checkpoint
            trainer.metrics.rewind(0)
        here.wait()
        try:
            with compiling(model, told=here.main) if settings.compile else nullcontext():
                return trainer.train(found)
        finally:
            trainer.close()


class Trainer:
    """A run of `fit`: the parts it needs and where it stands."""

    def __init__(
        self, model: nn.Module, objective: Objective, settings: Training, run: RunDirectory, here: Processes, stop: Stop
    ) -> None:
        self.model, self.objective, self.settings, self.run, self.here = model, objective, settings, run, here
        self.parameters = count_parameters(model)
        seed_everything(settings.seed + here.rank)
        self.wrapped = here.wrap(model, settings.sharded)
        self.optimizer = make_optimizer(model, settings)
        self.updater = Updater(self.wrapped, self.optimizer, objective, settings, here, stop)
        self.average: MovingAverage | None = None
        self.memo = Memo()
        self.saved = -1
        self.window = Window()
        self.clock = time.monotonic()
        self.progress = Progress(settings.steps, settings.log_every, shown=here.main)
        board = Path(run.path) / "tensorboard" if settings.tensorboard else None
        self.metrics = Metrics(run if here.main else None, board)

    def train(self, found: Checkpoint | None) -> dict[str, float | int]:
        """Runs to the end, from a checkpoint if there is one."""
        self._restore(found)
        counters, settings = self.memo.counters, self.settings
        with Stream(self.objective, settings, self.here, counters.epoch, counters.index) as stream:
            if found is not None:  # only now, because making the stream may draw random numbers
                restore_random_state(found.state["random"][self.here.rank], self.here.device)
            while True:
                self._validate_if_due()
                self._save_if_due()
                if self._finished():
                    return self._finish()
                self._update(stream)

    def close(self) -> None:
        """Ends the bar and flushes the metrics."""
        self.progress.close()
        self.metrics.close()

    def _restore(self, found: Checkpoint | None) -> None:
        if found is not None:
            self.memo = Memo.restore(found.state, self.here)
            self.saved = found.step
            self.metrics.rewind(found.step)
            self.progress.note(f"going on after update {found.step}")
            restore_optimizer(self.model, self.optimizer, found.tensors("optimizer"))
            if found.state["carries"][self.here.rank]:
                carried = found.tensors(f"carried-{self.here.rank}")
                self.updater.carried = {name: tensor.to(self.here.device) for name, tensor in carried.items()}
        if self.settings.average_decay:
            if found is not None:
                load_average(self.model, found.tensors("average"))
            self.average = MovingAverage(self.updater.parameters, self.settings.average_decay)
        if found is not None:
            load_weights(self.model, found.tensors("model"))

    def _update(self, stream: Stream) -> None:
        counters, settings = self.memo.counters, self.settings
        began = time.monotonic()
        prepared = [next(stream) for _ in range(settings.accumulate)]
        speed = rate(settings, counters.update + 1, self.memo.plateau.factor)
        outcome = self.updater(prepared, counters.update + 1, speed)
        counters.update += 1
        if self.average is not None and outcome.good:
            self.average.update(counters.update)
        last = prepared[-1].position
        counters.epoch, counters.index = last.epoch, last.index + 1
        elapsed = time.monotonic() - began
        counters.tokens += outcome.tokens
        counters.updating += elapsed
        self._log(outcome, speed, elapsed)
        self._check(outcome)
        if outcome.stop:
            self._save(regular=self._checkpoint_due())  # where a validation is due, the resumed run saves once more
            raise Stopped(outcome.stop, counters.update)

    def _log(self, outcome: Outcome, speed: float, elapsed: float) -> None:
        update = self.memo.counters.update
        if not outcome.good:
            self.progress.note(f"update {update} skipped: loss {outcome.loss}, gradient norm {outcome.norm}")
            self.metrics.write("skipped", update, {"loss": outcome.loss, "gradient_norm": outcome.norm})
            return
        self.window.add(outcome.loss, outcome.norm, outcome.tokens, elapsed)
        self.progress.update(update, outcome.loss, self.window.tokens_per_second)
        if update % self.settings.log_every == 0 or update == self.settings.steps:
            figures = {**self.window.figures(), "rate": speed, "epoch": self.memo.counters.epoch}
            self.metrics.write("training", update, figures)
            self.window = Window()

    def _check(self, outcome: Outcome) -> None:
        """Ends a run that does not get better by going on."""
        counters, settings = self.memo.counters, self.settings
        counters.bad = 0 if outcome.good else counters.bad + 1
        what = ""
        if counters.bad >= settings.maximum_bad_updates:
            what = f"loss or gradient was not finite in {counters.bad} updates in a row, the last {counters.update}"
        elif outcome.good and 0 < settings.stop_above < outcome.loss:
            what = f"the loss per token is {outcome.loss:.4g} at update {counters.update}, above stop_above"
        if what:
            good = (
                f"the last good checkpoint is of update {self.saved}" if self.saved >= 0 else "there is no checkpoint"
            )
            raise RunError(f"{what}; {good} in {self.run.path}; lower learning_rate or clip, or look at the data")

    def _validate_if_due(self) -> None:
        counters, settings = self.memo.counters, self.settings
        regular = settings.validate_every and counters.update % settings.validate_every == 0
        if counters.update == counters.validated or not (regular or counters.update == settings.steps):
            return
        with nullcontext() if self.average is None else self.average.applied():
            figures = self._validate()
        value = figures[self.objective.metric]
        kept = Kept(counters.update, value, figures)
        improved = self.memo.selection.observe(kept, settings, self.objective.higher_is_better)
        self.memo.plateau.observe(improved, settings)
        counters.validated, counters.figures = counters.update, figures
        self.metrics.write("validation", counters.update, figures)
        shown = "  ".join(f"{name} {figure:.4g}" for name, figure in figures.items())
        self.progress.note(f"validation after update {counters.update}: {shown}{'  (best)' if improved else ''}")
        self._save()

    def _validate(self) -> dict[str, float]:
        self.model.eval()
        with torch.no_grad(), whole(self.model):
            figures = self.here.from_main(self.objective.validate(self.model))
        self.model.train()
        return figures

    def _save_if_due(self) -> None:
        if self.memo.counters.update != self.saved and self._checkpoint_due():
            self._save()

    def _checkpoint_due(self) -> bool:
        every, counters = self.settings.checkpoint_every, self.memo.counters
        return bool(counters.update and every and counters.update % every == 0 and not counters.bad)

    def _save(self, *, regular: bool = True) -> None:
        """Writes a checkpoint and removes those no longer wanted; every process calls it and the first writes. One that
        is not regular is made only because of a stop."""
        counters, selection = self.memo.counters, self.memo.selection
        counters.seconds += time.monotonic() - self.clock
        self.clock = time.monotonic()
        update = counters.update
        unwanted = selection.saved(update, self.settings) if regular else selection.stopped(update)
        tensors = snapshot(self.model, self.optimizer, self.average, self.updater.carried, self.here)
        state = self.memo.state(self.here, self.updater.carried is not None)
        if self.here.main:
            self.run.save_checkpoint(update, tensors, state)
            for old in set(unwanted) & set(self.run.checkpoint_steps()):
                self.run.remove_checkpoint(old)
        self.saved = update

    def _finished(self) -> bool:
        return self.memo.counters.update >= self.settings.steps or self.memo.selection.exhausted(self.settings)

    def _finish(self) -> dict[str, float | int]:
        figures = self._choose()
        chosen = weights(self.model)
        counters = self.memo.counters
        if self.here.main:
            self.run.save_tensors(WEIGHTS, chosen, {})
        self.here.wait()
        return {
            **figures,
            "seconds": counters.seconds + time.monotonic() - self.clock,
            "steps": counters.update,
            "parameters": self.parameters,
            "tokens_per_second": counters.tokens / max(counters.updating, 1e-9),
        }

    def _choose(self) -> dict[str, float]:
        """Leaves the chosen weights in the model and returns their figures."""
        best, settings = self.memo.selection.best, self.settings
        self.here.wait()  # the first process may still be writing the last checkpoint
        if settings.average_last > 1:
            recent = self.memo.selection.last(settings.average_last)
            load_weights(self.model, mean([self._checkpoint(update).tensors("model") for update in recent]))
            figures = self._validate()
            self.metrics.write("mean", self.memo.counters.update, figures)
            sign = 1 if self.objective.higher_is_better else -1
            if not best or sign * figures[self.objective.metric] >= sign * best[0].value:
                return figures
        chosen = self._checkpoint(best[0].update if best else self.saved)
        load_weights(self.model, chosen.tensors("model"))
        if self.average is not None:
            load_average(self.model, chosen.tensors("average"))
        return best[0].figures if best else self.memo.counters.figures

    def _checkpoint(self, update: int) -> Checkpoint:
        return load(self.run.path / "checkpoints", update)
