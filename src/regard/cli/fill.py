"""`regard fill`."""

from typing import Annotated

from cyclopts import Parameter

from regard.cli.loading import loading
from regard.cli.options import AllowMissing, Json, Piped, RunFolder, check_source
from regard.cli.output import say, say_json, warn
from regard.errors import quoted

Texts = Annotated[
    str,
    Parameter(name="TEXT", help="Text with blanks. None: the lines of standard input."),
]


def fill(
    run: RunFolder,
    /,
    *texts: Texts,
    best: Annotated[
        int, Parameter(help="How many ways to fill each blank, the most likely first.")
    ] = 5,
    blank: Annotated[str, Parameter(help="The text of a blank.")] = "[MASK]",
    allow_missing: AllowMissing = False,
    json_: Json = False,
    piped: Piped = False,
) -> None:
    """Fill the blanks of texts.

    For each blank: its number, the probability of a token, the token and the
    text with it, the most likely first.
    """
    check_source(texts, piped)
    with loading():
        from regard.cli.stream import parts
        from regard.runs.load import load
        from regard.tasks.capabilities import Fills, capable

        opened = load(run, allow_missing=allow_missing)
        loaded = capable(opened, Fills, run)
    for some in parts(texts):
        for text, blanks in zip(
            some, loaded.fill(some, best=best, blank=blank), strict=True
        ):
            warn(quoted(text), opened.warnings(text))
            if json_:
                found = [[way.to_json() for way in ways] for ways in blanks]
                say_json({"text": text, "blanks": found})
                continue
            for number, way in (
                (number, way) for number, ways in enumerate(blanks, 1) for way in ways
            ):
                say(f"{number}\t{way.probability:.4f}\t{way.token}\t{way.text}")
