"""What a run file of this task says."""

from dataclasses import dataclass
from typing import Literal

from regard.data.labelled import LabelledTables
from regard.tasks.on_bert import OnBert


@dataclass(frozen=True, kw_only=True)
class Classification(OnBert):
    """A run, whole. `truncate` cuts texts that are longer than the model can take, which is refused otherwise."""

    task: Literal["classification"] = "classification"
    data: LabelledTables
    truncate: bool = False
