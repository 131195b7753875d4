"""Answers of runs that do not make a text of a text: places, classes, several languages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.cli.languages import answered, lines
from regard.cli.options import Asked, searching
from regard.cli.output import say, warn_of_unfinished
from regard.cli.stream import parts
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.multi_target.run import MultiTargetRun

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
    "multi-target": Telling("writes several languages; it takes texts, --beam and --json alone", _translate, beam=True),
}
"""By the name of the task."""
