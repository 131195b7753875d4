"""Pictures of what runs of each task look at."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from regard.attribution.kinds import ROLES, Kind, Role
from regard.attribution.self_attention import Reading, whole
from regard.cli.options import Asked, Looking, searching
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.lookups import Lookups, beside
from regard.pictures.episode import episode as drawn_episode
from regard.pictures.overlay import overlay, overlays
from regard.pictures.tape import tape
from regard.pictures.view import View
from regard.pictures.write import LABELS, PAGE, write, write_figure, write_view
from regard.runs.load import expect
from regard.tasks.algorithmic.run import AlgorithmicRun
from regard.tasks.extractive_qa.run import ExtractiveQARun
from regard.tasks.few_shot.run import FewShotRun
from regard.tasks.image_captioning.run import ImageCaptioningRun
from regard.tasks.image_classification.run import ImageClassificationRun
from regard.tasks.language_model.run import LanguageModelRun
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.tasks.meta_rl.run import MetaRLRun
from regard.tasks.multi_target.run import MultiTargetRun
from regard.tasks.pointer.run import PointerRun
from regard.tasks.seq2seq.run import Seq2SeqRun

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
    def kinds(self) -> tuple[Kind, ...]:
        """What is drawn, weights first; none where the run's own kind is."""
        return tuple(kind for kind in get_args(Kind) if kind in (self.looking.kinds or ()))

    @property
    def kind(self) -> Kind:
        """What is drawn of texts, of several the first."""
        return self.kinds[0] if self.kinds else "weights"

    def each(self) -> "list[Asking]":
        """The same of one kind at a time."""
        return [replace(self, looking=replace(self.looking, kinds=[kind])) for kind in self.kinds] or [self]

    @property
    def role(self) -> Role:
        """Whose attention is drawn of an encoder-decoder."""
        return self.looking.role or "cross"

    def titled(self, title: str) -> str:
        """With whose attention is drawn, and what of it where that is one kind, where the user has said so."""
        role, kinds = self.looking.role, self.kinds
        said = ", ".join([*([ROLES[role]] if role else []), *(kinds if len(kinds) == 1 else [])])
        return f"{title} ({said})" if said else title

    def matrix(self, attention: Alignment, title: str, instead: str) -> None:
        """Writes the picture of one matrix. Raises InputError for one that is too large, with what to do instead."""
        if max(attention.weights.shape) > LABELS:
            raise InputError(f"{self.out}: {too_large(len(attention.source), len(attention.target), instead)}")
        write(attention, self.out, title=title)

    @property
    def page(self) -> bool:
        """Whether a page is asked for, which shows every layer and head."""
        return self.out.suffix.lower() == PAGE


@dataclass(frozen=True)
class Shown:
    """What a run says and what a page shows of it; `picture` draws what a picture shows, under a title."""

    answer: str
    title: str
    lookups: tuple[Lookups, ...]
    picture: Callable[[str], object]


def check_role(run: Any, asking: Asking) -> None:
    """Raises InputError where a role is asked of a run that has none."""
    if not isinstance(run, Seq2SeqRun | MultiTargetRun | ImageCaptioningRun):
        asking.looking.refuse("--role", what="writes no text of another text or of an image")


def draw(run: Any, asking: Asking) -> str:
    """Writes the picture, and returns the answer. Raises InputError for a run that has nothing to show."""
    if asking.page and asking.looking.maps is None:
        shown = of_page(run, asking)
        looking = asking.looking
        view = View(*shown.lookups, title=shown.title, largest=looking.largest, worked=looking.worked)
        write_view(view, asking.out)
    else:
        shown = look(run, asking)
        shown.picture(asking.titled(shown.title))
    return shown.answer


def of_page(run: Any, asking: Asking) -> Shown:
    """What a page shows, of several kinds the maps beside those of the first. Raises InputError as `draw`."""
    check_role(run, asking)
    shown, *others = [look(run, each) for each in asking.each()]
    first, *rest = shown.lookups
    lookups = (beside(first, *(each.lookups[0] for each in others)), *rest)
    return replace(shown, title=asking.titled(shown.title), lookups=lookups)


