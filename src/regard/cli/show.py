"""`regard show`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Asked, Beam, RunFolder, check_search, searching
from regard.cli.output import say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.classification.run import ClassificationRun
    from regard.tasks.image_classification.run import ImageClassificationRun


def show(
    run: RunFolder,
    text: Annotated[
        str,
        Parameter(name="TEXT", help="What the run is to answer; two texts with a tab between, an image by its path."),
    ],
    /,
    *,
    out: Annotated[Path, Parameter(help="The picture to write: a name ending in .png, .svg or .html.")],
    beam: Beam = None,
    allow_missing: AllowMissing = False,
) -> None:
    """Draw what a run looks at while it answers a text."""
    check_search(beam)
    if out.is_dir():
        raise InputError(f"{out}: is a directory; expected the name of a picture to write")
    from regard.runs import load
    from regard.tasks.classification.run import ClassificationRun
    from regard.tasks.image_classification.run import ImageClassificationRun

    loaded = load(run, allow_missing=allow_missing)
    match loaded:
        case ClassificationRun():
            refuse_beam(beam, "classes")
            answer = _show_text(loaded, text, out)
        case ImageClassificationRun():
            refuse_beam(beam, "classes of images")
            answer = _show_image(loaded, text, out)
        case _:
            answer = _show_answer(loaded, run, text, out, beam)
    say(f"{answer}\nThe picture is {out}.")


def _show_answer(loaded: Any, run: Path, text: str, out: Path, beam: int | None) -> str:
    """Draw what each step of an answer looks at. Raises InputError."""
    from regard.cli.pointed import parse
    from regard.pictures.write import write
    from regard.runs import expect
    from regard.tasks.pointing.run import PointingRun
    from regard.tasks.text_to_text.run import TextToTextRun

    if isinstance(loaded, PointingRun):
        (pointed,) = loaded.point([parse(text)])
        answer, attention = " ".join(map(str, pointed.places)), pointed.attention
    else:
        with searching(Asked(beam)):
            (prediction,) = expect(loaded, TextToTextRun, run).predict([text], beam=beam)
        answer, attention = prediction.text, prediction.attention
    if attention is None:
        raise InputError(f"{run}: its model does not attend to the source, so there is nothing to draw")
    write(attention, out, title=text)
    return answer


def refuse_beam(beam: int | None, told: str) -> None:
    """Raises InputError where one is given to a run that tells something and searches nothing."""
    if beam is not None:
        raise InputError(f"--beam is given; this run tells {told}, and nothing is searched")


def _show_text(run: "ClassificationRun", text: str, out: Path) -> str:
    """Draw what the run looks at for the class of a text, or of two. Raises InputError."""
    from regard.maps import Alignment
    from regard.pictures.write import write, write_document

    looked = run.look(tuple(text.split("\t")) if run.paired else text)
    if isinstance(looked.weights, Alignment):
        write(looked.weights, out, title=str(looked.found))
    else:
        write_document(looked.weights, out, title=str(looked.found))
    return f"{looked.found.label}\t{looked.found.probability:.4f}"


def _show_image(run: "ImageClassificationRun", image: str, out: Path) -> str:
    """Draw where the run looks for the class of an image. Raises InputError."""
    from regard.pictures.overlay import overlay
    from regard.pictures.write import write_figure

    looked = run.look(image)
    write_figure(overlay(looked.pixels, looked.weights, title=str(looked.found)), out, title=image)
    return f"{looked.found.label}\t{looked.found.probability:.4f}"
