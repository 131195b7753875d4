"""Trained runs, by their folders."""

from pathlib import Path
from typing import Any, TypeVar, overload

from regard import run_file
from regard.errors import InputError
from regard.tasks.acting.run import ActingRun
from regard.tasks.acting.run_file import Acting
from regard.tasks.bidirectional_language_model.run import ElmoRun
from regard.tasks.bidirectional_language_model.run_file import BidirectionalLanguageModelling
from regard.tasks.bit_sequences.run import BitSequencesRun
from regard.tasks.bit_sequences.run_file import BitSequencing
from regard.tasks.classification.run import ClassificationRun
from regard.tasks.classification.run_file import Classification
from regard.tasks.few_shot.run import FewShotRun
from regard.tasks.few_shot.run_file import FewShot
from regard.tasks.image_captioning.run import ImageCaptioningRun
from regard.tasks.image_captioning.run_file import ImageCaptioning
from regard.tasks.image_classification.run import ImageClassificationRun
from regard.tasks.image_classification.run_file import ImageClassification
from regard.tasks.language_model.run import LanguageModelRun
from regard.tasks.language_model.run_file import LanguageModelling
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.tasks.masked_language_model.run_file import MaskedLanguageModelling
from regard.tasks.pointing.run import PointingRun
from regard.tasks.pointing.run_file import Pointing
from regard.tasks.run import Run
from regard.tasks.span_answers.run import SpanAnswersRun
from regard.tasks.span_answers.run_file import SpanAnswers
from regard.tasks.text_to_text.run import TextToTextRun
from regard.tasks.text_to_texts.run import TextToTextsRun
from regard.tasks.text_to_texts.run_file import TextToTexts
from regard.training.devices import choose_device
from regard.training.run_directory import WEIGHTS, RunDirectory
from regard.training.tensors import load_into

CONFIG = "config.yaml"
R = TypeVar("R", bound=Run)
WHAT: dict[type[Run], str] = {
    LanguageModelRun: "is a language model, which has no source; use `regard generate` or `regard evaluate`",
    MaskedLanguageModelRun: "fills in blanks and writes no text; use `regard fill`, `embed` or `evaluate`",
    ElmoRun: "tells words from both sides and writes no text; use `regard embed` or `evaluate`",
    ClassificationRun: "tells classes and writes no text; use `regard predict`, `show` or `evaluate`",
    ImageClassificationRun: "tells classes of images and writes no text; use `regard predict` or `evaluate`",
    ImageCaptioningRun: "tells of images; use `regard predict`, `show` or `evaluate`",
    SpanAnswersRun: "answers questions about contexts; use `regard predict` with JSON, or `evaluate`",
    PointingRun: "points to elements of a set and writes no text; use `regard predict`, `show` or `evaluate`",
    BitSequencesRun: "answers sequences of bits and writes no text; use `regard predict`, `show` or `evaluate`",
    FewShotRun: "tells classes after a few examples and writes no text; use `regard predict`, `show` or `evaluate`",
    ActingRun: "acts in environments and writes no text; use `regard predict`, `show` or `evaluate`",
    TextToTextsRun: "writes several languages; use `regard predict` or `evaluate`, or in Python one of them, .of(...)",
    TextToTextRun: "makes texts of texts, and continues none; use `regard predict`",
}
"""What a run of each task is, and what it is for."""


@overload
def load(path: Path | str, device: str = "auto", *, allow_missing: bool = False) -> Any: ...
@overload
def load(path: Path | str, device: str = "auto", *, allow_missing: bool = False, task: type[R]) -> R: ...
def load(path: Path | str, device: str = "auto", *, allow_missing: bool = False, task: type[Run] = Run) -> Any:
    """The trained run in the folder `path`; with `allow_missing`, parameters that its weights lack stay as initialised.

    What it can do depends on its task, whose class is one of the keys of `WHAT`, and that which `task` asks for.

    Raises InputError that names what is missing, damaged or not a run, or not of this task."""
    folder = RunDirectory.open(Path(path))
    if not folder.has(WEIGHTS):
        raise InputError(
            f"{path}: has no {WEIGHTS} yet; finish its training with `regard train ... --out {path} --resume`"
        )
    run = _open(folder, run_file.read(folder.file(CONFIG)))
    expect(run, task, path)
    load_into(run.model, folder.load_tensors(WEIGHTS), allow_missing=allow_missing)
    run.model.to(choose_device(device)).eval()
    return run


def expect(run: Run, task: type[R], path: Path | str) -> R:
    """The run of the folder `path`, if it is of this task. Raises InputError for one of another."""
    if not isinstance(run, task):
        raise InputError(f"{path}: {WHAT[type(run)]}")
    return run


def _open(folder: RunDirectory, config: run_file.RunFile) -> Any:
    """With fresh weights."""
    match config:
        case LanguageModelling():
            return LanguageModelRun.open(folder, config)
        case MaskedLanguageModelling():
            return MaskedLanguageModelRun.open(folder, config)
        case BidirectionalLanguageModelling():
            return ElmoRun.open(folder, config)
        case Classification():
            return ClassificationRun.open(folder, config)
        case ImageClassification():
            return ImageClassificationRun.open(folder, config)
        case ImageCaptioning():
            return ImageCaptioningRun.open(folder, config)
        case SpanAnswers():
            return SpanAnswersRun.open(folder, config)
        case Pointing():
            return PointingRun.open(folder, config)
        case BitSequencing():
            return BitSequencesRun.open(folder, config)
        case FewShot():
            return FewShotRun.open(folder, config)
        case Acting():
            return ActingRun.open(folder, config)
        case TextToTexts():
            return TextToTextsRun.open(folder, config)
        case _:
            return TextToTextRun.open(folder, config)
