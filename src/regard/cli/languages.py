"""What a run says in several languages, as lines."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.tasks.multi_target.run import MultiTargetRun
    from regard.tasks.seq2seq.prediction import Prediction

Said = dict[str, "Prediction"]
"""What is said of a text, by language."""


def answered(run: "MultiTargetRun", texts: Sequence[str], beam: int | None) -> Iterator[tuple[str, Said]]:
    """Each text with what is said of it. Raises InputError."""
    found = run.predict(texts, beam=beam, attention=False)
    for number, text in enumerate(texts):
        yield text, {language: predictions[number] for language, predictions in found.items()}


def lines(text: str, said: Said, *, as_json: bool) -> list[str]:
    """A line a language, its name and the output with a tab between, or one JSON object."""
    if as_json:
        record = {language: prediction.to_json() for language, prediction in said.items()}
        return [json.dumps({"source": text, "languages": record}, ensure_ascii=False)]
    return [f"{language}\t{' '.join(prediction.text.split())}" for language, prediction in said.items()]
