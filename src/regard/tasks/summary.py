"""A summary of the data before training: what was read, and what the model sees of it.

`regard train` prints it before the first update and keeps it as `data.json` in the run's folder. Statistics of texts
and images are of an evenly spaced sample, so that their cost is bounded."""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.util import find_spec
from statistics import median
from typing import Any, TypeVar

from regard.data.cache import CachedSet
from regard.data.splits import Splits
from regard.errors import InputError, shorten
from regard.images import Image, ImageSurvey, encode_preview, survey_images
from regard.pictures.text import show_invisible
from regard.text import Tokenizer
from regard.text.kinds import WHOLE_WORDS

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
SeenImages = tuple[tuple[ImageSurvey, str], tuple[str, ...]]
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
        """Return those of a sample of `lengths`; the ones above `limit` are cut."""
        group = sample_evenly(lengths)
        cut = 0 if limit is None else sum(item > limit for item in group)
        return cls(float(median(group)), max(group), 100 * cut / len(group))

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
    images: tuple[ImageSurvey, str] | None = None
    example: Mapping[str, str] = field(default_factory=dict)
    request: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON, with the size of the sample."""
        return asdict(self) | {"sample": SAMPLE}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "DataSummary":
        """Return the summary of the values that `to_json` gives.

        Raises:
            InputError: Others.
        """
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
            visible, after = images
            images = (
                ImageSurvey(
                    tuple(visible["least"]),
                    tuple(visible["largest"]),
                    visible["coloured"],
                ),
                after,
            )
        parsed = {
            "rows": {name: Rows(**item) for name, item in values["rows"].items()},
            "lengths": {
                name: Lengths(**example) for name, example in values["lengths"].items()
            },
            "images": images,
            "warnings": tuple(values["warnings"]),
        }
        return cls(
            **{
                entry.name: values[entry.name]
                for entry in fields(cls)
                if entry.name in values
            }
            | parsed
        )

    def lines(self) -> list[str]:
        """Return the summary, a line for each part of it."""
        parts = self.parts()
        column = max(map(len, parts))
        return [f"{name:{column}}  {text}" for name, text in parts.items()]

    def parts(self) -> dict[str, str]:
        """Return the parts of the summary by name."""
        width = max(len(f"{row.count:,}") for row in self.rows.values())
        results = [
            (
                name,
                f"{item.count:{width},} {format_unit(self.unit, item.count)}, {item.origin}",
            )
            for name, item in self.rows.items()
        ]
        if self.classes:
            results.append((self.classified, _format_counts(self.classes)))
        if self.labels:
            results.append(("labels", self.labels))
        group = (
            f"; of a sample of {SAMPLE:,}" if self.rows["train"].count > SAMPLE else ""
        )
        results += [
            (f"length of {name}", f"{example}{group}")
            for name, example in self.lengths.items()
        ]
        if self.unknown:
            shares = ", ".join(
                f"{share:.2g} % in {name}"
                for name, share in self.unknown.items()
                if share
            )
            results.append((f"unknown {self.unknown_unit}", shares or "none"))
        if self.images is not None:
            results.append(("images", f"{self.images[0]} -> {self.images[1]}"))
        results += [(f"first {name}", text) for name, text in self.example.items()]
        return dict(results)


def join_summaries(summaries: Sequence[DataSummary]) -> DataSummary:
    """Return the summary of examples with several targets, from one for each target."""
    lengths: dict[str, Lengths] = {}
    unknown: dict[str, float] = {}
    example: dict[str, str] = {}
    warnings: dict[str, None] = {}
    for summary in summaries:
        lengths.update(summary.lengths)
        unknown.update(summary.unknown)
        example.update(summary.example)
        warnings.update(dict.fromkeys(summary.warnings))
    return replace(
        summaries[0],
        unit="sources",
        lengths=lengths,
        unknown=unknown,
        example=example,
        warnings=tuple(warnings),
    )


def sample_evenly(examples: Sequence[E]) -> list[E]:
    """Return at most `SAMPLE` examples, evenly spaced."""
    step = max(1, -(-len(examples) // SAMPLE))
    return [examples[place] for place in range(0, len(examples), step)]


def describe_rows(data: Any, splits: Splits[Any]) -> dict[str, Rows]:
    """The examples of each set that has some, with the files that a `data:` section names for it."""
    return {
        name: Rows(len(item), origin_of(data, name))
        for name, item in splits.named.items()
        if item
    }


def origin_of(data: Any, name: str) -> str:
    """Return the files that a `data:` section names for a set, or how the set is made."""
    listed = getattr(data, "listed", {}).get(name)
    if result := _origin(getattr(data, name, None) or listed):
        return result
    train, seed = (
        _origin(getattr(data, "train", None)),
        getattr(data, "split_seed", None),
    )
    chosen = "" if seed is None else f" by data.split_seed {seed}"
    return f"held out of {train}{chosen}" if train else GENERATED


def measure_unknown(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """The share of the words or characters of a sample of texts that the tokenizer does not know, in per cent."""
    counts = [tokenizer.unknown(text[:CHARACTERS]) for text in sample_evenly(texts)]
    return (
        100
        * sum(unknown for unknown, _ in counts)
        / max(1, sum(count for _, count in counts))
    )


def measure_unknown_shares(
    tokenizer: Tokenizer, sets: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """`measure_unknown` of each set that has texts."""
    return {
        name: measure_unknown(tokenizer, texts)
        for name, texts in sets.items()
        if len(texts)
    }


def warn_unknown(tokenizer: Tokenizer, shares: Mapping[str, float]) -> list[str]:
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


def describe_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The first tokens of an example, with blanks between, and how many there are."""
    return abridge(tokenizer.pieces(ids[:SHOWN]), len(ids))


