"""A summary of the data before training: what was read, and what the model sees of it.

`regard train` prints it before the first update and writes it to `data.json` in the run's
folder. Statistics of texts and images are of an evenly spaced sample, so that their cost
is bounded.
"""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from itertools import chain
from statistics import median
from typing import Any, TypeVar
from unicodedata import normalize

from regard.data.splits import Splits
from regard.errors import shorten
from regard.images import Image, ImageSurvey, encode_preview, survey_images
from regard.pictures.text import show_invisible
from regard.tasks.options import Json
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

    def to_json(self) -> Json:
        """Return plain values for JSON, with the size of the sample."""
        return asdict(self) | {"sample": SAMPLE}

    def lines(self) -> list[str]:
        """Return the summary, a line for each part of it."""
        parts = self.parts()
        column = max(map(len, parts))
        return [f"{name:{column}}  {text}" for name, text in parts.items()]

    def parts(self) -> dict[str, str]:
        """Return the parts of the summary by name."""
        width = max(len(f"{rows.count:,}") for rows in self.rows.values())
        parts = {
            name: f"{rows.count:{width},} {agree(self.unit, rows.count)}, {rows.origin}"
            for name, rows in self.rows.items()
        }
        if self.classes:
            names = [
                f"{shorten(name)} ({count:,})" for name, count in self.classes.items()
            ]
            first = ", ".join(names[:CLASSES] + ["..."] * (len(names) > CLASSES))
            parts[self.classified] = f"{len(names)}: {first}"
        if self.labels:
            parts["labels"] = self.labels
        is_sample = self.rows["train"].count > SAMPLE
        sampled = f"; of a sample of {SAMPLE:,}" if is_sample else ""
        for name, lengths in self.lengths.items():
            parts[f"length of {name}"] = f"{lengths}{sampled}"
        if self.unknown:
            shares = [
                f"{share:.2g} % in {name}" for name, share in self.unknown.items()
            ]
            parts[f"unknown {self.unknown_unit}"] = ", ".join(shares)
        if self.images is not None:
            parts["images"] = " -> ".join(map(str, self.images))
        return parts | {f"first {name}": text for name, text in self.example.items()}


def agree(unit: str, count: int) -> str:
    """Return a unit in the plural, such as `pairs of texts`, as it is after a count."""
    return unit if count != 1 else re.sub(r"(?<=ss)es\b|s\b", "", unit, count=1)


