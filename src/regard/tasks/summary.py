"""A summary of the data before training: what was read, and what the model sees of it.

`regard train` prints it before the first update and keeps it as `data.json` in the run's folder. Statistics of texts
and images are of an evenly spaced sample, so that their cost is bounded.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.util import find_spec
from statistics import median
from typing import Any, TypeVar

from regard.data.splits import Splits
from regard.errors import InputError, shortened
from regard.images import Image
from regard.images.preview import preview
from regard.images.survey import Survey, survey
from regard.pictures.labels import visible
from regard.text import Tokenizer
from regard.text.kind import WHOLE_WORDS

BEGINNING = 6
"""The words of running text that are the example on a page."""
LONGEST_REQUEST = 2_000
"""The most characters of a text of the example on a page."""
FILE, GENERATED = "data.json", "generated"
SAMPLE = 1000
"""The most examples of a set of which statistics are computed."""
SHOWN, LABELS, CHARACTERS, MANY_UNKNOWN = 24, 8, 2000, 10.0
"""Tokens of the example and classes that are printed; characters of a text that are searched for unknown ones; per cent
of them that are worth a warning."""
CHARACTERS_READ, SHRUNK = 100_000, 4
"""Characters of a text that are counted in tokens; how many times as long an image's side is as the model's, if most of
its details are lost."""
SeenImages = tuple[tuple[Survey, str], tuple[str, ...]]
E = TypeVar("E")


@dataclass(frozen=True)
class Rows:
    """The number of examples of a set, and the files that they come from."""

    count: int
    origin: str


@dataclass(frozen=True)
class Lengths:
    """The median and the largest length of a sample of training examples, and the share that is cut, in per cent."""

    median: float
    longest: int | float
    cut: float = 0.0

    @classmethod
    def of(cls, lengths: Sequence[int | float], limit: int | None = None) -> "Lengths":
        """Those of a sample of `lengths`; the ones above `limit` are cut."""
        some = sampled(lengths)
        cut = 0 if limit is None else sum(each > limit for each in some)
        return cls(float(median(some)), max(some), 100 * cut / len(some))

    def __str__(self) -> str:
        cut = f"; {self.cut:.3g} % are cut" if self.cut else ""
        return f"{self.median:,g} (median), {self.longest:,g} (longest){cut}"


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """What training reads.

    unit: the name of an example, in the plural.
    rows: each set's examples.
    classes: the number of training examples of each class, called `classified`.
    labels: what the training labels are that are no classes.
    lengths: of the training examples, for each side of them.
    unknown: the share of the `unknown_unit`, words or characters, of each set, in per cent, that the tokenizer does not
        know.
    images: the images before the model's preparation, and after it.
    example: the first training example as the model sees it, a line for each part.
    request: the same as a request has it, by the inputs of the run, for a page (images reduced, as base64); empty for
        a long text.
    warnings: what is probably not meant.
    """

    unit: str
    rows: Mapping[str, Rows]
    classes: Mapping[str, int] = field(default_factory=dict)
    classified: str = "classes"
    labels: str = ""
    lengths: Mapping[str, Lengths] = field(default_factory=dict)
    unknown: Mapping[str, float] = field(default_factory=dict)
    unknown_unit: str = "characters"
    images: tuple[Survey, str] | None = None
    example: Mapping[str, str] = field(default_factory=dict)
    request: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON, with the size of the sample."""
        return asdict(self) | {"sample": SAMPLE}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "DataSummary":
        """The summary of the values that `to_json` gives. Raises InputError for others."""
        try:
            return cls._of_json(values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{FILE}: is no summary of data; was it changed?"
            ) from error

    @classmethod
    def _of_json(cls, values: Mapping[str, Any]) -> "DataSummary":
        images: Any = values.get("images")
        if images:
            seen, after = images
            images = (
                Survey(tuple(seen["least"]), tuple(seen["largest"]), seen["coloured"]),
                after,
            )
        parsed = {
            "rows": {name: Rows(**each) for name, each in values["rows"].items()},
            "lengths": {
                name: Lengths(**each) for name, each in values["lengths"].items()
            },
            "images": images,
            "warnings": tuple(values["warnings"]),
        }
        return cls(
            **{
                each.name: values[each.name]
                for each in fields(cls)
                if each.name in values
            }
            | parsed
        )

    def lines(self) -> list[str]:
        """The summary, a line for each part of it."""
        parts = self.parts()
        column = max(map(len, parts))
        return [f"{name:{column}}  {text}" for name, text in parts.items()]

    def parts(self) -> dict[str, str]:
        """The parts of the summary by name."""
        width = max(len(f"{each.count:,}") for each in self.rows.values())
        found = [
            (
                name,
                f"{each.count:{width},} {numbered(self.unit, each.count)}, {each.origin}",
            )
            for name, each in self.rows.items()
        ]
        if self.classes:
            found.append((self.classified, _counted(self.classes)))
        if self.labels:
            found.append(("labels", self.labels))
        some = (
            f"; of a sample of {SAMPLE:,}" if self.rows["train"].count > SAMPLE else ""
        )
        found += [
            (f"length of {name}", f"{each}{some}")
            for name, each in self.lengths.items()
        ]
        if self.unknown:
            shares = ", ".join(
                f"{share:.2g} % in {name}"
                for name, share in self.unknown.items()
                if share
            )
            found.append((f"unknown {self.unknown_unit}", shares or "none"))
        if self.images is not None:
            found.append(("images", f"{self.images[0]} -> {self.images[1]}"))
        found += [(f"first {name}", text) for name, text in self.example.items()]
        return dict(found)


