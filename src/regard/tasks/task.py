"""A task: the class of its run file, its setup for training and its runs."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from regard.storage.run_folder import RunDirectory
from regard.training.settings import Training

if TYPE_CHECKING:
    from regard.tasks.base import Setup
    from regard.tasks.run import Run


@runtime_checkable
class RunConfig(Protocol):
    """A run file of any task, a frozen dataclass; `config.dump` writes it as YAML."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def task(self) -> str: ...

    @property
    def data(self) -> Any: ...

    @property
    def model(self) -> Any: ...

    @property
    def training(self) -> Training: ...


@dataclass(frozen=True)
class LazyTask:
    """A task whose parts are imported on use, so that predicting imports no training.

    A part is named as `module:attribute` within `package`, or as `:attribute` where the
    task is one file.
    """

    package: str
    config_place: str
    """The dataclass of its run files, whose `task` is a `Literal` of its name."""
    setup_place: str
    """A function of a run file, the run's folder and the number of processes."""
    run_place: str
    """The class of its runs, with a method `open`."""
    command: str | Callable[[Any], str] = "regard evaluate {}"
    """The task's `usage`, or what returns that of a run file."""

    @property
    def config(self) -> type:
        return self._import(self.config_place)

    def setup(self, config: Any, folder: RunDirectory, processes: int) -> "Setup":
        """Return model, data and objective, with the tokenizers that `folder` has.

        Raises:
            InputError: Data, model and settings do not fit together.
        """
        return self._import(self.setup_place)(config, folder, processes)

    def open(self, folder: RunDirectory, config: Any) -> "Run[Any, Any]":
        """Return the run in a folder, its model with initial weights.

        Raises:
            InputError: A file is damaged.
        """
        return self._import(self.run_place).open(folder, config)

    def usage(self, config: Any) -> str:
        """Return the command that uses a run, with `{}` for the run's folder."""
        return self.command if isinstance(self.command, str) else self.command(config)

    def _import(self, part: str) -> Any:
        module, _, attribute = part.partition(":")
        name = f"{self.package}.{module}" if module else self.package
        return getattr(import_module(name), attribute)


def refuse_teacher_forcing(training: Training) -> None:
    """Raise ValueError for a run file that sets what only models with a source have."""
    if training.teacher_forcing < 1 or training.teacher_forcing_end not in (None, 1.0):
        raise ValueError(
            "training.teacher_forcing is for seq2seq; this model reads the text alone"
        )
