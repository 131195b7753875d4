"""A task: the class of its run file, its setup for training and its runs."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Protocol, runtime_checkable

from regard.storage.run_folder import RunDirectory
from regard.tasks.run import Run
from regard.tasks.setup import Setup
from regard.training.settings import Training


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


@runtime_checkable
class Task(Protocol):
    """A kind of examples, an objective, and the verbs of a trained run."""

    @property
    def config(self) -> type:
        """The dataclass of its run files; the field `task` is a `Literal` of the task's name."""
        ...

    def setup(self, config: Any, folder: RunDirectory, processes: int) -> Setup:
        """The model, data and objective of a run file, with the tokenizers of `folder` where it has some.

        Raises:
            InputError: data, model and settings do not fit together.
        """
        ...

    def open(self, folder: RunDirectory, config: Any) -> Run[Any, Any]:
        """The run in a folder, its model with fresh weights. Raises InputError for a damaged file."""
        ...

    def usage(self, config: Any) -> str:
        """The command that uses a run of this run file, with `{}` for the run's folder."""
        ...


@dataclass(frozen=True)
class LazyTask:
    """A task whose parts are imported on use, so that a prediction imports no training code.

    Each part is `module:attribute` within `package`. `command` is the task's `usage`, or gives that of a run file.
    """

    package: str
    config_place: str
    setup_place: str
    run_place: str
    command: str | Callable[[Any], str] = "regard evaluate {}"

    @property
    def config(self) -> type:
        """As `Task.config`."""
        return self._part(self.config_place)

    def setup(self, config: Any, folder: RunDirectory, processes: int) -> Setup:
        """As `Task.setup`."""
        return self._part(self.setup_place)(config, folder, processes)

    def open(self, folder: RunDirectory, config: Any) -> Run[Any, Any]:
        """As `Task.open`."""
        return self._part(self.run_place).open(folder, config)

    def usage(self, config: Any) -> str:
        """As `Task.usage`."""
        return self.command if isinstance(self.command, str) else self.command(config)

    def _part(self, place: str) -> Any:
        module, _, attribute = place.partition(":")
        return getattr(import_module(f"{self.package}.{module}"), attribute)
