"""`regard show`."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from regard.attribution.kinds import Kind, Role
from regard.cli.loading import loading
from regard.cli.options import (
    AllowMissing,
    AnyFolder,
    Beam,
    Maps,
    check_search,
    map_numbers,
)
from regard.cli.output import say, warn
from regard.errors import InputError, quoted
from regard.tasks.options import AttributionOptions, FigureOptions, ViewName

if TYPE_CHECKING:
    from regard.tasks.attribution import Attribution
    from regard.tasks.run import Run

PAGE, TABLES = ".html", (".tsv", ".jsonl")


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
        Parameter(
            help="Of a transformers model: keep the weights of the tokens A to B-1 only, as A:B, from 0."
        ),
    ] = None
    top: Annotated[
        int | None,
        Parameter(
            help="The greatest K weights of each query only, as a table: --out is a .tsv or .jsonl file."
        ),
    ] = None
    allow_missing: AllowMissing = False

    def options(self) -> AttributionOptions:
        """The options of the library. Raises InputError as `map_numbers`."""
        values = {
            name: value
            for name, value in vars(self).items()
            if name not in ("top", "allow_missing")
        }
        return AttributionOptions(
            **{
                **values,
                "kinds": tuple(self.kinds or ()),
                "maps": map_numbers(self.maps),
            }
        )


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
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Between words separated by blanks, not pieces.",
        ),
    ] = False
    source: Annotated[
        str | None,
        Parameter(help="Show only source tokens A to B-1, as A:B, counted from 0."),
    ] = None
    target: Annotated[
        str | None, Parameter(help="Show only target tokens A to B-1, as A:B.")
    ] = None
    page: Annotated[
        int | None,
        Parameter(
            help="Places of each side in a figure; several are written, NAME-1 and so on."
        ),
    ] = None
    threshold: Annotated[
        float | None,
        Parameter(help="Of lines: the least weight that has one. Default: 0.15."),
    ] = None
    scale: Annotated[
        float | None,
        Parameter(
            help="The weight with the darkest colour. Default: 1; of heads the greatest."
        ),
    ] = None
    width: Annotated[
        float | None, Parameter(help="Of the picture on paper, in centimetres.")
    ] = None
    largest: Annotated[
        float, Parameter(help="Megabytes that an .html page may have.")
    ] = 16.0
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
        Parameter(
            name="--compare",
            help="Folder of another run, for comparison on an .html page.",
        ),
    ] = None
    text: Annotated[
        str | None,
        Parameter(
            name="--compare-text",
            help="Another text, for comparison; with --compare the text of that run.",
        ),
    ] = None

    @property
    def chosen(self) -> bool:
        """Whether two predictions are compared."""
        return self.run is not None or self.text is not None


Text = Annotated[
    str,
    Parameter(
        name="TEXT",
        help="What the run predicts for; two texts with a tab between, an image or a sound by its path, an image of a "
        "table as FILE:LINE, an episode as JSON.",
    ),
]
Out = Annotated[
    Path | None,
    Parameter(
        help="The picture to write: a name ending in .png, .svg, .pdf or .html; or the weights as a table, .tsv or "
        ".jsonl. Default: RUN-attention.png, with a number if there is one, or .html without matplotlib and for a page."
    ),
]
Overwrite = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Without --out: replace the picture of that name.",
    ),
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
    page = (
        drawing.own
        and options.maps is None
        and (comparison.chosen or len(set(options.kinds)) > 1)
    )
    form = (
        ".tsv"
        if attribution.top is not None
        else PAGE
        if page or find_spec("matplotlib") is None
        else ".png"
    )
    out = default_name(run, form, overwrite=overwrite) if out is None else out
    tabular = is_table(out, attribution, drawing, comparing=comparison.chosen)
    second = comparison.run or run, text if comparison.text is None else comparison.text
    with loading():
        from regard.hub.opening import open_run

        loaded = open_run(run, allow_missing=attribution.allow_missing)
        other = (
            loaded
            if comparison.run is None
            else open_run(comparison.run, allow_missing=attribution.allow_missing)
        )
    if tabular:
        return say(tabulate(loaded, text, out, options, attribution.top, drawing))
    attributions = [attribute(loaded, text, options)]
    if comparison.chosen:
        attributions.append(attribute(other, second[1], options))
    paths = write(attributions, apart((run, text), second), out, drawing)
    pictures = (
        f"The picture is {out}."
        if len(paths) == 1
        else f"The pictures are {paths[0]} to {paths[-1]}."
    )
    say(
        "\n".join(
            [line for each in attributions for line in each.prediction.lines()]
            + [pictures]
        )
    )


def default_name(run: Path, form: str, *, overwrite: bool) -> Path:
    """The name of a file of this suffix: the run's and "attention", with a number where there is one already."""
    name = f"{run.resolve().name}-attention"
    for number in count(1):
        path = Path(f"{name}{form}" if number == 1 else f"{name}-{number}{form}")
        if overwrite or not (
            path.exists() or path.with_stem(f"{path.stem}-1").exists()
        ):
            return path
    raise AssertionError("numbers end")


