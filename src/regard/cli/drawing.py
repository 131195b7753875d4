"""Pictures of what runs of each task look at."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.cli.episodes import episode
from regard.cli.options import Asked, Looking, searching
from regard.cli.pointed import parse
from regard.cli.told import parse_question, texts_of
from regard.errors import InputError
from regard.inference.kinds import ROLES, Kind, Role
from regard.inference.within import Reading, whole
from regard.maps.alignment import Alignment
from regard.maps.lookups import Lookups
from regard.pictures.episode import episode as drawn_episode
from regard.pictures.overlay import overlay, overlays
from regard.pictures.tape import tape
from regard.pictures.view import View
from regard.pictures.write import LABELS, PAGE, write, write_document, write_figure, write_view
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

PARTS = "give --page, --words, --source or --target"
WHOLE = "write a .html page, without --map"
"""What to do about a picture that would be too large: of runs whose text can be shown in parts, and of others."""


def too_large(read: int, by: int, instead: str) -> str:
    """Why so many places are not drawn, and what to do instead."""
    return f"{read} places are read, by {by}; at most {LABELS} a side are drawn: {instead}"


@dataclass(frozen=True)
class Asking:
    """A run's folder, what it is asked, the picture to write, and how the run is looked into."""

    run: Path
    text: str
    out: Path
    looking: Looking

    @property
    def kind(self) -> Kind:
        """What is drawn of texts."""
        return self.looking.kind or "weights"

    @property
    def role(self) -> Role:
        """Whose attention is drawn of an encoder-decoder."""
        return self.looking.role or "cross"

    def titled(self, title: str) -> str:
        """With whose attention is drawn, and what of it, where the user has said so."""
        role, kind = self.looking.role, self.looking.kind
        said = ", ".join([*([ROLES[role]] if role else []), *([kind] if kind else [])])
        return f"{title} ({said})" if said else title

    def drawn(self, reading: Reading, instead: str = PARTS) -> str:
        """Writes the picture, and returns the answer."""
        if self.page and self.looking.maps is None:
            self.view(self.titled(self.text), reading.lookups)
        else:
            self.matrix(reading.attention, self.titled(self.text), instead)
        return reading.answer

    def matrix(self, attention: Alignment, title: str, instead: str) -> None:
        """Writes the picture of one matrix. Raises InputError for one that is too large, with what to do instead."""
        if max(attention.weights.shape) > LABELS:
            raise InputError(f"{self.out}: {too_large(len(attention.source), len(attention.target), instead)}")
        write(attention, self.out, title=title)

    @property
    def page(self) -> bool:
        """Whether a page is asked for, which shows every layer and head."""
        return self.out.suffix.lower() == PAGE

    def view(self, title: str, *lookups: Lookups) -> None:
        """Writes the page."""
        write_view(View(*lookups, title=title, largest=self.looking.largest), self.out)


def draw(run: Any, asking: Asking) -> str:
    """Writes the picture, and returns the answer. Raises InputError for a run that has nothing to show."""
    text, maps, kind = asking.text, asking.looking.maps, asking.kind
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
            asking.looking.refuse("--beam", "--map", "--kind", what="acts in environments")
            done, looked = run.look(text)
            return asking.drawn(whole(done.text, looked, "weights"), WHOLE)
        case PointingRun():
            asking.looking.refuse("--beam", "--map", "--kind", what="points to elements of a set")
            (pointed,) = run.point([parse(text)])
            return asking.drawn(whole(" ".join(map(str, pointed.places)), pointed.attention, "weights"), WHOLE)
        case SpanAnswersRun():
            asking.looking.refuse("--beam", what="answers with spans")
            return asking.drawn(run.look(parse_question(1, text), maps, kind=kind), WHOLE)
        case LanguageModelRun() | MaskedLanguageModelRun():
            asking.looking.refuse("--beam", what="tells tokens one by one")
            return asking.drawn(run.look(text, maps, kind=kind))
        case _:
            beam = asking.looking.beam
            with searching(Asked(beam)):
                reading = expect(run, TextToTextRun, asking.run).look(
                    text, maps, beam=beam, kind=kind, role=asking.role
                )
            return asking.drawn(reading)


def _classes(run: ClassificationRun, asking: Asking) -> str:
    """What the class of a text, or of two, was told by."""
    asking.looking.refuse("--beam", what="tells classes")
    looked = run.look(texts_of(run, asking.text), asking.looking.maps, kind=asking.kind)
    title = asking.titled(str(looked.found))
    if asking.page and asking.looking.maps is None and looked.lookups is not None:
        asking.view(title, looked.lookups)
    elif isinstance(looked.weights, Alignment):
        asking.matrix(looked.weights, title, WHOLE if looked.lookups is None else PARTS)
    else:
        write_document(looked.weights, asking.out, title=title)
    return looked.found.line


def _image(run: ImageClassificationRun, asking: Asking) -> str:
    """Where in an image its class was looked for."""
    asking.looking.refuse("--beam", "--map", what="tells classes of images")
    looked = run.look(asking.text, kind=asking.looking.kind or "rollout")
    title = asking.titled(str(looked.found))
    if asking.page:
        asking.view(title, looked.lookups)
    else:
        write_figure(overlay(looked.pixels, looked.weights, title=title), asking.out, title=asking.text)
    return looked.found.line


def _caption(run: ImageCaptioningRun, asking: Asking) -> str:
    """Where in an image each token of its caption looked, with the gate on what was read."""
    if asking.role != "cross":
        return asking.drawn(caption_within(run, asking))
    asking.looking.refuse("--map", "--kind", what="tells of images")
    beam = asking.looking.beam
    with searching(Asked(beam)):
        looked = run.look(asking.text, beam=beam)
    if asking.page:
        asking.view(looked.caption.text, looked.lookups)
        return looked.caption.text
    titles = looked.caption.tokens
    if looked.gates is not None:
        titles = tuple(f"{word}  {gate:.2f}" for word, gate in zip(titles, looked.gates, strict=True))
    write_figure(overlays(looked.pixels, looked.weights, titles), asking.out, title=looked.caption.text)
    return looked.caption.text


def caption_within(run: ImageCaptioningRun, asking: Asking) -> Reading:
    """What the caption of an image read of itself. Raises InputError for a model whose tokens do not."""
    looking = asking.looking
    with searching(Asked(looking.beam)):
        return run.look_within(asking.text, asking.role, looking.maps, beam=looking.beam, kind=asking.kind)


def _tape(run: BitSequencesRun, asking: Asking) -> str:
    """What was read and written on the tape."""
    asking.looking.refuse("--beam", "--map", "--kind", what="answers sequences of bits")
    (said,) = run.predict([asking.text])
    if asking.page:
        asking.view(asking.text, *said.tape.lookups())
    else:
        write_figure(tape(said.tape), asking.out, title=asking.text)
    return said.text


def _episode(run: FewShotRun, asking: Asking) -> str:
    """How much each example was looked at."""
    asking.looking.refuse("--beam", "--map", "--kind", what="tells classes after examples")
    looked = run.compare(*episode("text 1", asking.text))
    title = str(looked.found)
    if asking.page:
        asking.view(title, *looked.lookups())
    else:
        figure = drawn_episode(looked.asked, looked.shown, looked.labels, looked.weights, title=title)
        write_figure(figure, asking.out, title=title)
    return looked.found.line
