"""Generated data: dates as people write them, and the same dates as ISO 8601.

The weekday in a text is wrong half of the time and must not decide. Every text occurs once, and the calendar's days
are dealt out to the three sets first, so no day of the test set was ever trained on.
"""

from datetime import date
from random import Random
from typing import Literal

from regard.data.generated.dates_english import DateExample, Writer, write_numeric, write_unambiguous
from regard.data.generated.synthetic import disjoint_sets
from regard.errors import InputError

FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2099, 12, 31)
Forms = Literal["unambiguous", "all"]
_SHARES = (0.8, 0.1, 0.1)  # of the calendar's days, to training, validation and test


def generate(sizes: tuple[int, int, int], forms: Forms, seed: int) -> tuple[list[DateExample], ...]:
    """Training, validation and test examples, as many as `sizes` says, with no text and no day in common.

    The test set depends on its size, `forms` and `seed` alone: more training data leaves it as it was.
    Raises InputError when `forms` is "all" and Babel is not installed.
    """
    write = write_unambiguous if forms == "unambiguous" else _writer_of_all()
    days = _dealt_days(seed)

    def make(part: int, random: Random) -> DateExample:
        return write(date.fromordinal(random.choice(days[part])), random)

    return disjoint_sets(sizes, seed, make, "dates")


def _dealt_days(seed: int) -> list[list[int]]:
    """Ordinals of all days, dealt at random to training, validation and test."""
    days = list(range(FIRST_DAY.toordinal(), LAST_DAY.toordinal() + 1))
    Random(f"{seed}/days").shuffle(days)
    first, second = int(len(days) * _SHARES[0]), int(len(days) * (_SHARES[0] + _SHARES[1]))
    return [days[:first], days[first:second], days[second:]]


def _writer_of_all() -> Writer:
    try:
        from regard.data.generated.dates_babel import locale_writer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "babel":
            raise
        raise InputError(
            "dates in all forms need Babel, which is not installed: pip install regard[dates] (or forms: unambiguous)"
        ) from error
    write_local = locale_writer()

    def write(day: date, random: Random) -> DateExample:
        return random.choices((write_unambiguous, write_numeric, write_local), (4, 1, 5))[0](day, random)

    return write
