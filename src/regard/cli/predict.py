"""`regard predict`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Asked, Json, RunFolder
from regard.cli.output import say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.prediction import Prediction

Texts = Annotated[str, Parameter(name="TEXT", help="What to answer. None: the lines of standard input.")]
Piped = Annotated[bool, Parameter(name="-", negative="", show_default=False, help="The lines of standard input.")]
Attention = Annotated[
    bool, Parameter(negative="", show_default=False, help="With --json: add what each step looked at.")
]
With = Annotated[
    tuple[Path, ...],
    Parameter(
        name="--with", negative="", show_default=False, help="Answer together with this run of the same tokenizers."
    ),
]
OWN = Asked()


def predict(
    run: RunFolder,
    /,
    *texts: Texts,
    asked: Asked = OWN,
    with_: With = (),
    attention: Attention = False,
    allow_missing: AllowMissing = False,
    json_: Json = False,
    piped: Piped = False,
) -> None:
    """Answer texts, or standard input line by line as it arrives."""
    asked.check()
    if attention and not json_:
        raise InputError("--attention needs --json; `regard show` draws the attention of one text")
    if texts and piped:
        raise InputError("texts and - are both given; choose one, or put a text that is - after --")
    from regard.cli.answers import Answer
    from regard.runs import load

    own, *others = (load(each, allow_missing=allow_missing) for each in (run, *with_))
    answer = Answer(own.joined(others), asked, attention)
    answers = zip(texts, answer.texts(texts), strict=True) if texts else answer.lines()
    number = unfinished = 0
    for number, (text, prediction) in enumerate(answers, 1):
        for line in [_json(text, prediction)] if json_ else _plain(number, prediction, asked.shown):
            say(line)
        unfinished += not prediction.finished
    if unfinished:
        print(f"regard: {unfinished} of {number} answers reached the length limit unfinished", file=sys.stderr)


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
