"""What each task is measured on when a command is given files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.cli.options import Asked, searching
from regard.errors import InputError
from regard.tasks.bidirectional_language_model.run import ElmoRun
from regard.tasks.language_model.cache import Cache
from regard.tasks.language_model.run import LanguageModelRun
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.tasks.multi_target.run import MultiTargetRun
from regard.tasks.run import Run

AS_TRAINED = "this run reads files as the data section of its run file says; leave it out"


@dataclass(frozen=True)
class Given:
    """The files to measure on, none for the run's own, and how."""

    files: Sequence[Path]
    columns: str | None
    skip_bad: bool
    beam: int | None
    cache: tuple[int, float, float] | None

    def refuse(self, *names: str, because: str) -> None:
        """Raises InputError where one of these is given."""
        for name in names:
            if getattr(self, name):
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{'a file' if name == 'files' else option} is given; {because}")


def measured(run: Run, given: Given) -> dict[str, float]:
    """The run's figures. Raises InputError for what its task has no use for."""
    match run:
        case LanguageModelRun():
            return _language_model(run, given)
        case MaskedLanguageModelRun():
            return _of_files(run, given, "fills in blanks; it takes files of documents alone")
        case ElmoRun():
            return _of_files(run, given, "tells words from both sides; it takes files of text alone")
        case MultiTargetRun():
            because = "this run writes several languages; it is measured on its run file's test set alone"
            given.refuse("files", "cache", because=because)
            with searching(Asked(given.beam)):
                return run.evaluate(beam=given.beam)
    raise AssertionError(type(run))


OfFiles = MaskedLanguageModelRun | ElmoRun


def _of_files(run: OfFiles, given: Given, what: str) -> dict[str, float]:
    """Of files that the run's own data section knows how to read, or the test set."""
    given.refuse("beam", "cache", because=f"this run {what}")
    given.refuse("columns", "skip_bad", because=AS_TRAINED)
    return run.evaluate(_read(run.config.data, given) or None)


def _read(data: Any, given: Given) -> list[Any]:
    return [each for file in given.files for each in data.read(str(file))]


def _language_model(run: LanguageModelRun, given: Given) -> dict[str, float]:
    """Of one file of text, or the test set."""
    given.refuse("columns", "skip_bad", because="a language model reads a file of text as it is; leave it out")
    given.refuse("beam", because="a language model writes nothing here: it is measured on the text that is there")
    if len(given.files) > 1:
        raise InputError(f"{len(given.files)} files given; expected one text for a language model")
    try:
        return run.evaluate(
            _read(run.config.data, given) or None, cache=None if given.cache is None else Cache(*given.cache)
        )
    except ValueError as error:
        raise InputError(str(error)) from error
