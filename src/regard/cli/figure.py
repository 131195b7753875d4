"""Pictures of what runs of each task look at."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from regard.attribution.kinds import ROLES, Kind, Role
from regard.attribution.self_attention import Reading
from regard.cli.options import Looking
from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.maps.lookups import Lookups, beside
from regard.pictures.view import View
from regard.pictures.write import LABELS, PAGE, write, write_view
from regard.tasks.language_model.run import LanguageModelRun
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
from regard.tasks.multi_target.run import MultiTargetRun
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
    if not isinstance(run, Seq2SeqRun | MultiTargetRun):
        asking.looking.refuse("--role", what="writes no text of another text or of an image")


def draw(run: Any, asking: Asking) -> str:
    """Writes the picture, and returns the answer. Raises InputError for a run that has nothing to show."""
    if asking.page and asking.looking.maps is None:
        shown = of_page(run, asking)
        looking = asking.looking
        view = View(*shown.lookups, title=shown.title, largest=looking.largest, breakdown=looking.worked)
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
        case LanguageModelRun() | MaskedLanguageModelRun():
            asking.looking.refuse("--beam", what="tells tokens one by one")
            return _text(run.look(text, maps, kind=kind), asking)
        case _:
            raise InputError(f"{asking.run}: this run attends to nothing that can be drawn")


def _text(reading: Reading, asking: Asking, instead: str = PARTS) -> Shown:
    """Of what texts read of each other, or of themselves."""

    def picture(title: str) -> None:
        asking.matrix(reading.attention, title, instead)

    return Shown(reading.answer, asking.text, (reading.lookups,), picture)
