"""`regard show`."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from regard.cli.main import build_flags, pause_collection, say, warn
from regard.errors import InputError, quote
from regard.tasks.options import AttributionOptions, FigureOptions

if TYPE_CHECKING:
    from regard.tasks.attribution import Attribution
    from regard.tasks.run import Run

    AttributionFlags = AttributionOptions
    FigureFlags = FigureOptions
else:
    NAMES = {"beam", "maps", "kinds", "cut", "role"}
    AttributionFlags = build_flags(AttributionOptions, "What is drawn", 2, NAMES)
    FigureFlags = build_flags(FigureOptions, "How it is drawn", 3)
PAGE, TABLES = ".html", (".tsv", ".jsonl")
COMPARISON = Group("Comparison", sort_key=4)
DEFAULT_FLAGS, DEFAULT_FIGURE = AttributionFlags(), FigureFlags()


def show(
    run: Path,
    text: str,
    /,
    *,
    out: Path | None = None,
    flags: AttributionFlags = DEFAULT_FLAGS,
    figure: FigureFlags = DEFAULT_FIGURE,
    top: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    allow_missing: bool = False,
    compare: Annotated[Path | None, Parameter(group=COMPARISON)] = None,
    compare_text: Annotated[str | None, Parameter(group=COMPARISON)] = None,
) -> None:
    """Draw the attention behind a prediction.

    It can also draw another attribution (--kind), or compare two predictions.

    Args:
        run: Folder of a trained run or of a transformers model, or its name on the hub,
            OWNER/NAME.
        text: What the run predicts for; two texts with a tab between, an image or a
            sound by its path, an image of a table as FILE:LINE, an episode as JSON.
        out: The picture to write: a name ending in .png, .svg, .pdf or .html; or the
            weights as a table, .tsv or .jsonl. Default: RUN-attention.png, or .html
            without matplotlib and for a page.
        top: The greatest K weights of each query only, as a table: --out is a .tsv or
            .jsonl file.
        allow_missing: Initialize parameters that the weights lack.
        compare: Folder of another run, for comparison on an .html page.
        compare_text: Another text, for comparison; with --compare the text of that run.
    """
    options = AttributionOptions(**vars(flags))
    drawing = FigureOptions(**vars(figure))
    options.check()
    drawing.check()
    compares = compare is not None or compare_text is not None
    needs_page = compares or len(set(options.kinds)) > 1
    is_default = drawing.uses_default_view or drawing.view == "similarity"
    fits_page = is_default and options.maps is None
    if out is None:
        ending = ".png" if find_spec("matplotlib") is not None else PAGE
        if needs_page and fits_page:
            ending = PAGE
        if top is not None:
            ending = ".tsv"
        out = Path(f"{run.resolve().name}-attention{ending}")
    if out.is_dir():
        raise InputError(f"{out}: is a directory; expected the name of a picture")
    ending = out.suffix.lower()
    if ending in TABLES:
        if needs_page or drawing.view_options or drawing.view:
            raise InputError(
                f"{out}: a table has the weights of one text and one --kind, and no "
                "options of pictures. It has --top, --map, --kind and --role."
            )
    elif top is not None:
        raise InputError(
            f"{out}: --top writes a table of weights. Name a .tsv or .jsonl file by --out."
        )
    elif needs_page and not (ending == PAGE and fits_page):
        raise InputError(
            f"{out}: only an .html page of everything shows several kinds or a "
            "comparison. Write to an .html file without --map, --view and its options, "
            "or give one --kind."
        )
    with pause_collection():
        from regard.hub.open_run import open_run

        loaded = open_run(run, allow_missing=allow_missing)
        other_run = loaded
        if compare is not None:
            other_run = open_run(compare, allow_missing=allow_missing)
    from regard.maps.heads import COLUMNS
    from regard.pictures.write import write_table, write_view
    from regard.tasks.attribution import compare_attributions

    if top is not None:  # the map of all weights is never in memory
        loaded.check_supported("attribute", options)
        weights = loaded.attribute(loaded.parse(text), options).greatest(top)
        write_table(out, COLUMNS, weights.rows(options.maps))
        return say(f"The table is {out}.")
    if drawing.view == "similarity":
        attribution = compare_texts(loaded, text)
        drawing = replace(drawing, view=None)
    else:
        attribution = attribute(loaded, text, options)
    lines, result = attribution.prediction.lines(), "picture"
    if ending in TABLES:
        result = "table"
        write_table(out, COLUMNS, attribution.greatest().rows(options.maps))
    elif compares:
        other_text = text if compare_text is None else compare_text
        other_attribution = attribute(other_run, other_text, options)
        lines += other_attribution.prediction.lines()
        names = f"{run}: {text}", f"{compare or run}: {other_text}"
        write_view(
            compare_attributions((attribution, other_attribution), names, drawing),
            out,
        )
    else:
        attribution.write(out, drawing)
    say("\n".join([*lines, f"The {result} is {out}."]))


def compare_texts(run: "Run[Any, Any]", text: str) -> "Attribution":
    """Return the similarity of two texts with a tab between them."""
    from regard.hub.similarity import similarity

    first, tab, second = text.partition("\t")
    if not tab or not first.strip() or not second.strip():
        raise InputError(
            f"{quote(text)} is no pair; a similarity is of two texts with a tab between"
        )
    return similarity(run, first, second)


def attribute(
    run: "Run[Any, Any]", text: str, options: AttributionOptions
) -> "Attribution":
    """Return the attribution of the prediction for a text, and print the warnings."""
    run.check_supported("attribute", options)
    example = run.parse(text)
    attribution = run.attribute(example, options)
    warnings = run.warnings(example) + run.prediction_warnings(attribution.prediction)
    if warnings:
        warn(quote(text), warnings)
    return attribution
