"""`regard predict`."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import Asked, Json, Opening, Piped, RunFolder, check_source
from regard.cli.output import say, warn_of_missing, warn_of_unfinished
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.seq2seq.prediction import Prediction

Texts = Annotated[str, Parameter(name="TEXT", help="What to answer. None: the lines of standard input.")]
Attention = Annotated[
    bool, Parameter(negative="", show_default=False, help="With --json: add what each step looked at.")
]
With = Annotated[
    tuple[Path, ...],
    Parameter(
        name="--with", negative="", show_default=False, help="Answer together with this run of the same tokenizers."
    ),
]
OWN, AS_THEY_ARE = Asked(), Opening()


def predict(
    run: RunFolder,
    /,
    *texts: Texts,
    asked: Asked = OWN,
    with_: With = (),
    attention: Attention = False,
    opening: Opening = AS_THEY_ARE,
    json_: Json = False,
    piped: Piped = False,
) -> None:
    """Answer texts, or standard input line by line as it arrives."""
    asked.check()
    if attention and not json_:
        raise InputError("--attention needs --json; `regard show` draws the attention of one text")
    check_source(texts, piped)
    with loading():
        from regard.cli.predictions import tell, tells
        from regard.runs.load import expect, load

        loaded = load(run, allow_missing=opening.allow_missing, int8=opening.int8)
    if tells(loaded):
        tell(loaded, texts, asked, as_json=json_, more=bool(with_ or attention))
        return
    from regard.cli.answers import Answer
    from regard.tasks.seq2seq.run import Seq2SeqRun

    loaded = expect(loaded, Seq2SeqRun, run)
    others = [load(each, allow_missing=opening.allow_missing, int8=opening.int8, task=Seq2SeqRun) for each in with_]
    answer = Answer(loaded.joined(others), asked, attention)
    _say(zip(texts, answer.texts(texts), strict=True) if texts else answer.lines(), asked, json_)


def _say(answers: Iterable[tuple[str, "Prediction"]], asked: Asked, as_json: bool) -> None:
    """The answers as they come, and how many of them had no end, or not what they were to contain."""
    number = unfinished = 0
    missing = Counter[str]()
    for number, (text, prediction) in enumerate(answers, 1):
        for line in [_json(text, prediction)] if as_json else _plain(number, prediction, asked.shown):
            say(line)
        unfinished += not prediction.finished
        missing.update(prediction.missing)
    warn_of_unfinished(unfinished, number)
    warn_of_missing(missing, number)


def _json(text: str, prediction: "Prediction") -> str:
    return json.dumps({"source": text, **prediction.to_json()}, ensure_ascii=False)


def _plain(number: int, prediction: "Prediction", n_best: int) -> list[str]:
    if n_best == 1:
        return [_flat(prediction.text)]
    answers = (prediction, *prediction.alternatives)
    return [f"{number}\t{answer.score:.4f}\t{_flat(answer.text)}" for answer in answers]


def _flat(text: str) -> str:
    """An answer that keeps to its line."""
    return text.replace("\r", " ").replace("\n", " ")