def joined(several: Sequence[DataSummary]) -> DataSummary:
    """The summary of examples with several targets, from one for each target."""
    first = several[0]
    return replace(
        first,
        unit="sources",
        lengths={name: each for one in several for name, each in one.lengths.items()},
        unknown={name: each for one in several for name, each in one.unknown.items()},
        example={name: each for one in several for name, each in one.example.items()},
        warnings=tuple(
            dict.fromkeys(warning for one in several for warning in one.warnings)
        ),
    )


def sampled(examples: Sequence[E]) -> list[E]:
    """At most `SAMPLE` examples, evenly spaced."""
    step = max(1, -(-len(examples) // SAMPLE))
    return [examples[place] for place in range(0, len(examples), step)]


def rows(data: Any, splits: Splits[Any]) -> dict[str, Rows]:
    """The examples of each set that has some, with the files that a `data:` section names for it."""
    return {
        name: Rows(len(each), origin_of(data, name))
        for name, each in splits.named.items()
        if each
    }


def origin_of(data: Any, name: str) -> str:
    """The files that a `data:` section names for a set, or how the set is made."""
    listed = getattr(data, "listed", {}).get(name)
    if found := _origin(getattr(data, name, None) or listed):
        return found
    train, seed = (
        _origin(getattr(data, "train", None)),
        getattr(data, "split_seed", None),
    )
    chosen = "" if seed is None else f" by data.split_seed {seed}"
    return f"held out of {train}{chosen}" if train else GENERATED


def unknown_share(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """The share of the words or characters of a sample of texts that the tokenizer does not know, in per cent."""
    counts = [tokenizer.unknown(text[:CHARACTERS]) for text in sampled(texts)]
    return (
        100
        * sum(unknown for unknown, _ in counts)
        / max(1, sum(count for _, count in counts))
    )


def unknown_shares(
    tokenizer: Tokenizer, sets: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """`unknown_share` of each set that has texts."""
    return {
        name: unknown_share(tokenizer, texts)
        for name, texts in sets.items()
        if len(texts)
    }


def unknown_warnings(tokenizer: Tokenizer, shares: Mapping[str, float]) -> list[str]:
    """A warning for each set whose words or characters are often unknown to the tokenizer."""
    reason, unit = (
        "are unknown to the tokenizer; check language and encoding of its files",
        tokenizer.unknown_unit,
    )
    if tokenizer.settings.kind in WHOLE_WORDS:
        reason = "are not in the vocabulary; more training text, a larger size or a lower minimum_count adds words"
    often = {name: share for name, share in shares.items() if share > MANY_UNKNOWN}
    return [
        f"{share:.0f} % of the {unit} of {name} {reason}"
        for name, share in often.items()
    ]


def pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The first tokens of an example, with blanks between, and how many there are."""
    return abridged(tokenizer.pieces(ids[:SHOWN]), len(ids))


def request_of(**inputs: str) -> dict[str, str]:
    """The inputs of an example, or none where a text is too long to be read at a glance."""
    return {} if max(map(len, inputs.values())) > LONGEST_REQUEST else inputs


def sent(image: Image) -> str:
    """An image as a request has it, reduced; empty without Pillow, which arrays do not need. Raises InputError for an
    image that cannot be read."""
    return b64encode(preview(image)).decode() if find_spec("PIL") else ""


def abridged(labels: Sequence[str], count: int) -> str:
    """Some labels with blanks between, of `count` altogether."""
    more = f" ... ({count:,} tokens)" if count > SHOWN else ""
    return " ".join(map(visible, labels[:SHOWN])) + more


def text_lengths(
    tokenizer: Tokenizer, texts: Sequence[str], limit: int | None = None
) -> Lengths:
    """The lengths in tokens of a sample of texts; of a text beyond `CHARACTERS_READ` an estimate from its beginning."""
    found = []
    for text in sampled(texts):
        part = text[:CHARACTERS_READ]
        found.append(round(len(tokenizer.encode(part)) * len(text) / max(1, len(part))))
    return Lengths.of(found, limit)


def running_text(data: Any, splits: Splits[str], tokenizer: Tokenizer) -> DataSummary:
    """The summary of running text; one whole text is counted in lines."""
    unknown, found, whole = (
        unknown_shares(tokenizer, splits.named),
        rows(data, splits),
        len(splits.train) == 1,
    )
    first = next(text for text in splits.train if text.strip())
    if whole:
        lines = {
            name: sum(text.count("\n") for text in splits.named[name]) for name in found
        }
        found = {name: replace(each, count=lines[name]) for name, each in found.items()}
    return DataSummary(
        unit="lines" if whole else "texts",
        rows=found,
        lengths={} if whole else {"text": text_lengths(tokenizer, splits.train)},
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        example={"text": pieces(tokenizer, tokenizer.encode(first[:CHARACTERS]))},
        request={"text": " ".join(first[:CHARACTERS].split()[:BEGINNING])},
        warnings=tuple(unknown_warnings(tokenizer, unknown)),
    )


def images_seen(
    images: Sequence[Image],
    side: int,
    channels: int,
    key: str = "model.image",
    *,
    cropped: bool = False,
) -> SeenImages:
    """A sample of images before and after the model's preparation, with a warning where colours or most of the pixels
    are lost. `key` is the run file's key of the side; of oblong images that are `cropped` the middle is seen."""
    before = survey(sampled(images))
    middle = ", the middle square" if cropped and before.oblong else ""
    after = f"{side} x {side}, {'grey' if channels == 1 else 'colour'}{middle}"
    grey = before.coloured and channels == 1
    if not grey and min(before.least) <= SHRUNK * side:
        return (before, after), ()
    remedies = [
        *(["model.channels=3 keeps colours"] if grey else []),
        f"a larger {key} keeps details",
    ]
    return (before, after), (
        f"images of {before} become {after}: {', '.join(remedies)}",
    )


def numbered(unit: str, count: int) -> str:
    """The name of so many examples: "pairs of texts", of one "pair of texts"."""
    name, *rest = unit.split(" ")
    return " ".join([name.removesuffix("s") if count == 1 else name, *rest])


def class_counts(labels: Iterable[str]) -> dict[str, int]:
    """How often each class occurs, the most frequent first."""
    return most_common(Counter(labels))


def most_common(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts with the largest first."""
    return dict(Counter(counts).most_common())


def _counted(classes: Mapping[str, int]) -> str:
    shown = ", ".join(
        f"{shortened(name)} ({count:,})"
        for name, count in list(classes.items())[:LABELS]
    )
    more = f", and {len(classes) - LABELS} more" if len(classes) > LABELS else ""
    return f"{len(classes)}: {shown}{more}"


def _origin(value: Any) -> str:
    """The files of a set; empty for a set without files, whose examples are counted."""
    if isinstance(value, str):
        return value
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else ""
