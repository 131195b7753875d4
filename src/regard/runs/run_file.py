"""What a run file says: its task, and all that the task needs to know."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regard.config import yaml_file
from regard.config.registry import OneOf
from regard.tasks.catalog import RUN_FILES

if TYPE_CHECKING:
    from regard.tasks.algorithmic.config import BitSequencing
    from regard.tasks.bidirectional_language_model.config import BidirectionalLanguageModelling
    from regard.tasks.classification.config import Classification
    from regard.tasks.extractive_qa.config import SpanAnswers
    from regard.tasks.few_shot.config import FewShot
    from regard.tasks.image_captioning.config import ImageCaptioning
    from regard.tasks.image_classification.config import ImageClassification
    from regard.tasks.language_model.config import LanguageModelling
    from regard.tasks.masked_language_model.config import MaskedLanguageModelling
    from regard.tasks.meta_rl.config import Acting
    from regard.tasks.multi_target.config import TextToTexts
    from regard.tasks.pointer.config import Pointing
    from regard.tasks.seq2seq.config import TextToText

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
