"""A summary of the data before training: what was read, and what the model sees of it.

`regard train` prints it before the first update and writes it to `data.json` in the run's
folder. Statistics of texts and images are of an evenly spaced sample, so that their cost
is bounded.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from itertools import chain
from statistics import median
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from regard.data.splits import Splits
from regard.errors import InputError, shorten
from regard.images import Image, ImageSurvey, encode_preview, survey_images
from regard.pictures.text import show_invisible
from regard.text import Tokenizer
from regard.text.kinds import WHOLE_WORDS

FILE, GENERATED = "data.json", "generated"
SAMPLE = 1000
"""Largest number of examples of a set of which statistics are computed."""
TOKENS, CLASSES = 24, 8
"""Tokens of the example and classes that are printed."""
CHARACTERS = 2_000
"""Characters of a text that are searched for unknown ones and shown on a page."""
CHARACTERS_READ = 100_000
"""Characters of a text that are counted in tokens."""
WORDS_OF_REQUEST = 6
"""Words of running text that are the example on a page."""
MANY_UNKNOWN = 10.0
"""Unknown words or characters, in percent, that deserve a warning."""
SHRUNK = 4
"""Times an image's side is as long as the model's, if most of its details are lost."""
SeenImages = tuple[tuple[ImageSurvey, str], tuple[str, ...]]
E = TypeVar("E")


@dataclass(frozen=True)
class Rows:
    """The number of examples of a set, and the files that they come from."""

    count: int
    origin: str


@dataclass(frozen=True)
class Lengths:
    """The lengths of a sample of training examples."""

    median: float
    longest: int | float
    cut: float = 0.0
    """The share that the model reads in part, in percent."""

    @classmethod
    def of(cls, lengths: Sequence[int | float]) -> "Lengths":
        """Return the median and the largest of a sample of lengths."""
        sample = sample_evenly(lengths)
        return cls(float(median(sample)), max(sample))

    def __str__(self) -> str:
        cut = f"; {self.cut:.3g} % are cut" if self.cut else ""
        return f"{self.median:,g} (median), {self.longest:,g} (longest){cut}"


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """What training reads."""

    unit: str
    """The name of the examples, in the plural."""
    rows: Mapping[str, Rows]
    """The examples of each set."""
    classes: Mapping[str, int] = field(default_factory=dict)
    """The number of training examples of each class."""
    classified: str = "classes"
    """What to call the classes."""
    labels: str = ""
    """What the training labels are that are no classes."""
    lengths: Mapping[str, Lengths] = field(default_factory=dict)
    """The lengths of the training examples, for each side of them."""
    unknown: Mapping[str, float] = field(default_factory=dict)
    """The share of each set, in percent, that the tokenizer does not know."""
    unknown_unit: str = "characters"
    """What is unknown, words or characters."""
    images: tuple[ImageSurvey, str] | None = None
    """The images before the model's preparation, and after it."""
    example: Mapping[str, str] = field(default_factory=dict)
    """The first training example as the model sees it, a line for each part."""
    request: Mapping[str, str] = field(default_factory=dict)
    """An example by the inputs of the run, for a page (images reduced, as base64)."""
    warnings: tuple[str, ...] = ()
    """What is probably not meant."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with the size of the sample."""
        return asdict(self) | {"sample": SAMPLE}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "DataSummary":
        """Return the summary of what `to_json` gives. Raises InputError for others."""
        try:
            return TypeAdapter(cls).validate_python(values)
        except ValidationError as error:
            message = f"{FILE}: is no summary of data; was it changed?"
            raise InputError(message) from error

    def lines(self) -> list[str]:
        """Return the summary, a line for each part of it."""
        parts = self.parts()
        column = max(map(len, parts))
        return [f"{name:{column}}  {text}" for name, text in parts.items()]

    def parts(self) -> dict[str, str]:
        """Return the parts of the summary by name."""
        width = max(len(f"{rows.count:,}") for rows in self.rows.values())
        parts = {}
        for name, rows in self.rows.items():
            parts[name] = f"{rows.count:{width},} {self.unit}, {rows.origin}"
        if self.classes:
            names = []
            for name, count in self.classes.items():
                names.append(f"{shorten(name)} ({count:,})")
            suffix = ", ..." if len(names) > CLASSES else ""
            first = ", ".join(names[:CLASSES])
            parts[self.classified] = f"{len(names)}: {first}{suffix}"
        if self.labels:
            parts["labels"] = self.labels
        sampled = ""
        if self.lengths and self.rows["train"].count > SAMPLE:
            sampled = f"; of a sample of {SAMPLE:,}"
        for name, lengths in self.lengths.items():
            parts[f"length of {name}"] = f"{lengths}{sampled}"
        if self.unknown:
            shares = []
            for name, share in self.unknown.items():
                shares.append(f"{share:.2g} % in {name}")
            parts[f"unknown {self.unknown_unit}"] = ", ".join(shares)
        if self.images is not None:
            before, after = self.images
            parts["images"] = f"{before} -> {after}"
        for name, text in self.example.items():
            parts[f"first {name}"] = text
        return parts


