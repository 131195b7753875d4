"""Pictures of what runs of each task look at."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.cli.episodes import episode
from regard.cli.options import Asked, searching
from regard.cli.pointed import parse
from regard.cli.told import parse_question
from regard.errors import InputError
from regard.inference.within import Reading
from regard.maps.alignment import Alignment
from regard.pictures.episode import episode as drawn_episode
from regard.pictures.overlay import overlay, overlays
from regard.pictures.tape import tape
from regard.pictures.write import write, write_document, write_figure
from regard.runs import expect
from regard.tasks.acting.run import ActingRun
from regard.tasks.bit_sequences.run import BitSequencesRun
from regard.tasks.classification.run import ClassificationRun
from regard.tasks.few_shot.run import FewShotRun
from regard.tasks.image_captioning.run import ImageCaptioningRun
from regard.tasks.image_classification.run import ImageClassificationRun
from regard.tasks.language_model.run import LanguageModelRun
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.tasks.pointing.run import PointingRun
from regard.tasks.span_answers.run import SpanAnswersRun
from regard.tasks.text_to_text.run import TextToTextRun


@dataclass(frozen=True)
class Asking:
    """A run's folder, what it is asked, the picture to write, the width of its search and the maps to take, if these
    are given."""

    run: Path
    text: str
    out: Path
    beam: int | None
    maps: list[int] | None

    def refuse(self, *names: str, what: str) -> None:
        """Raises InputError where one of these is asked of a run that does `what`."""
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(f"--{name.removesuffix('s')} is given; this run {what}, and takes none")

    def drawn(self, reading: Reading) -> str:
        """Writes the picture, and returns the answer."""
        write(reading.attention, self.out, title=self.text)
        return reading.answer


def draw(run: Any, asking: Asking) -> str:
    """Writes the picture, and returns the answer. Raises InputError for a run that has nothing to show."""
    text, maps = asking.text, asking.maps
    match run:
        case ImageClassificationRun():
            return _image(run, asking)
        case ImageCaptioningRun():
            return _caption(run, asking)
        case ClassificationRun():
            return _classes(run, asking)
        case BitSequencesRun():
            return _tape(run, asking)
        case FewShotRun():
            return _episode(run, asking)
        case ActingRun():
            asking.refuse("beam", "maps", what="acts in environments")
            done, looked = run.look(text)
            return asking.drawn(Reading(done.text, looked))
        case PointingRun():
            asking.refuse("beam", "maps", what="points to elements of a set")
            (pointed,) = run.point([parse(text)])
            return asking.drawn(Reading(" ".join(map(str, pointed.places)), pointed.attention))
        case SpanAnswersRun():
            asking.refuse("beam", what="answers with spans")
            return asking.drawn(run.look(parse_question(1, text), maps))
        case LanguageModelRun() | MaskedLanguageModelRun():
            asking.refuse("beam", what="tells tokens one by one")
            return asking.drawn(run.look(text, maps))
        case _:
            with searching(Asked(asking.beam)):
                reading = expect(run, TextToTextRun, asking.run).look(text, maps, beam=asking.beam)
            return asking.drawn(reading)


def _classes(run: ClassificationRun, asking: Asking) -> str:
    """What the class of a text, or of two, was told by."""
    asking.refuse("beam", what="tells classes")
    looked = run.look(tuple(asking.text.split("\t")) if run.paired else asking.text, asking.maps)
    if isinstance(looked.weights, Alignment):
        write(looked.weights, asking.out, title=str(looked.found))
    else:
        write_document(looked.weights, asking.out, title=str(looked.found))
    return f"{looked.found.label}\t{looked.found.probability:.4f}"


def _image(run: ImageClassificationRun, asking: Asking) -> str:
    """Where in an image its class was looked for."""
    asking.refuse("beam", "maps", what="tells classes of images")
    looked = run.look(asking.text)
    write_figure(overlay(looked.pixels, looked.weights, title=str(looked.found)), asking.out, title=asking.text)
    return f"{looked.found.label}\t{looked.found.probability:.4f}"


def _caption(run: ImageCaptioningRun, asking: Asking) -> str:
    """Where in an image each token of its caption looked, with the gate on what was read."""
    asking.refuse("maps", what="tells of images")
    with searching(Asked(asking.beam)):
        looked = run.look(asking.text, beam=asking.beam)
    titles = looked.caption.tokens
    if looked.gates is not None:
        titles = tuple(f"{word}  {gate:.2f}" for word, gate in zip(titles, looked.gates, strict=True))
    write_figure(overlays(looked.pixels, looked.weights, titles), asking.out, title=looked.caption.text)
    return looked.caption.text


def _tape(run: BitSequencesRun, asking: Asking) -> str:
    """What was read and written on the tape."""
    asking.refuse("beam", "maps", what="answers sequences of bits")
    (said,) = run.predict([asking.text])
    write_figure(tape(said.tape), asking.out, title=asking.text)
    return said.text


def _episode(run: FewShotRun, asking: Asking) -> str:
    """How much each example was looked at."""
    asking.refuse("beam", "maps", what="tells classes after examples")
    looked = run.compare(*episode("text 1", asking.text))
    title = str(looked.found)
    figure = drawn_episode(looked.asked, looked.shown, looked.labels, looked.weights, title=title)
    write_figure(figure, asking.out, title=title)
    return f"{looked.found.label}\t{looked.found.probability:.4f}"
