"""What a run says in several languages, as lines."""

import json
from collections.abc import Iterator, Sequence

from regard.tasks.text_to_texts.run import TextToTextsRun


def lines(run: TextToTextsRun, texts: Sequence[str], beam: int | None, *, as_json: bool) -> Iterator[str]:
    """For each text a line a language, its name and the output with a tab between, or one JSON object. Raises
    InputError."""
    found = run.predict(texts, beam=beam, attention=False)
    for number, text in enumerate(texts):
        said = {language: predictions[number] for language, predictions in found.items()}
        if as_json:
            record = {language: prediction.to_json() for language, prediction in said.items()}
            yield json.dumps({"source": text} | record, ensure_ascii=False)
        else:
            yield from (f"{language}\t{' '.join(prediction.text.split())}" for language, prediction in said.items())
