"""Which runs can be served, and how."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.errors import InputError
from regard.runs.load import load
from regard.serve.classes import classes
from regard.serve.images import captions, image_classes
from regard.serve.language import language
from regard.serve.operation import Served
from regard.serve.questions import questions
from regard.serve.texts import texts
from regard.tasks.classification.run import ClassificationRun
from regard.tasks.extractive_qa.run import ExtractiveQARun
from regard.tasks.image_captioning.run import ImageCaptioningRun
from regard.tasks.image_classification.run import ImageClassificationRun
from regard.tasks.language_model.run import LanguageModelRun
from regard.tasks.multi_target.run import MultiTargetRun
from regard.tasks.run import Run
from regard.tasks.seq2seq.run import Seq2SeqRun


def opened(folders: Sequence[Path], *, int8: bool = False) -> list[Served]:
    """The runs of these folders, each by its folder's name, of a run of several languages one for each; with `int8`,
    as `load` has them.

    Raises:
        InputError: a folder has no run, or one of a task that is not served, or two have the same name.
    """
    found: list[Served] = []
    for folder in folders:
        found += served(folder.resolve().name, load(folder, int8=int8), folder)
    names = [each.name for each in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"two runs are called {twice[0]!r}; rename the folder of one")
    return found


def served(name: str, run: Run, folder: Path) -> Iterator[Served]:
    """Raises InputError for a run of a task that is not served."""
    match run:
        case Seq2SeqRun():
            yield texts(name, run)
        case MultiTargetRun():
            yield from (texts(f"{name}:{language}", run.of(language)) for language in run.tokenizers)
        case LanguageModelRun():
            yield language(name, run)
        case ClassificationRun():
            yield classes(name, run)
        case ImageClassificationRun():
            yield image_classes(name, run)
        case ImageCaptioningRun():
            yield captions(name, run)
        case ExtractiveQARun():
            yield questions(name, run)
        case _:
            raise InputError(
                f"{folder}: runs of this task are not served; those are that make or continue texts, tell classes of "
                "texts or images, tell of images, or answer questions about contexts"
            )
