"""The English forms of a date."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from random import Random

MONTHS = ("January", "February", "March", "April", "May", "June",
          "July", "August", "September", "October", "November", "December")  # fmt: skip
WEEKDAYS = (
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
)

# {d} 9  {dd} 09  {th} 9th  {month} May  {mon} Sep, Sep. or Sept.  {short} Sep  {m} 5  {mm} 05  {y} 2018  {yy} 18
# {weekday} Saturday  {wd} Sat, Sat. or the like. Commas may be left out.
PATTERNS = (
    "{d} {month} {y}",
    "{dd} {month} {y}",
    "{d} {month}, {y}",
    "{th} {month} {y}",
    "{th} of {month} {y}",
    "the {th} of {month}, {y}",
    "{month} {d}, {y}",
    "{month} {dd}, {y}",
    "{month} {th}, {y}",
    "{month} the {th}, {y}",
    "{d} {mon} {y}",
    "{dd} {mon} {y}",
    "{th} {mon} {y}",
    "{mon} {d}, {y}",
    "{mon} {th}, {y}",
    "{d}-{short}-{y}",
    "{dd}/{short}/{y}",
    "{dd}{short}{y}",
    "{y} {month} {d}",
    "{y}, {mon} {dd}",
    "{y}-{short}-{dd}",
    "{y}-{mm}-{dd}",
    "{y}/{mm}/{dd}",
    "{y}{mm}{dd}",
    "{weekday} {dd} {month} {y}",
    "{weekday}, {d} {month} {y}",
    "{weekday}, {month} {d}, {y}",
    "{weekday}, {th} of {month} {y}",
    "{weekday} the {th} of {month}, {y}",
    "{weekday}, {mon} {th}, {y}",
    "{wd}, {d} {mon} {y}",
    "{wd} {dd} {mon} {y}",
    "{wd}, {month} {d}, {y}",
    "{wd} {th} {month} {y}",
    "{wd}, {y}-{mm}-{dd}",
    "{month} {d}, {y} ({weekday})",
    "{d} {month} {y}, {weekday}",
    "{y}-{mm}-{dd} ({wd})",
)
# Ambiguous without the writer's country or the century
NUMERIC_PATTERNS = (
    "{d}/{m}/{y}",
    "{m}/{d}/{y}",
    "{dd}/{mm}/{y}",
    "{mm}/{dd}/{y}",
    "{dd}.{mm}.{y}",
    "{mm}-{dd}-{y}",
    "{dd}-{mm}-{y}",
    "{d}.{m}.{yy}",
    "{m}/{d}/{yy}",
    "{dd}/{mm}/{yy}",
    "{yy}/{mm}/{dd}",
    "{d} {month} '{yy}",
    "{weekday} {dd}.{mm}.{yy}",
)

_LONGER = {
    "September": ("Sept",),
    "Tuesday": ("Tues",),
    "Thursday": ("Thur", "Thurs"),
}  # alternatives to three letters
_CASES: tuple[Callable[[str], str], ...] = (
    str,
    str,
    str.lower,
    str.upper,
)  # as written half of the time


@dataclass(frozen=True)
class DateExample:
    """A date in free form and as `YYYY-MM-DD`. `ambiguous`: the text has more than one reading."""

    text: str
    iso: str
    pattern: str
    ambiguous: bool


Writer = Callable[[date, Random], DateExample]


def write_unambiguous(day: date, random: Random) -> DateExample:
    """Write the day in one of PATTERNS, with varied case, commas and abbreviations."""
    pattern = random.choice(PATTERNS)
    return DateExample(_written(day, random, pattern), day.isoformat(), pattern, False)


def write_numeric(day: date, random: Random) -> DateExample:
    """Write the day in one of NUMERIC_PATTERNS."""
    pattern = random.choice(NUMERIC_PATTERNS)
    ambiguous = "{yy}" in pattern or day_and_month_may_swap(day)
    return DateExample(
        _written(day, random, pattern), day.isoformat(), pattern, ambiguous
    )


def day_and_month_may_swap(day: date) -> bool:
    """Whether day and month in digits can be swapped to give another valid date."""
    return day.day <= 12 and day.day != day.month


def written_weekday(day: date, random: Random) -> int:
    """The weekday to write (Monday is 0): the right one half of the time, else one of the other six."""
    return (day.weekday() + (random.randint(1, 6) if random.random() < 0.5 else 0)) % 7


def _written(day: date, random: Random, pattern: str) -> str:
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[written_weekday(day, random)]
    text = pattern.format(
        d=day.day,
        dd=f"{day.day:02}",
        th=_ordinal(day.day),
        m=day.month,
        mm=f"{day.month:02}",
        month=month,
        mon=_abbreviated(month, random),
        short=month[:3],
        y=day.year,
        yy=f"{day.year % 100:02}",
        weekday=weekday,
        wd=_abbreviated(weekday, random),
    )
    if random.random() < 0.3:
        text = text.replace(",", "")
    return random.choice(_CASES)(text)


def _ordinal(number: int) -> str:
    ending = (
        "th"
        if 11 <= number <= 13
        else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{number}{ending}"


def _abbreviated(name: str, random: Random) -> str:
    short = random.choice((name[:3], *_LONGER.get(name, ())))
    return short if short == name else short + random.choice(("", "."))
