"""Generated data: dates in free form, and the same dates in ISO 8601.

The weekday in a text is wrong half of the time and must be ignored. Every text occurs once. The days of the calendar
are first split among the three sets, so the model never trains on a day of the test set."""

from datetime import date
from random import Random
from typing import Literal

from regard.data.generated.dates_english import (
    DateExample,
    Writer,
    write_numeric,
    write_unambiguous,
)
from regard.data.generated.synthetic import disjoint_sets
from regard.errors import InputError
from regard.extras import how_to_install

FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2099, 12, 31)
Forms = Literal["unambiguous", "all"]
_SHARES = (0.8, 0.1, 0.1)  # the shares of days for training, validation and test


def generate(
    sizes: tuple[int, int, int], forms: Forms, seed: int
) -> tuple[list[DateExample], ...]:
    """Training, validation and test examples without a common text or day. `sizes` are the sizes of the three sets.

    The test set depends on its size, `forms` and `seed` only, so more training data does not change it. Raises
    InputError when `forms` is "all" and Babel is not installed."""
    write = write_unambiguous if forms == "unambiguous" else _writer_of_all()
    days = _dealt_days(seed)

    def make(part: int, random: Random) -> DateExample:
        return write(date.fromordinal(random.choice(days[part])), random)

    return disjoint_sets(sizes, seed, make, "dates")


def _dealt_days(seed: int) -> list[list[int]]:
    """The ordinals of all days, split at random into training, validation and test."""
    days = list(range(FIRST_DAY.toordinal(), LAST_DAY.toordinal() + 1))
    Random(f"{seed}/days").shuffle(days)
    first, second = (
        int(len(days) * _SHARES[0]),
        int(len(days) * (_SHARES[0] + _SHARES[1])),
    )
    return [days[:first], days[first:second], days[second:]]


def _writer_of_all() -> Writer:
    try:
        from regard.data.generated.dates_babel import locale_writer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "babel":
            raise
        raise InputError(
            f"dates in all forms need Babel, which is not installed: {how_to_install('babel')} (or forms: unambiguous)"
        ) from error
    write_local = locale_writer()

    def write(day: date, random: Random) -> DateExample:
        return random.choices(
            (write_unambiguous, write_numeric, write_local), (4, 1, 5)
        )[0](day, random)

    return write
