"""Generated dates in free form and their ISO form."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cache
from random import Random
from typing import Literal

from babel import Locale
from babel.dates import DateTimeFormat, tokenize_pattern
from babel.localedata import locale_identifiers

from regard.data.generated.synthetic import disjoint_sets
from regard.errors import InputError
from regard.extras import how_to_install

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


_LENGTHS = ("short", "medium", "long", "full")
_WIDTHS = {3: "abbreviated", 4: "wide", 5: "narrow"}


@dataclass(frozen=True)
class Form:
    """A form of a date: literal text and (letter, count) fields as in Unicode TR 35."""

    locale: Locale
    label: str
    parts: tuple[str | tuple[str, int], ...]
    months: tuple[str, ...]
    """Names of the twelve months; empty when the month is in digits."""
    short_year: bool
    year_first: bool


def locale_writer() -> Writer:
    """A writer that chooses a language, then one of its forms."""
    languages: dict[str, list[Form]] = {}
    for form in locale_forms():
        languages.setdefault(form.locale.language, []).append(form)
    forms = [languages[name] for name in sorted(languages)]
    unclear = _unclear_names([form for several in forms for form in several])

    def write(day: date, random: Random) -> DateExample:
        form = random.choice(random.choice(forms))
        text = _spell_number(day, form, random)
        return DateExample(
            text, day.isoformat(), form.label, _is_ambiguous(day, form, unclear)
        )

    return write


@cache
def locale_forms() -> tuple[Form, ...]:
    """Every distinct form, in a fixed order. Forms that look the same in several locales occur once."""
    forms: dict[tuple[object, ...], Form] = {}
    for name in sorted(locale_identifiers()):
        locale = Locale.parse(name)
        for length in _LENGTHS:
            pattern = locale.date_formats[length].pattern
            form = _form(locale, f"{name} {length}: {pattern}", pattern)
            if form:
                forms.setdefault(_appearance(form), form)
    return tuple(forms.values())


def _appearance(form: Form) -> tuple[object, ...]:
    """Everything that determines the form's text."""
    letters = {part[0] for part in form.parts if isinstance(part, tuple)}
    weekdays = _weekdays(form.locale) if letters & {"E", "c"} else ()
    return (
        form.parts,
        form.months,
        weekdays,
        form.locale.eras["abbreviated"][1] if "G" in letters else "",
    )


def _form(locale: Locale, label: str, pattern: str) -> Form | None:
    parts = tuple(value for _, value in tokenize_pattern(pattern))
    fields = [part for part in parts if isinstance(part, tuple)]
    counts = dict(fields)
    month = counts.get("M", counts.get("L", 0))
    if not (month and "d" in counts and "y" in counts):
        return None
    names = _month_names(locale, month) if month >= 3 else ()
    order = [letter for letter, _ in fields if letter in "yMLd"]
    return Form(locale, label, parts, names, counts["y"] == 2, order[0] == "y")


def _month_names(locale: Locale, count: int) -> tuple[str, ...]:
    names = locale.months["format"][_WIDTHS[count]]
    found = tuple(names[number] for number in range(1, 13))
    return found if any(letter.isalpha() for letter in found[0]) else ()


def _weekdays(locale: Locale) -> tuple[str, ...]:
    names = locale.days["format"]
    return tuple(
        names[width][number] for width in ("abbreviated", "wide") for number in range(7)
    )


def _unclear_names(forms: list[Form]) -> set[tuple[str, int]]:
    """(Name, month) pairs whose name means another month elsewhere, as listopad does in Czech and Croatian.

    English names count as clear: May is May, whatever it means in a rare language.
    """
    meanings: dict[str, set[int]] = {}
    for form in forms:
        for number, name in enumerate(form.months, 1):
            meanings.setdefault(_plain(name), set()).add(number)
    english = {
        (name[:width].lower(), number)
        for number, name in enumerate(MONTHS, 1)
        for width in (3, None)
    }
    several = {
        (name, number)
        for name, numbers in meanings.items()
        if len(numbers) > 1
        for number in numbers
    }
    return several - english


def _plain(name: str) -> str:
    return name.lower().rstrip(".")


def _is_ambiguous(day: date, form: Form, unclear: set[tuple[str, int]]) -> bool:
    if form.short_year:
        return True
    if form.months:
        return (_plain(form.months[day.month - 1]), day.month) in unclear
    return not form.year_first and day_and_month_may_swap(day)


def _spell_number(day: date, form: Form, random: Random) -> str:
    right = DateTimeFormat(day, form.locale)
    weekday = DateTimeFormat(
        date(2001, 1, 1 + written_weekday(day, random)), form.locale
    )  # the 1st was a Monday
    written = []
    for part in form.parts:
        if isinstance(part, str):
            written.append(part)
        else:
            letter, count = part
            written.append((weekday if letter in "Ec" else right)[letter * count])
    return "".join(written)


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
        from regard.data.generated.dates import locale_writer
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