def join_summaries(summaries: Sequence[DataSummary]) -> DataSummary:
    """Return the summary of examples with several targets, from one for each target."""
    joined: dict[str, Any] = {
        name: {
            key: value
            for summary in summaries
            for key, value in getattr(summary, name).items()
        }
        for name in ("lengths", "unknown", "example")
    }
    warnings = chain.from_iterable(summary.warnings for summary in summaries)
    joined["warnings"] = tuple(dict.fromkeys(warnings))
    return replace(summaries[0], unit="sources", **joined)


def summarize_texts(
    data: Any,
    splits: Splits[E],
    sides: Mapping[str, tuple[Tokenizer, Callable[[E], str]]],
    *,
    unit: str,
    example: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
    warn: bool = True,
    **fields: Any,
) -> DataSummary:
    """Summarize examples of one or several texts.

    Args:
        data: The `data:` section.
        splits: The sets.
        sides: The tokenizer of each text of an example, and what returns the text.
        unit: The name of the examples, in the plural.
        example: Further parts of the example.
        warnings: Further warnings.
        warn: Whether words or characters that a tokenizer does not know are unusual.
        **fields: Further fields of `DataSummary`.
    """
    unknown: dict[str, float] = {}
    lengths = {}
    parts = {}
    messages = list(warnings)
    first_tokenizer, read_first = next(iter(sides.values()))
    for side, (tokenizer, text_of) in sides.items():
        samples = {
            f"{name} {side}": [text_of(item) for item in sample_evenly(examples)]
            for name, examples in splits.by_name.items()
        }
        shares = measure_unknown_shares(tokenizer, samples)
        messages += warn_unknown(tokenizer, shares) if warn else []
        unknown |= shares
        lengths[side] = measure_text_lengths(tokenizer, samples[f"train {side}"])
        ids = tokenizer.encode(text_of(splits.train[0])[:CHARACTERS_READ])
        parts[side] = describe_tokens(tokenizer, ids)
    return DataSummary(
        unit=unit,
        rows=describe_rows(data, splits),
        lengths=lengths,
        unknown=unknown,
        unknown_unit=first_tokenizer.unknown_unit,
        example=parts | dict(example or {}),
        request=request_of(text=read_first(splits.train[0])),
        warnings=tuple(messages),
        **fields,
    )


def summarize_text(data: Any, splits: Splits[str], tokenizer: Tokenizer) -> DataSummary:
    """Return the summary of running text; one whole text is counted in lines."""
    unknown = measure_unknown_shares(tokenizer, splits.by_name)
    first = next(text for text in splits.train if text.strip())[:CHARACTERS]
    rows = describe_rows(data, splits)
    unit = "texts"
    lengths = {}
    if len(splits.train) == 1:
        unit = "lines"
        for name in rows:
            count = sum(text.count("\n") for text in splits.by_name[name])
            rows[name] = replace(rows[name], count=count)
    else:
        lengths["text"] = measure_text_lengths(tokenizer, splits.train)
    return DataSummary(
        unit=unit,
        rows=rows,
        lengths=lengths,
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        example={"text": describe_tokens(tokenizer, tokenizer.encode(first))},
        request={"text": " ".join(first.split()[:WORDS_OF_REQUEST])},
        warnings=tuple(warn_unknown(tokenizer, unknown)),
    )


