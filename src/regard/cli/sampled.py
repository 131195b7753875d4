"""The search that the user asked for."""

from dataclasses import replace

from regard.cli.options import Drawing
from regard.decoding.search import Search
from regard.errors import InputError


def drawn(own: Search, asked: Drawing) -> Search | None:
    """A run's own search, drawing as the user asked; None where nothing is drawn. Raises InputError."""
    given = asked.drawing()
    if asked.beam is not None or (not given and own.temperature is None):
        return None
    try:
        search = replace(own, **given)
    except ValueError as error:
        raise InputError(str(error)) from error
    if search.temperature is None:
        raise InputError("--seed is for drawing; give --temperature too")
    return search
