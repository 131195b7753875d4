"""Pictures of what runs of each task look at."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.cli.episodes import episode
from regard.cli.options import Asked, searching
from regard.cli.pointed import parse
from regard.errors import InputError
from regard.pictures.episode import episode as drawn_episode
from regard.pictures.overlay import overlay
from regard.pictures.tape import tape
from regard.pictures.write import write, write_figure
from regard.runs import expect
from regard.tasks.bit_sequences.run import BitSequencesRun
from regard.tasks.few_shot.run import FewShotRun
from regard.tasks.image_classification.run import ImageClassificationRun
from regard.tasks.pointing.run import PointingRun
from regard.tasks.text_to_text.run import TextToTextRun


@dataclass(frozen=True)
class Asking:
    """A run's folder, what it is asked, the picture to write, and the width of its search, if one is given."""

    run: Path
    text: str
    out: Path
    beam: int | None

    def unsearched(self, what: str) -> None:
        """Raises InputError where a search is asked of a run that does `what`."""
        if self.beam is not None:
            raise InputError(f"--beam is given; this run {what}, and nothing is searched")


def draw(run: Any, asking: Asking) -> str:
    """Writes the picture, and returns the answer. Raises InputError for a run that has nothing to show."""
    match run:
        case ImageClassificationRun():
            return _image(run, asking)
        case BitSequencesRun():
            return _tape(run, asking)
        case FewShotRun():
            return _episode(run, asking)
        case PointingRun():
            (pointed,) = run.point([parse(asking.text)])
            write(pointed.attention, asking.out, title=asking.text)
            return " ".join(map(str, pointed.places))
        case _:
            return _text(expect(run, TextToTextRun, asking.run), asking)


def _text(run: TextToTextRun, asking: Asking) -> str:
    """What each word of the answer was read from."""
    with searching(Asked(asking.beam)):
        (prediction,) = run.predict([asking.text], beam=asking.beam)
    if prediction.attention is None:
        raise InputError(f"{asking.run}: its model does not attend to the source, so there is nothing to draw")
    write(prediction.attention, asking.out, title=asking.text)
    return prediction.text


def _image(run: ImageClassificationRun, asking: Asking) -> str:
    """Where in an image its class was looked for."""
    asking.unsearched("tells classes of images")
    looked = run.look(asking.text)
    figure = overlay(looked.pixels, looked.weights, title=f"{looked.found.label} {looked.found.probability:.4f}")
    write_figure(figure, asking.out, title=asking.text)
    return f"{looked.found.label}\t{looked.found.probability:.4f}"


def _tape(run: BitSequencesRun, asking: Asking) -> str:
    """What was read and written on the tape."""
    asking.unsearched("answers sequences of bits")
    (said,) = run.predict([asking.text])
    write_figure(tape(said.tape), asking.out, title=asking.text)
    return said.text


def _episode(run: FewShotRun, asking: Asking) -> str:
    """How much each example was looked at."""
    asking.unsearched("tells classes after examples")
    looked = run.compare(*episode("text 1", asking.text))
    title = f"{looked.found.label} {looked.found.probability:.4f}"
    figure = drawn_episode(looked.asked, looked.shown, looked.labels, looked.weights, title=title)
    write_figure(figure, asking.out, title=title)
    return f"{looked.found.label}\t{looked.found.probability:.4f}"
