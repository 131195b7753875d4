"""`regard show`."""

from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from regard.attribution.kinds import Kind, Role
from regard.cli.loading import loading
from regard.cli.options import AllowMissing, AnyFolder, Beam, Maps, check_search
from regard.cli.output import say, warn
from regard.errors import InputError, quoted
from regard.tasks.options import AttributionOptions, FigureOptions, ViewName

if TYPE_CHECKING:
    from regard.tasks.attribution import Attribution
    from regard.tasks.run import Run

PAGE = ".html"


@Parameter(name="*", group=Group("What is drawn", sort_key=2))
@dataclass(frozen=True)
class AttributionFlags:
    """The flags of attribution; without a flag the run's own setting applies."""

    beam: Beam = None
    maps: Maps = None
    kinds: Annotated[
        list[Kind] | None,
        Parameter(
            name="--kind",
            negative="",
            help="What to draw: the weights; gradient x input; the norms of what is read; or all layers rolled out. "
            "Repeatable for a page, which has them behind a menu. Default: weights; for a class rollout of its layers.",
        ),
    ] = None
    role: Annotated[
        Role | None,
        Parameter(
            help="Of an encoder-decoder, whose attention: cross, that of the output to its source; encoder or decoder, "
            "the self-attention of that side. Default: cross."
        ),
    ] = None
    rows: Annotated[
        str | None,
        Parameter(help="Of a transformers model: keep the weights of the tokens A to B-1 only, as A:B, from 0."),
    ] = None
    allow_missing: AllowMissing = False

    def options(self) -> AttributionOptions:
        """The options of the library."""
        values = {name: value for name, value in vars(self).items() if name != "allow_missing"}
        return AttributionOptions(**{**values, "kinds": tuple(self.kinds or ())})


@Parameter(name="*", group=Group("How it is drawn", sort_key=3))
@dataclass(frozen=True)
class FigureFlags:
    """The flags of figures; without a flag a run draws its own figure."""

    view: Annotated[
        ViewName | None,
        Parameter(
            help="matrix; lines between two copies of the text, a colour a head; heads, all of all layers side by "
            "side; reading, the text shaded by what each token reads; rollout, all layers together beside the last; "
            "entropy of every head. Default: matrix; of classes of texts the shaded text, of images a heat map."
        ),
    ] = None
    words: Annotated[
        bool, Parameter(negative="", show_default=False, help="Between words separated by blanks, not pieces.")
    ] = False
    source: Annotated[str | None, Parameter(help="Show only source tokens A to B-1, as A:B, counted from 0.")] = None
    target: Annotated[str | None, Parameter(help="Show only target tokens A to B-1, as A:B.")] = None
    page: Annotated[
        int | None, Parameter(help="Places of each side in a figure; several are written, NAME-1 and so on.")
    ] = None
    threshold: Annotated[float | None, Parameter(help="Of lines: the least weight that has one. Default: 0.15.")] = None
    scale: Annotated[
        float | None, Parameter(help="The weight with the darkest colour. Default: 1; of heads the greatest.")
    ] = None
    width: Annotated[float | None, Parameter(help="Of the picture on paper, in centimetres.")] = None
    largest: Annotated[float, Parameter(help="Megabytes that an .html page may have.")] = 16.0
    breakdown_limit: Annotated[
        int,
        Parameter(
            name="--worked",
            help="Numbers in an .html page for the breakdown of lookups; beyond this maximum it has none.",
        ),
    ] = 1_000_000

    def options(self) -> FigureOptions:
        """The options of the library."""
        return FigureOptions(**vars(self))


@Parameter(name="*", group=Group("Comparison", sort_key=4))
@dataclass(frozen=True)
class ComparisonFlags:
    """The flags of a comparison."""

    run: Annotated[
        Path | None,
        Parameter(name="--compare", help="Folder of another run, for comparison on an .html page."),
    ] = None
    text: Annotated[
        str | None,
        Parameter(name="--compare-text", help="Another text, for comparison; with --compare the text of that run."),
    ] = None

    @property
    def chosen(self) -> bool:
        """Whether two predictions are compared."""
        return self.run is not None or self.text is not None