def attribute(
    run: "Run[Any, Any]", text: str, options: AttributionOptions
) -> "Attribution":
    """The attribution of the prediction for a text. Raises InputError as `Run.attribute`."""
    run.check_supported("attribute", options)
    example = run.parse(text)
    found = run.attribute(example, options)
    warn(
        quoted(text),
        [*run.warnings(example), *run.prediction_warnings(found.prediction)],
    )
    return found


def tabulate(
    run: "Run[Any, Any]",
    text: str,
    out: Path,
    options: AttributionOptions,
    top: int | None,
    figure: FigureOptions,
) -> str:
    """Write a table: the `top` weights of each query, or all that are kept, or the entropies; return what is said."""
    from regard.maps.greatest import COLUMNS
    from regard.pictures.table import write_table

    run.check_supported("attribute", options)
    if top is not None:
        found = run.greatest(run.parse(text), top, options)
        return f"The table is {write_table(out, COLUMNS, found.rows(options.maps))}."
    attribution = attribute(run, text, options)
    if figure.view == "entropy":
        every = (
            (layer, *each)
            for layer, heads in enumerate(attribution.bits())
            for each in enumerate(heads.tolist())
        )
        path = write_table(
            out,
            ("layer", "head", "entropy"),
            (row for row in every if not math.isnan(row[-1])),
        )
    else:
        path = write_table(out, COLUMNS, attribution.greatest().rows(options.maps))
    return "\n".join([*attribution.prediction.lines(), f"The table is {path}."])


def check_table(
    out: Path, flags: AttributionFlags, figure: FigureOptions, *, comparing: bool
) -> None:
    """Raises InputError for a picture of the greatest weights, and for options that a table does not have."""
    if flags.top is not None and flags.top < 1:
        raise InputError(
            f"--top is {flags.top}; expected at least 1 weight for each query"
        )
    if out.suffix.lower() not in TABLES:
        raise InputError(
            f"{out}: --top writes a table of weights, no picture; name a .tsv or .jsonl file by --out"
        )
    if len(set(flags.kinds or ())) > 1 or comparing:
        raise InputError(
            "a table has the weights of one text and one --kind; give one of each"
        )
    viewed = figure.view is not None and (
        figure.view != "entropy" or flags.top is not None
    )
    if others := sorted(figure.of_view() | ({"view"} if viewed else set())):
        raise InputError(
            f"the option {others[0]} is one of pictures; a table has --top, --map, --rows, --kind, --role"
        )


def write(
    found: "list[Attribution]",
    names: tuple[str, str],
    out: Path,
    options: FigureOptions,
) -> list[Path]:
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


def is_table(
    out: Path, flags: AttributionFlags, figure: FigureOptions, *, comparing: bool
) -> bool:
    """Whether a table is written, not a picture. Raises InputError for a directory, and as the checks of either."""
    if out.is_dir():
        raise InputError(
            f"{out}: is a directory; expected the name of a picture to write"
        )
    table = flags.top is not None or out.suffix.lower() in TABLES
    (check_table if table else check_page)(out, flags, figure, comparing=comparing)
    return table


def check_page(
    out: Path, flags: AttributionFlags, figure: FigureOptions, *, comparing: bool
) -> None:
    """Raises InputError for options of a page of all maps where another figure is written."""
    if out.suffix.lower() == PAGE and figure.own and flags.maps is None:
        return
    count, instead = (
        len(set(flags.kinds or ())),
        "write a .html file, without --map, --view and what goes with it",
    )
    if count > 1:
        raise InputError(
            f"--kind is given {count} times; several kinds need a page of everything: {instead}, or give one"
        )
    if comparing:
        raise InputError(f"a comparison needs a page of everything: {instead}")