def look(run: Any, asking: Asking) -> Shown:
    """What a run says, and what it depended on. Raises InputError for a run that has nothing to show."""
    text, maps, kind = asking.text, asking.looking.maps, asking.kind
    match run:
        case ImageClassificationRun():
            return _image(run, asking)
        case ImageCaptioningRun():
            return _caption(run, asking)
        case AlgorithmicRun():
            return _tape(run, asking)
        case FewShotRun():
            return _episode(run, asking)
        case MetaRLRun():
            asking.looking.refuse("--beam", "--map", "--kind", what="acts in environments")
            done, looked = run.look(text)
            return _text(whole(done.text, looked, "weights"), asking, WHOLE)
        case PointerRun():
            asking.looking.refuse("--beam", "--map", "--kind", what="points to elements of a set")
            (pointed,) = run.predict([run.parse(text)])
            return _text(whole(pointed.text, pointed.attention, "weights", pointed.workings), asking, WHOLE)
        case ExtractiveQARun():
            asking.looking.refuse("--beam", what="answers with spans")
            return _text(run.look(run.parse(text), maps, kind=kind), asking, WHOLE)
        case LanguageModelRun() | MaskedLanguageModelRun():
            asking.looking.refuse("--beam", what="tells tokens one by one")
            return _text(run.look(text, maps, kind=kind), asking)
        case _:
            beam = asking.looking.beam
            with searching(Asked(beam)):
                reading = expect(run, Seq2SeqRun, asking.run).look(text, maps, beam=beam, kind=kind, role=asking.role)
            return _text(reading, asking)


def _text(reading: Reading, asking: Asking, instead: str = PARTS) -> Shown:
    """Of what texts read of each other, or of themselves."""

    def picture(title: str) -> None:
        asking.matrix(reading.attention, title, instead)

    return Shown(reading.answer, asking.text, (reading.lookups,), picture)


def _image(run: ImageClassificationRun, asking: Asking) -> Shown:
    """Where in an image its class was looked for."""
    asking.looking.refuse("--beam", "--map", what="tells classes of images")
    looked = run.look(asking.text, kind=asking.kind if asking.kinds else "rollout")

    def picture(title: str) -> None:
        write_figure(overlay(looked.pixels, looked.weights, title=title), asking.out, title=asking.text)

    return Shown(looked.found.lines()[0], str(looked.found), (looked.lookups,), picture)


def _caption(run: ImageCaptioningRun, asking: Asking) -> Shown:
    """Where in an image each token of its caption looked, with the gate on what was read."""
    if asking.role != "cross":
        return _text(caption_within(run, asking), asking)
    asking.looking.refuse("--map", "--kind", what="tells of images")
    beam = asking.looking.beam
    with searching(Asked(beam)):
        looked = run.look(asking.text, beam=beam)
    titles = looked.caption.tokens
    if looked.gates is not None:
        titles = tuple(f"{word}  {gate:.2f}" for word, gate in zip(titles, looked.gates, strict=True))

    def picture(title: str) -> None:
        write_figure(overlays(looked.pixels, looked.weights, titles), asking.out, title=title)

    return Shown(looked.caption.text, looked.caption.text, (looked.lookups,), picture)


def caption_within(run: ImageCaptioningRun, asking: Asking) -> Reading:
    """What the caption of an image read of itself. Raises InputError for a model whose tokens do not."""
    looking = asking.looking
    with searching(Asked(looking.beam)):
        return run.look_within(asking.text, asking.role, looking.maps, beam=looking.beam, kind=asking.kind)


def _tape(run: AlgorithmicRun, asking: Asking) -> Shown:
    """What was read and written on the tape."""
    asking.looking.refuse("--beam", "--map", "--kind", what="answers sequences of bits")
    (said,) = run.predict([asking.text])

    def picture(title: str) -> None:
        write_figure(tape(said.tape), asking.out, title=title)

    return Shown(said.text, asking.text, tuple(said.tape.lookups()), picture)


def _episode(run: FewShotRun, asking: Asking) -> Shown:
    """How much each example was looked at."""
    asking.looking.refuse("--beam", "--map", "--kind", what="tells classes after examples")
    looked = run.compare(run.parse(asking.text))

    def picture(title: str) -> None:
        figure = drawn_episode(looked.asked, looked.shown, looked.labels, looked.maps[:, -1], title=title)
        write_figure(figure, asking.out, title=title)

    return Shown(looked.found.lines()[0], str(looked.found), tuple(looked.lookups()), picture)
