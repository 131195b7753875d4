"""`regard show`."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from regard.attribution.kinds import Kind, Role
from regard.cli.options import (
    AllowMissing,
    AnyFolder,
    check_flags,
    derive_flags,
    parse_maps,
)
from regard.cli.output import say, warn
from regard.cli.standard_input import pause_collection
from regard.errors import InputError, quote
from regard.tasks.options import AttributionOptions, FigureOptions, ViewName

if TYPE_CHECKING:
    from regard.tasks.attribution import Attribution
    from regard.tasks.run import Run

PAGE, TABLES = ".html", (".tsv", ".jsonl")


@derive_flags(AttributionOptions, "What is drawn", 2)
@dataclass(frozen=True)
class AttributionFlags:
    """Flags of attribution; without a flag the run's own setting applies."""

    beam: int | None = None
    maps: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    role: Role | None = None
    rows: str | None = None
    top: Annotated[
        int | None,
        Parameter(
            help="The greatest K weights of each query only, as a table: --out is a "
            ".tsv or .jsonl file."
        ),
    ] = None
    allow_missing: AllowMissing = False

    def options(self) -> AttributionOptions:
        """Return the options of the library. Raise InputError as `parse_maps`."""
        return AttributionOptions(
            beam=self.beam,
            maps=parse_maps(self.maps),
            kinds=self.kinds,
            role=self.role,
            rows=self.rows,
        )


@derive_flags(FigureOptions, "How it is drawn", 3)
@dataclass(frozen=True)
class FigureFlags:
    """Flags of figures; without a flag a run draws its own figure."""

    view: ViewName | None = None
    words: bool = False
    source: str | None = None
    target: str | None = None
    page: int | None = None
    threshold: float | None = None
    scale: float | None = None
    width: float | None = None
    largest: float = 16.0
    breakdown_limit: int = 1_000_000

    def options(self) -> FigureOptions:
        """Return the options of the library."""
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
    options, drawing = attribution.options(), figure.options()
    check_flags(AttributionOptions, vars(attribution))
    options.check()
    drawing.check()
    page = (
        drawing.uses_default_view
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
    with pause_collection():
        from regard.hub.open_run import open_run

        loaded = open_run(run, allow_missing=attribution.allow_missing)
        second_run = (
            loaded
            if comparison.run is None
            else open_run(comparison.run, allow_missing=attribution.allow_missing)
        )
    if tabular:
        return say(tabulate(loaded, text, out, options, attribution.top, drawing))
    attributions = [attribute(loaded, text, options)]
    if comparison.chosen:
        attributions.append(attribute(second_run, second[1], options))
    paths = write_figures(
        attributions, name_differences((run, text), second), out, drawing
    )
    pictures = (
        f"The picture is {out}."
        if len(paths) == 1
        else f"The pictures are {paths[0]} to {paths[-1]}."
    )
    say(
        "\n".join(
            [line for item in attributions for line in item.prediction.lines()]
            + [pictures]
        )
    )


def default_name(run: Path, form: str, *, overwrite: bool) -> Path:
    """Return the name of a file of this suffix.

    The run's and "attention", with a number where there is one already.
    """
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
    """Return the attribution of the prediction for a text.

    Raises InputError as `Run.attribute`.
    """
    run.check_supported("attribute", options)
    example = run.parse(text)
    attribution_ = run.attribute(example, options)
    warn(
        quote(text),
        [*run.warnings(example), *run.prediction_warnings(attribution_.prediction)],
    )
    return attribution_


def tabulate(
    run: "Run[Any, Any]",
    text: str,
    out: Path,
    options: AttributionOptions,
    top: int | None,
    figure: FigureOptions,
) -> str:
    """Write a table.

    The `top` weights of each query, or all that are kept, or the entropies; return what
    is said.
    """
    from regard.maps.heads import COLUMNS
    from regard.pictures.write import write_table

    run.check_supported("attribute", options)
    if top is not None:
        attribution_ = run.greatest(run.parse(text), top, options)
        return f"The table is {write_table(out, COLUMNS, attribution_.rows(options.maps))}."
    attribution = attribute(run, text, options)
    if figure.view == "entropy":
        rows = (
            (layer, *item)
            for layer, heads in enumerate(attribution.bits())
            for item in enumerate(heads.tolist())
        )
        path = write_table(
            out,
            ("layer", "head", "entropy"),
            (row for row in rows if not math.isnan(row[-1])),
        )
    else:
        path = write_table(out, COLUMNS, attribution.greatest().rows(options.maps))
    return "\n".join([*attribution.prediction.lines(), f"The table is {path}."])


def check_table(
    out: Path, flags: AttributionFlags, figure: FigureOptions, *, comparing: bool
) -> None:
    """Raise InputError for options that a table does not have, or another file name."""
    if flags.top is not None and flags.top < 1:
        raise InputError(
            f"--top is {flags.top}; expected at least 1 weight for each query"
        )
    if out.suffix.lower() not in TABLES:
        raise InputError(
            f"{out}: --top writes a table of weights, no picture; name a .tsv or .jsonl file by --out"
        )
    if len(set(flags.kinds)) > 1 or comparing:
        raise InputError(
            "a table has the weights of one text and one --kind; give one of each"
        )
    viewed = figure.view is not None and (
        figure.view != "entropy" or flags.top is not None
    )
    if others := sorted(figure.view_options | ({"view"} if viewed else set())):
        raise InputError(
            f"the option {others[0]} is one of pictures; a table has --top, --map, --rows, --kind, --role"
        )


def write_figures(
    attribution_: "list[Attribution]",
    names: tuple[str, str],
    out: Path,
    options: FigureOptions,
) -> list[Path]:
    """Write the figures of an attribution, or one page of two by their names, and return the paths."""
    if len(attribution_) == 1:
        return attribution_[0].write(out, options)
    from regard.pictures.write import write_view
    from regard.tasks.attribution import compare_attributions

    first, second = attribution_
    return [write_view(compare_attributions((first, second), names, options), out)]


def name_differences(
    first_pair: tuple[Path, str], second_pair: tuple[Path, str]
) -> tuple[str, str]:
    """Return the names of two pairs of a run and a text.

    The runs, the texts, or both.
    """
    runs = [item.resolve().name for item, _ in (first_pair, second_pair)]
    if len(set(runs)) == 1 and first_pair[0].resolve() != second_pair[0].resolve():
        runs = [str(item) for item, _ in (first_pair, second_pair)]
    texts = [first_pair[1], second_pair[1]]
    different = [item for item in (runs, texts) if len(set(item)) == 2] or [runs]
    first, second = (": ".join(parts) for parts in zip(*different, strict=True))
    return first, second


def is_table(
    out: Path, flags: AttributionFlags, figure: FigureOptions, *, comparing: bool
) -> bool:
    """Return whether a table is written, not a picture.

    Raises InputError for a directory, and as the checks of either.
    """
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
    """Raise InputError for options of a page where another figure is written."""
    if out.suffix.lower() == PAGE and figure.uses_default_view and not flags.maps:
        return
    count, instead = (
        len(set(flags.kinds)),
        "write a .html file, without --map, --view and what goes with it",
    )
    if count > 1:
        raise InputError(
            f"--kind is given {count} times; several kinds need a page of everything: {instead}, or give one"
        )
    if comparing:
        raise InputError(f"a comparison needs a page of everything: {instead}")