Text = Annotated[
    str,
    Parameter(
        name="TEXT",
        help="What the run predicts for; two texts with a tab between, an image or a sound by its path, an episode as "
        "JSON.",
    ),
]
Out = Annotated[
    Path | None,
    Parameter(
        help="The picture to write: a name ending in .png, .svg, .pdf or .html. Default: RUN-attention.png, with a "
        "number if there is one, or .html without matplotlib and for a page."
    ),
]
Overwrite = Annotated[
    bool, Parameter(negative="", show_default=False, help="Without --out: replace the picture of that name.")
]
OWN, PLAIN, ALONE = AttributionFlags(), FigureFlags(), ComparisonFlags()


def show(
    run: AnyFolder,
    text: Text,
    /,
    *,
    out: Out = None,
    overwrite: Overwrite = False,
    attribution: AttributionFlags = OWN,
    figure: FigureFlags = PLAIN,
    comparison: ComparisonFlags = ALONE,
) -> None:
    """Draw the attention behind a prediction.

    Or another attribution, or two predictions compared.
    """
    check_search(attribution.beam)
    options, drawing = attribution.options(), figure.options()
    drawing.check()
    page = drawing.own and options.maps is None and (comparison.chosen or len(set(options.kinds)) > 1)
    out = default_name(run, page=page, overwrite=overwrite) if out is None else out
    if out.is_dir():
        raise InputError(f"{out}: is a directory; expected the name of a picture to write")
    check_page(out, options, drawing, comparing=comparison.chosen)
    second = comparison.run or run, text if comparison.text is None else comparison.text
    with loading():
        from regard.hub.opening import open_run

        loaded = open_run(run, allow_missing=attribution.allow_missing)
        other = loaded if comparison.run is None else open_run(comparison.run, allow_missing=attribution.allow_missing)
    attributions = [attribute(loaded, text, options)]
    if comparison.chosen:
        attributions.append(attribute(other, second[1], options))
    paths = write(attributions, apart((run, text), second), out, drawing)
    pictures = f"The picture is {out}." if len(paths) == 1 else f"The pictures are {paths[0]} to {paths[-1]}."
    say("\n".join([line for each in attributions for line in each.prediction.lines()] + [pictures]))


def default_name(run: Path, *, page: bool, overwrite: bool) -> Path:
    """The name of a picture: the run's and "attention", with a number where there is such a picture already."""
    form = PAGE if page or find_spec("matplotlib") is None else ".png"
    name = f"{run.resolve().name}-attention"
    for number in count(1):
        path = Path(f"{name}{form}" if number == 1 else f"{name}-{number}{form}")
        if overwrite or not (path.exists() or path.with_stem(f"{path.stem}-1").exists()):
            return path
    raise AssertionError("numbers end")


def attribute(run: "Run[Any, Any]", text: str, options: AttributionOptions) -> "Attribution":
    """The attribution of the prediction for a text. Raises InputError as `Run.attribute`."""
    run.check_supported("attribute", options)
    example = run.parse(text)
    found = run.attribute(example, options)
    warn(quoted(text), [*run.warnings(example), *run.prediction_warnings(found.prediction)])
    return found


def write(found: "list[Attribution]", names: tuple[str, str], out: Path, options: FigureOptions) -> list[Path]:
    """Write the figures of an attribution, or one page of two by their names, and return the paths."""
    if len(found) == 1:
        return found[0].write(out, options)
    from regard.pictures.write import write_view
    from regard.tasks.attribution import side_by_side

    first, second = found
    return [write_view(side_by_side((first, second), names, options), out)]


def apart(one: tuple[Path, str], other: tuple[Path, str]) -> tuple[str, str]:
    """The names of two pairs of a run and a text: the runs, the texts, or both."""
    runs = [each.resolve().name for each, _ in (one, other)]
    if len(set(runs)) == 1 and one[0].resolve() != other[0].resolve():
        runs = [str(each) for each, _ in (one, other)]
    texts = [one[1], other[1]]
    different = [each for each in (runs, texts) if len(set(each)) == 2] or [runs]
    first, second = (": ".join(parts) for parts in zip(*different, strict=True))
    return first, second


def check_page(out: Path, options: AttributionOptions, figure: FigureOptions, *, comparing: bool) -> None:
    """Raises InputError for options of a page of all maps where another figure is written."""
    if out.suffix.lower() == PAGE and figure.own and options.maps is None:
        return
    count, instead = len(set(options.kinds)), "write a .html file, without --map, --view and what goes with it"
    if count > 1:
        raise InputError(
            f"--kind is given {count} times; several kinds need a page of everything: {instead}, or give one"
        )
    if comparing:
        raise InputError(f"a comparison needs a page of everything: {instead}")