def join_summaries(summaries: Sequence[DataSummary]) -> DataSummary:
    """Return the summary of examples with several targets, from one for each target."""

    def join(name: str) -> Json:
        parts = [getattr(summary, name).items() for summary in summaries]
        return dict(chain(*parts))

    warnings = chain(*(summary.warnings for summary in summaries))
    return replace(
        summaries[0],
        unit="sources",
        lengths=join("lengths"),
        unknown=join("unknown"),
        example=join("example"),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def summarize_texts(
    data: Any,
    splits: Splits[E],
    sides: Mapping[str, tuple[Tokenizer, Callable[[E], str]]],
    *,
    example: Mapping[str, str] | None = None,
    lengths: Mapping[str, Lengths] | None = None,
    warnings: Sequence[str] = (),
    warn: bool = True,
    **fields: Any,
) -> DataSummary:
    """Summarize examples of one or several texts.

    Args:
        data: The `data:` section.
        splits: The sets.
        sides: The tokenizer of each text of an example, and what returns the text.
        example: Further parts of the example.
        lengths: Further lengths.
        warnings: Further warnings.
        warn: Whether words or characters that a tokenizer does not know are unusual.
        **fields: Further fields of `DataSummary`. By default the `request` is the first
            text.
    """
    unknown: dict[str, float] = {}
    text_lengths = {}
    parts = {}
    messages = list(warnings)
    samples = {
        name: sample_evenly(examples) for name, examples in splits.by_name.items()
    }
    first_tokenizer, read_first = next(iter(sides.values()))
    for side, (tokenizer, text_of) in sides.items():
        for name, examples in samples.items():
            if not examples:
                continue
            counts = [tokenizer.unknown(text_of(e)[:CHARACTERS]) for e in examples]
            missing, total = map(sum, zip(*counts, strict=True))
            location = f"{name} {side}"
            unknown[location] = 100 * missing / max(1, total)
            if warn and unknown[location] > MANY_UNKNOWN:
                advice = "are unknown to the tokenizer; check language and encoding of its files"
                if tokenizer.settings.kind in WHOLE_WORDS:
                    advice = (
                        "are not in the vocabulary; more training text, a larger size or "
                        "a lower minimum_count adds words"
                    )
                messages.append(
                    f"{unknown[location]:.0f} % of the {tokenizer.unknown_unit} of "
                    f"{location} {advice}"
                )
        text_lengths[side] = measure_text_lengths(
            tokenizer, map(text_of, samples["train"])
        )
        texts = (text_of(e)[:CHARACTERS] for e in samples["train"])
        messages += describe_joined_words(tokenizer, texts)
        ids = tokenizer.encode(text_of(splits.train[0])[:CHARACTERS_READ])
        parts[side] = describe_tokens(tokenizer, ids)
    fields.setdefault("request", request_of(text=read_first(splits.train[0])))
    return DataSummary(
        rows=describe_rows(data, splits),
        lengths={**text_lengths, **(lengths or {})},
        unknown=unknown,
        unknown_unit=first_tokenizer.unknown_unit,
        example=parts | dict(example or {}),
        warnings=tuple(messages),
        **fields,
    )


def describe_joined_words(tokenizer: Tokenizer, texts: Iterable[str]) -> list[str]:
    """Return a warning if words of texts differ in marks that the tokenizer strips."""
    if tokenizer.settings.kind != "wordpiece-uncased":
        return []
    words: dict[str, list[str]] = {}
    for word in dict.fromkeys(normalize("NFC", " ".join(texts)).lower().split()):
        if word.isprintable():
            words.setdefault(tokenizer.normalize(word), []).append(word)
    joined = [group for group in words.values() if len(group) > 1]
    if not joined:
        return []
    count = f", and {len(joined) - 1} more" if len(joined) > 1 else ""
    return [
        f"the tokenizer reads {' and '.join(joined[0])} as one word{count}; kind wordpiece "
        "tells them apart"
    ]


def summarize_text(data: Any, splits: Splits[str], tokenizer: Tokenizer) -> DataSummary:
    """Return the summary of running text."""
    first = next(text for text in splits.train if text.strip())[:CHARACTERS]
    return summarize_texts(
        data,
        splits,
        {"text": (tokenizer, str)},
        unit="texts",
        example={"text": describe_tokens(tokenizer, tokenizer.encode(first))},
        request={"text": " ".join(first.split()[:WORDS_OF_REQUEST])},
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
    for key in (name, "train"):
        files = getattr(data, key, None)
        if files and isinstance(files, str | tuple | list):
            names = files if isinstance(files, str) else ", ".join(map(str, files))
            if key == name:
                return names
            seed = getattr(data, "split_seed", None)
            chosen = "" if seed is None else f" by data.split_seed {seed}"
            return f"held out of {names}{chosen}"
    return GENERATED


def describe_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the first tokens of an example, and how many there are."""
    suffix = f" ... ({len(ids):,} tokens)" if len(ids) > TOKENS else ""
    return " ".join(map(show_invisible, tokenizer.pieces(ids[:TOKENS]))) + suffix


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


def measure_text_lengths(tokenizer: Tokenizer, texts: Iterable[str]) -> Lengths:
    """Return the lengths in tokens of texts.

    Of a text beyond `CHARACTERS_READ` it is an estimate from its beginning.
    """
    lengths = []
    for text in texts:
        tokens = len(tokenizer.encode(text[:CHARACTERS_READ]))
        lengths.append(round(tokens * max(1, len(text) / CHARACTERS_READ)))
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
