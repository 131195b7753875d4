"""How a published model is searched, and what that is here."""

from typing import Any

from regard.decoding.search import Search
from regard.errors import InputError
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.settings import Settings

GENERATION = "generation_config.json"
"""Files of today have these settings in it; older ones have them in config.json."""


def read(folder: Folder, longest: int) -> Search:
    """The beam, its length penalty, the most tokens, by default `longest`, and what may not stand twice. The penalty
    divides by length^p. Raises InputError for values that are none."""
    values = folder.json(CONFIG)
    place = folder.path / (GENERATION if folder.has(GENERATION) else CONFIG)
    values |= folder.json(GENERATION) if folder.has(GENERATION) else {}
    settings = Settings({key: value for key, value in values.items() if value is not None}, str(place))
    penalty = settings.values.get("length_penalty", 1.0)
    if not isinstance(penalty, int | float) or isinstance(penalty, bool) or not penalty >= 0:
        raise InputError(f"{place}: length_penalty is {penalty!r}; expected a number of at least 0")
    return Search(
        beam=settings.size("num_beams", 1),
        length_penalty=float(penalty),
        length_offset=0.0,
        no_repeat=settings.index("no_repeat_ngram_size", 0),
        length_ratio=0.0,
        length_extra=max(1, settings.size("max_length", longest) - 1),  # there START is counted
    )


def generation_config(search: Search, longest: int) -> dict[str, Any]:
    """The settings of a search that mean the same there."""
    comparable = search.beam > 1 and (not search.length_penalty or not search.length_offset)
    return {
        "num_beams": search.beam,
        "do_sample": False,
        **({"length_penalty": search.length_penalty} if comparable else {}),
        **({"no_repeat_ngram_size": search.no_repeat} if search.no_repeat else {}),
        "max_length": longest if search.length_ratio else search.length_extra + 1,
    }