def request_of(**inputs: str) -> dict[str, str]:
    """The inputs of an example, or none where a text is too long to be read at a glance."""
    return {} if max(map(len, inputs.values())) > LONGEST_REQUEST else inputs


def encode_for_request(image: Image) -> str:
    """Return an image as a request has it, reduced.

    Empty without Pillow, which arrays do not need.

    Raises:
        InputError: An image that cannot be read.
    """
    return b64encode(encode_preview(image)).decode() if find_spec("PIL") else ""


def abridge(labels: Sequence[str], count: int) -> str:
    """Return some labels with blanks between, of `count` altogether."""
    extra = f" ... ({count:,} tokens)" if count > SHOWN else ""
    return " ".join(map(show_invisible, labels[:SHOWN])) + extra


def measure_text_lengths(
    tokenizer: Tokenizer, texts: Sequence[str], limit: int | None = None
) -> Lengths:
    """Return the lengths in tokens of a sample of texts.

    Of a text beyond `CHARACTERS_READ` an estimate from its beginning.
    """
    results = []
    for text in sample_evenly(texts):
        part = text[:CHARACTERS_READ]
        results.append(
            round(len(tokenizer.encode(part)) * len(text) / max(1, len(part)))
        )
    return Lengths.of(results, limit)


def summarize_text(data: Any, splits: Splits[str], tokenizer: Tokenizer) -> DataSummary:
    """Return the summary of running text; one whole text is counted in lines."""
    unknown, result, full = (
        measure_unknown_shares(tokenizer, splits.named),
        describe_rows(data, splits),
        len(splits.train) == 1,
    )
    first = next(text for text in splits.train if text.strip())
    if full:
        lines = {
            name: sum(text.count("\n") for text in splits.named[name])
            for name in result
        }
        result = {
            name: replace(item, count=lines[name]) for name, item in result.items()
        }
    return DataSummary(
        unit="lines" if full else "texts",
        rows=result,
        lengths={} if full else {"text": measure_text_lengths(tokenizer, splits.train)},
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        example={
            "text": describe_tokens(tokenizer, tokenizer.encode(first[:CHARACTERS]))
        },
        request={"text": " ".join(first[:CHARACTERS].split()[:BEGINNING])},
        warnings=tuple(warn_unknown(tokenizer, unknown)),
    )


def describe_images(
    images: Sequence[Image],
    side: int,
    channels: int,
    key: str = "model.image",
    *,
    cropped: bool = False,
) -> SeenImages:
    """A sample of images before and after the model's preparation, with a warning where colors or most of the pixels
    are lost. `key` is the run file's key of the side; of oblong images that are `cropped` the middle is seen."""
    before = survey_images(sample_evenly(images))
    middle = ", the middle square" if cropped and before.is_oblong else ""
    after = f"{side} x {side}, {'gray' if channels == 1 else 'color'}{middle}"
    gray = before.coloured and channels == 1
    if not gray and min(before.least) <= SHRUNK * side:
        return (before, after), ()
    remedies = [
        *(["model.channels=3 keeps colors"] if gray else []),
        f"a larger {key} keeps details",
    ]
    return (before, after), (
        f"images of {before} become {after}: {', '.join(remedies)}",
    )


def format_unit(unit: str, count: int) -> str:
    """Return the name of so many examples: "pairs of texts", of one "pair of texts"."""
    name, *remainder = unit.split(" ")
    return " ".join([name.removesuffix("s") if count == 1 else name, *remainder])


def count_classes(labels: Iterable[str]) -> dict[str, int]:
    """Return how often each class occurs, the most frequent first."""
    return sort_counts(Counter(labels))


def sort_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts with the largest first."""
    return dict(Counter(counts).most_common())


def _format_counts(classes: Mapping[str, int]) -> str:
    visible = ", ".join(
        f"{shorten(name)} ({count:,})" for name, count in list(classes.items())[:LABELS]
    )
    extra = f", and {len(classes) - LABELS} more" if len(classes) > LABELS else ""
    return f"{len(classes)}: {visible}{extra}"


def _origin(value: Any) -> str:
    """Return the files of a set.

    Empty for a set without files, whose examples are counted.
    """
    if isinstance(value, str):
        return value
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else ""


MOST = 200_000
"""The most training examples that are searched."""
MANY = 0.01
"""The share of a set from which on a warning is worth reading: short texts may be equal by chance."""


def warn_repeated(
    data: Any, splits: Splits[E], key: Callable[[E], Hashable]
) -> list[str]:
    """A warning for each set that is held out and has many inputs, by their `key`, of the training set. Sets on disk,
    large ones and generated ones are not searched."""
    if (
        isinstance(splits.train, CachedSet)
        or len(splits.train) > MOST
        or origin_of(data, "train") == GENERATED
    ):
        return []
    allowed, result = {hash(key(item)) for item in splits.train}, []
    for name, examples in (("valid", splits.valid), ("test", splits.test)):
        count = sum(hash(key(example)) in allowed for example in examples)
        if count > MANY * len(examples):
            share = (
                f"{count:,} of {len(examples):,} ({100 * count / len(examples):.3g} %)"
            )
            result.append(
                f"{share} examples of {name} have an input that is also in train, so its figures are too good"
            )
    return result
