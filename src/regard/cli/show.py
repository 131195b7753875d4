"""`regard show`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Asked, Beam, Maps, RunFolder, check_search, searching
from regard.cli.output import say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.inference.within import Reading
    from regard.runs import Run
    from regard.tasks.image_captioning.run import ImageCaptioningRun
    from regard.tasks.image_classification.run import ImageClassificationRun


def show(
    run: RunFolder,
    text: Annotated[str, Parameter(name="TEXT", help="What the run is to answer; an image by its path.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The picture to write: a name ending in .png, .svg or .html.")],
    beam: Beam = None,
    maps: Maps = None,
    allow_missing: AllowMissing = False,
) -> None:
    """Draw what a run looks at while it answers a text."""
    check_search(beam)
    if out.is_dir():
        raise InputError(f"{out}: is a directory; expected the name of a picture to write")
    from regard.pictures.write import write
    from regard.runs import load
    from regard.tasks.image_captioning.run import ImageCaptioningRun
    from regard.tasks.image_classification.run import ImageClassificationRun

    loaded = load(run, allow_missing=allow_missing)
    if isinstance(loaded, ImageClassificationRun):
        _refuse("tells classes of images", beam=beam, map=maps)
        _show_image(loaded, text, out)
        return
    if isinstance(loaded, ImageCaptioningRun):
        _refuse("tells of images", map=maps)
        _show_caption(loaded, text, out, beam)
        return
    reading = _reading(loaded, run, text, beam, maps)
    write(reading.attention, out, title=text)
    say(f"{reading.answer}\nThe picture is {out}.")


def _reading(loaded: "Run", run: Path, text: str, beam: int | None, maps: list[int] | None) -> "Reading":
    """What a run that reads text says of it, and what it looked at. Raises InputError."""
    from regard.cli.pointed import parse
    from regard.cli.told import parse_question
    from regard.inference.within import Reading
    from regard.runs import expect
    from regard.tasks.classification.run import ClassificationRun
    from regard.tasks.language_model.run import LanguageModelRun
    from regard.tasks.masked_language_model.run import MaskedLanguageModelRun
    from regard.tasks.pointing.run import PointingRun
    from regard.tasks.span_answers.run import SpanAnswersRun
    from regard.tasks.text_to_text.run import TextToTextRun

    match loaded:
        case PointingRun():
            _refuse("points to elements of a set", beam=beam, map=maps)
            (pointed,) = loaded.point([parse(text)])
            return Reading(" ".join(map(str, pointed.places)), pointed.attention)
        case ClassificationRun():
            _refuse("tells classes", beam=beam)
            return loaded.look(tuple(text.split("\t")), maps)
        case SpanAnswersRun():
            _refuse("answers with spans", beam=beam)
            return loaded.look(parse_question(1, text), maps)
        case LanguageModelRun() | MaskedLanguageModelRun():
            _refuse("tells tokens one by one", beam=beam)
            return loaded.look(text, maps)
    with searching(Asked(beam)):
        return expect(loaded, TextToTextRun, run).look(text, maps, beam=beam)


def _refuse(what: str, **options: object) -> None:
    """Raises InputError for an option that is given and means nothing here."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"--{name} is given; this run {what}, and takes none")


def _show_image(run: "ImageClassificationRun", image: str, out: Path) -> None:
    """Draw where the run looks for the class of an image. Raises InputError."""
    from regard.pictures.overlay import overlay
    from regard.pictures.write import write_figure

    looked = run.look(image)
    found = looked.found
    write_figure(
        overlay(looked.pixels, looked.weights, title=f"{found.label} {found.probability:.4f}"), out, title=image
    )
    say(f"{found.label}\t{found.probability:.4f}\nThe picture is {out}.")


def _show_caption(run: "ImageCaptioningRun", image: str, out: Path, beam: int | None) -> None:
    """Draw where the run looks for each token of what it says of an image. Raises InputError."""
    from regard.pictures.overlay import overlays
    from regard.pictures.write import write_figure

    with searching(Asked(beam)):
        looked = run.look(image, beam=beam)
    titles = looked.caption.tokens
    if looked.gates is not None:
        titles = tuple(f"{word}  {gate:.2f}" for word, gate in zip(titles, looked.gates, strict=True))
    write_figure(overlays(looked.pixels, looked.weights, titles), out, title=looked.caption.text)
    say(f"{looked.caption.text}\nThe picture is {out}.")
