"""`regard show`."""

import math
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from regard.cli.options import build_flags, parse_maps
from regard.cli.streams import pause_collection, say, warn
from regard.errors import InputError, quote
from regard.tasks.options import AttributionOptions, FigureOptions

if TYPE_CHECKING:
    from regard.tasks.attribution import Attribution
    from regard.tasks.run import Run

    AttributionFlags = AttributionOptions
    FigureFlags = FigureOptions
else:
    AttributionFlags = build_flags(
        AttributionOptions,
        "What is drawn",
        2,
        {"beam", "maps", "kinds", "role"},
        {"maps": parse_maps},
    )
    FigureFlags = build_flags(FigureOptions, "How it is drawn", 3)
PAGE, TABLES = ".html", (".tsv", ".jsonl")
COMPARISON = Group("Comparison", sort_key=4)
OWN, PLAIN = AttributionFlags(), FigureFlags()


def show(
    run: Path,
    text: str,
    /,
    *,
    out: Path | None = None,
    flags: AttributionFlags = OWN,
    figure: FigureFlags = PLAIN,
    top: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    allow_missing: bool = False,
    compare: Annotated[Path | None, Parameter(group=COMPARISON)] = None,
    compare_text: Annotated[str | None, Parameter(group=COMPARISON)] = None,
) -> None:
    """Draw the attention behind a prediction.

    Or another attribution, or two predictions compared.

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
    if out is None:
        is_page = drawing.uses_default_view and options.maps is None
        is_page = is_page and (compares or len(set(options.kinds)) > 1)
        ending = PAGE if is_page or find_spec("matplotlib") is None else ".png"
        ending = ".tsv" if top is not None else ending
        out = Path(f"{run.resolve().name}-attention{ending}")
    check_output(out, options, drawing, top, compares=compares)
    with pause_collection():
        from regard.hub.open_run import open_run

        loaded = open_run(run, allow_missing=allow_missing)
        partner = loaded
        if compare is not None:
            partner = open_run(compare, allow_missing=allow_missing)
    if out.suffix.lower() in TABLES:
        return say(tabulate(loaded, text, out, options, top, drawing))
    attribution = attribute(loaded, text, options)
    lines = attribution.prediction.lines()
    if compares:
        from regard.pictures.write import write_view
        from regard.tasks.attribution import compare_attributions

        other_text = text if compare_text is None else compare_text
        partner_attribution = attribute(partner, other_text, options)
        lines += partner_attribution.prediction.lines()
        pair = attribution, partner_attribution
        names = f"{run}: {text}", f"{compare or run}: {other_text}"
        write_view(compare_attributions(pair, names, drawing), out)
    else:
        attribution.write(out, drawing)
    say("\n".join([*lines, f"The picture is {out}."]))


def check_output(
    out: Path,
    options: AttributionOptions,
    figure: FigureOptions,
    top: int | None = None,
    *,
    compares: bool = False,
) -> None:
    """Check the name of a picture, page or table with the options that belong to it.

    Raises:
        InputError: They do not fit.
    """
    if out.is_dir():
        raise InputError(f"{out}: is a directory; expected the name of a picture")
    ending, several = out.suffix.lower(), compares or len(set(options.kinds)) > 1
    if ending in TABLES:
        entropies = figure.view == "entropy" and top is None
        if several or figure.view_options or (figure.view and not entropies):
            raise InputError(
                f"{out}: a table has the weights of one text and one --kind, and no "
                "options of pictures. It has --top, --map, --kind and --role."
            )
    elif top is not None:
        raise InputError(
            f"{out}: --top writes a table of weights. Name a .tsv or .jsonl file by --out."
        )
    elif several and not (
        ending == PAGE and figure.uses_default_view and options.maps is None
    ):
        raise InputError(
            f"{out}: only an .html page of everything shows several kinds or a "
            "comparison. Write to an .html file without --map, --view and its options, "
            "or give one --kind."
        )


def attribute(
    run: "Run[Any, Any]", text: str, options: AttributionOptions
) -> "Attribution":
    """Return the attribution of the prediction for a text, after its warnings."""
    run.check_supported("attribute", options)
    example = run.parse(text)
    attribution = run.attribute(example, options)
    prediction_warnings = run.prediction_warnings(attribution.prediction)
    warn(quote(text), [*run.warnings(example), *prediction_warnings])
    return attribution


def tabulate(
    run: "Run[Any, Any]",
    text: str,
    out: Path,
    options: AttributionOptions,
    top: int | None,
    figure: FigureOptions,
) -> str:
    """Write a table of the greatest weights, of all weights, or of the entropies.

    Returns:
        What is printed.
    """
    from regard.maps.heads import COLUMNS
    from regard.pictures.write import write_table

    if top is not None:
        run.check_supported("attribute", options)
        weights = run.greatest(run.parse(text), top, options)
        path = write_table(out, COLUMNS, weights.rows(options.maps))
        return f"The table is {path}."
    attribution = attribute(run, text, options)
    columns, rows = COLUMNS, attribution.greatest().rows(options.maps)
    if figure.view == "entropy":
        columns, rows = ("layer", "head", "entropy"), []
        for layer, heads in enumerate(attribution.bits()):
            for head, bits in enumerate(heads.tolist()):
                if not math.isnan(bits):
                    rows.append((layer, head, bits))
    path = write_table(out, columns, rows)
    return "\n".join([*attribution.prediction.lines(), f"The table is {path}."])
