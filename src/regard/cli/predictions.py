"""Answers of runs that do not make a text of a text: places, classes, several languages."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from regard.cli.episodes import episode
from regard.cli.languages import answered, lines
from regard.cli.options import Asked, searching
from regard.cli.output import say, warn_of_unfinished
from regard.cli.sets import line, parse
from regard.cli.stream import parts
from regard.data.tables import parse_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.algorithmic.run import AlgorithmicRun
    from regard.tasks.classification.run import ClassPrediction
    from regard.tasks.extractive_qa.run import ExtractiveQARun
    from regard.tasks.few_shot.run import FewShotRun
    from regard.tasks.image_captioning.run import ImageCaptioningRun
    from regard.tasks.image_classification.run import ImageClassificationRun
    from regard.tasks.meta_rl.run import MetaRLRun
    from regard.tasks.multi_target.run import MultiTargetRun
    from regard.tasks.pointer.run import PointerRun

OWN = Asked()


@dataclass(frozen=True)
class Telling:
    """How the runs of a task answer: what they are and take, in words, whether a beam is of it, and what prints the
    answers of a run to some texts, as JSON or not."""

    takes: str
    answer: Callable[[Any, Sequence[str], Asked, bool], None]
    beam: bool = False


def tells(run: Any) -> bool:
    """Whether `tell` is for runs of its task."""
    return run.config.task in TELLING


def tell(run: Any, texts: Sequence[str], asked: Asked, *, as_json: bool, more: bool) -> None:
    """What the run says of each text, or of each line of standard input. Raises InputError where something is asked for
    that its task does not know, or `more`."""
    telling = TELLING[run.config.task]
    if more or asked != (replace(OWN, beam=asked.beam) if telling.beam else OWN):
        raise InputError(f"this run {telling.takes}")
    telling.answer(run, texts, asked, as_json)


def _point(run: "PointerRun", sets: Sequence[str], asked: Asked, as_json: bool) -> None:
    for some in parts(sets):
        for text, pointed in zip(some, run.point([parse(text) for text in some]), strict=True):
            say(line(text, pointed, as_json=as_json))


def _say_bits(run: "AlgorithmicRun", texts: Sequence[str], asked: Asked, as_json: bool) -> None:
    for some in parts(texts):
        for text, said in zip(some, run.predict(some), strict=True):
            whole = {"bits": text, "answer": said.text, "probabilities": said.probabilities.tolist()}
            say(json.dumps(whole) if as_json else said.text)


def _classify_images(run: "ImageClassificationRun", paths: Sequence[str], asked: Asked, as_json: bool) -> None:
    for some in parts(paths):
        for path, found in zip(some, run.classify(some), strict=True):
            _say_class("image", path, found, as_json)


def _tell_of_images(run: "ImageCaptioningRun", paths: Sequence[str], asked: Asked, as_json: bool) -> None:
    with searching(asked):
        for some in parts(paths):
            for path, found in zip(some, run.tell(some, beam=asked.beam), strict=True):
                whole = {"image": path, **found.to_json()}
                say(json.dumps(whole, ensure_ascii=False) if as_json else found.text)


def _compare(run: "FewShotRun", texts: Sequence[str], asked: Asked, as_json: bool) -> None:
    numbers = count(1)
    for some in parts(texts):
        for text in some:
            examples, image = episode(f"text {next(numbers)}", text)
            (found,) = run.predict(examples, [image])
            _say_class("image", image, found, as_json)


def _act(run: "MetaRLRun", texts: Sequence[str], asked: Asked, as_json: bool) -> None:
    for some in parts(texts):
        for text, done in zip(some, run.predict(some), strict=True):
            say(json.dumps({"environment": text, **vars(done)}) if as_json else done.text)


def _say_class(kind: str, given: str, found: "ClassPrediction", as_json: bool) -> None:
    if as_json:
        say(json.dumps({kind: given, **found.to_json()}, ensure_ascii=False))
    else:
        say(found.lines()[0])


def _answer(run: "ExtractiveQARun", texts: Sequence[str], asked: Asked, as_json: bool) -> None:
    """Each text is an object with `question` and `context`, and so is each answer, with more keys."""
    numbers = count(1)
    for some in parts(texts):
        questions = [parse_question(next(numbers), text) for text in some]
        for (question, context), found in zip(questions, run.answer(questions), strict=True):
            whole = {"question": question, "context": context, **found.to_json()}
            say(json.dumps(whole, ensure_ascii=False) if as_json else " ".join(found.text.split()))


def parse_question(number: int, text: str) -> tuple[str, str]:
    """The question and the context that an object has. Raises InputError for another text."""
    record, fault = parse_json(text)
    match record:
        case {"question": str(question), "context": str(context)}:
            return question, context
    reason = fault or 'expected an object with "question" and "context", both texts'
    raise InputError(f"text {number}: {reason}")


def _translate(run: "MultiTargetRun", texts: Sequence[str], asked: Asked, as_json: bool) -> None:
    """All languages of each text."""
    number = unfinished = 0
    with searching(asked):
        for some in parts(texts):
            for text, said in answered(run, some, asked.beam):
                for each in lines(text, said, as_json=as_json):
                    say(each)
                number += len(said)
                unfinished += sum(not one.finished for one in said.values())
    warn_of_unfinished(unfinished, number)


TELLING = {
    "pointer": Telling("points to elements of a set; it takes sets and --json alone", _point),
    "algorithmic": Telling("answers sequences of bits; it takes these and --json alone", _say_bits),
    "image-classification": Telling("tells classes of images; it takes their paths and --json alone", _classify_images),
    "image-captioning": Telling(
        "tells of images; it takes their paths, --beam and --json alone", _tell_of_images, True
    ),
    "few-shot": Telling("tells classes after examples; it takes JSON alone", _compare),
    "meta-rl": Telling("acts in environments; it takes these and --json alone", _act),
    "extractive-qa": Telling("answers questions about contexts; it takes JSON alone", _answer),
    "multi-target": Telling("writes several languages; it takes texts, --beam and --json alone", _translate, beam=True),
}
"""By the name of the task."""
