"""`regard predict`."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Asked, Json, Piped, RunFolder, check_source, searching
from regard.cli.output import say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.pointing.run import PointingRun
    from regard.tasks.run import Run
    from regard.tasks.text_to_text.prediction import Prediction
    from regard.tasks.text_to_texts.run import TextToTextsRun

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
    check_source(texts, piped)
    from regard.cli.answers import Answer
    from regard.runs import load
    from regard.tasks.text_to_text.run import TextToTextRun

    loaded = load(run, allow_missing=allow_missing)
    if not isinstance(loaded, TextToTextRun):
        _other(loaded, run, texts, asked, json_, more=bool(with_ or attention))
        return
    others = [load(each, allow_missing=allow_missing, task=TextToTextRun) for each in with_]
    answer = Answer(loaded.joined(others), asked, attention)
    _say(zip(texts, answer.texts(texts), strict=True) if texts else answer.lines(), asked, json_)


def _other(loaded: "Run", run: Path, texts: Sequence[str], asked: Asked, as_json: bool, *, more: bool) -> None:
    """Answers of a run of another task. Raises InputError for a task without answers, and for what it cannot do."""
    from regard.runs import expect
    from regard.tasks.pointing.run import PointingRun
    from regard.tasks.text_to_text.run import TextToTextRun
    from regard.tasks.text_to_texts.run import TextToTextsRun

    if isinstance(loaded, PointingRun):
        if asked != OWN or more:
            raise InputError(
                "this run points to elements of a set, as its run file says; it takes sets and --json alone"
            )
        _point(loaded, texts, as_json)
    elif isinstance(loaded, TextToTextsRun):
        if replace(asked, beam=None) != OWN or more:
            raise InputError("this run writes several languages; it takes texts, --beam and --json alone")
        _translate(loaded, texts, asked, as_json)
    else:
        expect(loaded, TextToTextRun, run)


def _say(answers: Iterable[tuple[str, "Prediction"]], asked: Asked, as_json: bool) -> None:
    """The answers as they come, and how many of them had no end."""
    number = unfinished = 0
    for number, (text, prediction) in enumerate(answers, 1):
        for line in [_json(text, prediction)] if as_json else _plain(number, prediction, asked.shown):
            say(line)
        unfinished += not prediction.finished
    _warn(unfinished, number)


def _warn(unfinished: int, answers: int) -> None:
    if unfinished:
        print(f"regard: {unfinished} of {answers} answers reached the length limit unfinished", file=sys.stderr)


def _point(run: "PointingRun", sets: Sequence[str], as_json: bool) -> None:
    """The places that answer each set, or each line of standard input."""
    from regard.cli.pointed import line, parse
    from regard.cli.stream import parts

    for some in parts(sets):
        for text, pointed in zip(some, run.point([parse(text) for text in some]), strict=True):
            say(line(text, pointed, as_json=as_json))


def _translate(run: "TextToTextsRun", texts: Sequence[str], asked: Asked, as_json: bool) -> None:
    """All languages of each text, or of each line of standard input."""
    from regard.cli.languages import answered, lines
    from regard.cli.stream import parts

    number = unfinished = 0
    with searching(asked):
        for some in parts(texts):
            for text, said in answered(run, some, asked.beam):
                for line in lines(text, said, as_json=as_json):
                    say(line)
                number += len(said)
                unfinished += sum(not each.finished for each in said.values())
    _warn(unfinished, number)


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
