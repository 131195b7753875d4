"""`regard show`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
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
    NAMES = {"beam", "maps", "kinds", "cut", "role", "target"}
    AttributionFlags = build_flags(AttributionOptions, "What is drawn", 2, NAMES)
    FigureFlags = build_flags(FigureOptions, "How it is drawn", 3)
PAGE, TABLES = ".html", (".tsv", ".jsonl")
PICTURES = (".png", ".svg", ".pdf")
COMPARISON = Group("Comparison", sort_key=4)
DEFAULT_FLAGS, DEFAULT_FIGURE = AttributionFlags(), FigureFlags()


def show(
    run: Path,
    /,
    *texts: str,
    out: Path | None = None,
    flags: AttributionFlags = DEFAULT_FLAGS,
    layer: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    head: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    figure: FigureFlags = DEFAULT_FIGURE,
    top: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    allow_missing: bool = False,
    compare: Annotated[Path | None, Parameter(group=COMPARISON)] = None,
    compare_text: Annotated[str | None, Parameter(group=COMPARISON)] = None,
) -> None:
    """Draw the attention of a prediction.

    It can also draw another attribution (--kind), or compare two predictions.

    Args:
        run: Folder of a trained run or of a transformers model, or its name on the hub,
            OWNER/NAME.
        texts: What the run predicts for; of two texts 'FIRST' 'SECOND', an image or a
            sound by its path, an image of a table as FILE:LINE, an episode as JSON.
        out: The picture to write: a name ending in .png, .svg, .pdf or .html; or the
            weights as a table, .tsv or .jsonl. Default: RUN-attention.png, or .html
            without matplotlib and for a page.
        layer: Only the heads of this layer, from 0, instead of --map.
        head: Only this head, from 0, of --layer or of every layer.
        top: The greatest K weights of each query only, as a table: --out is a .tsv or
            .jsonl file.
        allow_missing: Initialize parameters that the weights lack.
        compare: Folder of another run, for comparison on an .html page.
        compare_text: Another text, for comparison; with --compare the text of that run.
    """
    if not texts:
        raise InputError("no text is given. Add the text to draw the attention of.")
    options = AttributionOptions(**vars(flags))
    chooses_heads = layer is not None or head is not None
    if chooses_heads and options.maps is not None:
        raise InputError("--map and --layer or --head are both given; choose one")
    drawing = FigureOptions(**vars(figure))
    options.check()
    drawing.check()
    compares = compare is not None or compare_text is not None
    needs_page = compares or len(set(options.kinds)) > 1
    is_default = drawing.uses_default_view or drawing.view == "similarity"
    fits_page = is_default and options.maps is None and not chooses_heads
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
    if ending not in (*PICTURES, PAGE, *TABLES):
        raise InputError(
            f"{out}: cannot write '{ending}'; name a picture, {', '.join(PICTURES)}, a "
            f"page, {PAGE}, or a table of weights, {', '.join(TABLES)}"
        )
    if ending in TABLES:
        if needs_page or drawing.view_options or drawing.view:
            raise InputError(
                f"{out}: a table holds the weights of one text and one --kind, and no "
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
    if chooses_heads:
        maps = choose_maps(loaded, texts, options, layer, head)
        options = replace(options, maps=maps)
    text = "\t".join(texts)
    from regard.maps.heads import COLUMNS
    from regard.pictures.write import write_table, write_view
    from regard.tasks.attribution import compare_attributions

    if top is not None:  # the map of all weights is never in memory
        loaded.check_supported("attribute", options)
        weights = loaded.attribute(loaded.parse_one(texts), options).greatest(top)
        write_table(out, COLUMNS, weights.rows(options.maps))
        return say(f"The table is {out}.")
    if drawing.view == "similarity":
        attribution = compare_texts(loaded, text)
        drawing = replace(drawing, view=None)
    else:
        attribution = attribute(loaded, texts, options)
    attribution = replace(attribution, about=f"Model: {run.name}, {date.today()}")
    lines = attribution.prediction.lines()
    result = "page" if ending == PAGE else "picture"
    if ending in TABLES:
        result = "table"
        write_table(out, COLUMNS, attribution.greatest().rows(options.maps))
    elif compares:
        other_texts = texts if compare_text is None else (compare_text,)
        other_attribution = attribute(other_run, other_texts, options)
        lines += other_attribution.prediction.lines()
        names = f"{run}: {text}", f"{compare or run}: {other_texts[0]}"
        write_view(
            compare_attributions((attribution, other_attribution), names, drawing),
            out,
        )
    else:
        attribution.write(out, drawing)
    say("\n".join([*lines, f"The {result} is {out}."]))


def lesson(
    run: Path = Path("runs/dates"),
    /,
    *texts: str,
    out: Path | None = None,
) -> None:
    """Write a lesson on attention, computed by a trained model.

    One page without a network has seven chapters to change and twelve tasks with a
    check. The model is small, like the recipe `dates`.

    Args:
        run: Folder of a trained run. Default: runs/dates.
        texts: Texts of the page. Default: examples of the run, if it generates its data.
        out: The page. Default: RUN-lesson.html.
    """
    if run == Path("runs/dates") and not run.exists():
        raise InputError(
            f"{run}: no such run; `regard train dates --out {run}` makes it in about a minute"
        )
    out = out or Path(f"{run.resolve().name}-lesson.html")
    if out.suffix.lower() != PAGE:
        raise InputError(f"{out}: the lesson is a page; name a file ending in {PAGE}")
    with pause_collection():
        from regard.lesson import build_page, check_run, find_texts
        from regard.runs.run_file import load

        loaded: Any = load(run, device="cpu")
    check_run(loaded, str(run))
    from regard.storage.atomic import write

    examples, sources = find_texts(loaded)
    texts = texts or examples
    if not texts:
        raise InputError(
            f"{run}: its data are in files. Give texts for the lesson: regard lesson {run} 'A TEXT' 'ANOTHER'"
        )
    page = build_page(loaded, texts, sources).encode()
    write(out, page)
    say(f"The lesson is {out}, {len(page) / 1e6:.2f} MB; open it in a browser.")


def compare_texts(run: "Run[Any, Any]", text: str) -> "Attribution":
    """Return the similarity of two texts with a tab between them."""
    from regard.hub.similarity import similarity

    first, tab, second = text.partition("\t")
    if not tab or not first.strip() or not second.strip():
        raise InputError(
            f"{quote(text)} is not a pair; a similarity compares two texts with a tab between"
        )
    return similarity(run, first, second)


def choose_maps(
    run: "Run[Any, Any]",
    texts: Sequence[str],
    options: AttributionOptions,
    layer: int | None,
    head: int | None,
) -> tuple[int, ...]:
    """Return the numbers of the maps of a layer, a head, or both.

    Raises:
        InputError: The model lacks this layer or head.
    """
    run.check_supported("attribute", replace(options, maps=(0,)))
    plain = replace(options, kinds=(), maps=None)
    lookups = run.attribute(run.parse_one(texts), plain).lookups[0]
    counts = lookups.weights.shape[:2]
    chosen = []
    for name, number, count in zip(
        ("layer", "head"), (layer, head), counts, strict=True
    ):
        if number is not None and number >= count:
            raise InputError(
                f"--{name} is {number}; the model has {name}s 0 to {count - 1}"
            )
        chosen.append(range(count) if number is None else [number])
    return tuple(
        first * counts[1] + second for first in chosen[0] for second in chosen[1]
    )


def attribute(
    run: "Run[Any, Any]", texts: Sequence[str], options: AttributionOptions
) -> "Attribution":
    """Return the attribution of the prediction for a text, and print the warnings."""
    run.check_supported("attribute", options)
    example = run.parse_one(texts)
    attribution = run.attribute(example, options)
    warnings = run.warnings(example) + run.prediction_warnings(attribution.prediction)
    if warnings:
        warn(quote("\t".join(texts)), warnings)
    return attribution