def sample_evenly(examples: Sequence[E]) -> list[E]:
    """Return at most `SAMPLE` examples, evenly spaced."""
    step = max(1, -(-len(examples) // SAMPLE))
    return [examples[index] for index in range(0, len(examples), step)]


def describe_rows(data: Any, splits: Splits[Any]) -> dict[str, Rows]:
    """Return the size of each set that is not empty, and its files."""
    return {
        name: Rows(len(examples), origin_of(data, name))
        for name, examples in splits.by_name.items()
        if examples
    }


def origin_of(data: Any, name: str) -> str:
    """Return the files that a `data:` section names for a set, or how the set is made."""
    if origin := _list_files(getattr(data, name, None)):
        return origin
    train = _list_files(getattr(data, "train", None))
    seed = getattr(data, "split_seed", None)
    chosen = "" if seed is None else f" by data.split_seed {seed}"
    return f"held out of {train}{chosen}" if train else GENERATED


def _list_files(value: Any) -> str:
    """Return the files of a set; empty for a number of generated examples."""
    if isinstance(value, str):
        return value
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else ""


def measure_unknown_shares(
    tokenizer: Tokenizer, sets: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Return the share of each set that the tokenizer does not know, in percent."""
    shares = {}
    for name, texts in sets.items():
        counts = [tokenizer.unknown(text[:CHARACTERS]) for text in sample_evenly(texts)]
        if counts:
            unknown, total = map(sum, zip(*counts, strict=True))
            shares[name] = 100 * unknown / max(1, total)
    return shares


def warn_unknown(tokenizer: Tokenizer, shares: Mapping[str, float]) -> list[str]:
    """Return a warning for each set that is often unknown to the tokenizer."""
    reason = "are unknown to the tokenizer; check language and encoding of its files"
    if tokenizer.settings.kind in WHOLE_WORDS:
        reason = (
            "are not in the vocabulary; more training text, a larger size or a lower "
            "minimum_count adds words"
        )
    return [
        f"{share:.0f} % of the {tokenizer.unknown_unit} of {name} {reason}"
        for name, share in shares.items()
        if share > MANY_UNKNOWN
    ]


def describe_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the first tokens of an example, and how many there are."""
    return abridge(tokenizer.pieces(ids[:TOKENS]), len(ids))


def abridge(labels: Sequence[str], count: int) -> str:
    """Return the first labels of `count`, separated by spaces."""
    suffix = f" ... ({count:,} tokens)" if count > TOKENS else ""
    return " ".join(map(show_invisible, labels[:TOKENS])) + suffix


def request_of(**inputs: str) -> dict[str, str]:
    """Return the inputs of an example, or none where a text is too long for a page."""
    return {} if max(map(len, inputs.values())) > CHARACTERS else inputs


def encode_for_request(image: Image) -> str:
    """Return an image as a request has it, reduced.

    Empty without Pillow, which arrays do not need.

    Raises:
        InputError: An image that cannot be read.
    """
    return b64encode(encode_preview(image)).decode() if find_spec("PIL") else ""


def measure_text_lengths(tokenizer: Tokenizer, texts: Sequence[str]) -> Lengths:
    """Return the lengths in tokens of a sample of texts.

    Of a text beyond `CHARACTERS_READ` it is an estimate from its beginning.
    """
    lengths = []
    for text in sample_evenly(texts):
        part = text[:CHARACTERS_READ]
        tokens = len(tokenizer.encode(part))
        lengths.append(round(tokens * len(text) / max(1, len(part))))
    return Lengths.of(lengths)


def describe_images(
    images: Sequence[Image],
    side: int,
    channels: int,
    key: str = "model.image",
    *,
    cropped: bool = False,
) -> SeenImages:
    """Describe a sample of images before and after the model's preparation.

    Args:
        images: The images.
        side: The side of an image in the model.
        channels: Its channels.
        key: The run file's key of the side.
        cropped: Whether the middle of oblong images is read.

    Returns:
        The images, with a warning where colors or most of the pixels are lost.
    """
    before = survey_images(sample_evenly(images))
    middle = ", the middle square" if cropped and before.is_oblong else ""
    after = f"{side} x {side}, {'gray' if channels == 1 else 'color'}{middle}"
    gray = before.coloured and channels == 1
    if not gray and min(before.least) <= SHRUNK * side:
        return (before, after), ()
    colors = "model.channels=3 keeps colors, " if gray else ""
    warning = f"images of {before} become {after}: {colors}a larger {key} keeps details"
    return (before, after), (warning,)


def count_classes(labels: Iterable[str] | Mapping[str, int]) -> dict[str, int]:
    """Return how often each class occurs, or is counted, the most frequent first."""
    return dict(Counter(labels).most_common())
