"""What a run file says: its task, and all that the task needs to know."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regard.named import OneOf
from regard.recipes import yaml_file
from regard.tasks.catalog import RUN_FILES

if TYPE_CHECKING:
    from regard.tasks.acting.run_file import Acting
    from regard.tasks.bidirectional_language_model.run_file import BidirectionalLanguageModelling
    from regard.tasks.bit_sequences.run_file import BitSequencing
    from regard.tasks.classification.run_file import Classification
    from regard.tasks.few_shot.run_file import FewShot
    from regard.tasks.image_captioning.run_file import ImageCaptioning
    from regard.tasks.image_classification.run_file import ImageClassification
    from regard.tasks.language_model.run_file import LanguageModelling
    from regard.tasks.masked_language_model.run_file import MaskedLanguageModelling
    from regard.tasks.pointing.run_file import Pointing
    from regard.tasks.span_answers.run_file import SpanAnswers
    from regard.tasks.text_to_text.run_file import TextToText
    from regard.tasks.text_to_texts.run_file import TextToTexts

    RunFile = (
        TextToText
        | TextToTexts
        | LanguageModelling
        | MaskedLanguageModelling
        | BidirectionalLanguageModelling
        | Classification
        | SpanAnswers
        | ImageClassification
        | ImageCaptioning
        | Pointing
        | BitSequencing
        | FewShot
        | Acting
    )
else:
    RunFile = Annotated[Any, OneOf("task", RUN_FILES)]
"""One class a task; the key `task` of the file tells them apart, and no other is imported."""


def read(path: Path, overrides: Sequence[str] = ()) -> RunFile:
    """The run file at `path` with `key.sub=value` overrides. Raises InputError naming every mistake with its line."""
    return yaml_file.load(path, RunFile, overrides)


def dump(run: RunFile) -> str:
    """The run file as YAML, every default written out."""
    return yaml_file.dump(run)
