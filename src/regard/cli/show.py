"""`regard show`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.options import AllowMissing, Asked, Beam, RunFolder, check_search, searching
from regard.cli.output import say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tasks.bit_sequences.run import BitSequencesRun
    from regard.tasks.image_classification.run import ImageClassificationRun


def show(
    run: RunFolder,
    text: Annotated[str, Parameter(name="TEXT", help="What the run is to answer; an image by its path.")],
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
    from regard.cli.pointed import parse
    from regard.pictures.write import write
    from regard.runs import expect, load
    from regard.tasks.bit_sequences.run import BitSequencesRun
    from regard.tasks.image_classification.run import ImageClassificationRun
    from regard.tasks.pointing.run import PointingRun
    from regard.tasks.text_to_text.run import TextToTextRun

    loaded = load(run, allow_missing=allow_missing)
    if isinstance(loaded, ImageClassificationRun):
        _show_image(loaded, text, out, beam)
        return
    if isinstance(loaded, BitSequencesRun):
        _show_tape(loaded, text, out, beam)
        return
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
    say(f"{answer}\nThe picture is {out}.")


def _show_image(run: "ImageClassificationRun", image: str, out: Path, beam: int | None) -> None:
    """Draw where the run looks for the class of an image. Raises InputError."""
    from regard.pictures.overlay import overlay
    from regard.pictures.write import write_figure

    if beam is not None:
        raise InputError("--beam is given; this run tells classes of images, and nothing is searched")
    looked = run.look(image)
    found = looked.found
    write_figure(
        overlay(looked.pixels, looked.weights, title=f"{found.label} {found.probability:.4f}"), out, title=image
    )
    say(f"{found.label}\t{found.probability:.4f}\nThe picture is {out}.")


def _show_tape(run: "BitSequencesRun", text: str, out: Path, beam: int | None) -> None:
    """Draw what the run reads and writes on its tape while it answers a sequence. Raises InputError."""
    from regard.pictures.tape import tape
    from regard.pictures.write import write_figure

    if beam is not None:
        raise InputError("--beam is given; this run answers sequences of bits, and nothing is searched")
    (said,) = run.predict([text])
    write_figure(tape(said.tape), out, title=text)
    say(f"{said.text}\nThe picture is {out}.")
