"""Set up training: data, tokenizer, model and objective from a run file."""

from collections import Counter
from collections.abc import Sequence

from regard.data.splits import Splits
from regard.data.stored import Mapped, remembered
from regard.errors import InputError
from regard.metrics.entities import OUTSIDE, entities, plain
from regard.models.catalog import build_tagger
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.class_prediction import constant_accuracy, in_order_of
from regard.tasks.repeated import repeated_warnings
from regard.tasks.setup import Setup, digest_of_sets
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    class_counts,
    most_common,
    numbered,
    pieces,
    request_of,
    rows,
    sampled,
    unknown_shares,
    unknown_warnings,
)
from regard.tasks.tagging.config import Tagging
from regard.tasks.tagging.data import Tagged
from regard.tasks.tagging.training import Encoder, TaggingObjective
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.tasks.word_vectors import fill_vectors, with_vector_texts
from regard.text import Tokenizer
from regard.training.state import count_parameters


def setup(config: Tagging, folder: RunDirectory, processes: int) -> Setup:
    """Read the texts and build tokenizer, model and objective; a tokenizer in the folder is reused.

    Raises:
        InputError: the texts or the model are invalid, or no word has a tag.
    """
    splits = config.data.load()
    tags = _tags(splits.train)
    labels = sorted({*tags, OUTSIDE})
    if len(labels) < 2:
        raise InputError(
            f"{config.data.train}: every tag is {OUTSIDE}; expected some of other kinds"
        )
    labels = in_order_of(config.training.start, labels)
    texts = Mapped(splits.train, text_of)
    more = (
        ()
        if config.vectors is None
        else with_vector_texts(config.vectors, list(texts), folder)
    )
    tokenizer = kept_or_trained(folder, config.tokenizer_settings, more or texts)
    model = build_tagger(config.tagger, tokenizer.size, len(labels))
    fill_vectors(model, config.vectors, tokenizer, more, folder)
    encoder = Encoder(tokenizer, config.tagger.context)
    encoder.report(
        sum(_long_words(some, encoder) for some in (splits.train, splits.valid))
    )
    return Setup(
        model,
        TaggingObjective(splits.train, splits.valid, labels, encoder, config.training),
        digest_of_sets(splits, _written),
        f"{len(splits.train):,} texts to train on, {len(splits.valid):,} to validate, {len(splits.test):,} to test; "
        f"{_kinds(tags)}; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        files={LABELS: labels},
        fresh=("output.",),
        data=summary(config, splits, tokenizer),
        simplest=constant_accuracy(
            Counter(tag for each in splits.valid for tag in each.tags)
        ),
    )


def summary(
    config: Tagging, splits: Splits[Tagged], tokenizer: Tokenizer
) -> DataSummary:
    """The texts before training and their entities."""
    unknown = unknown_shares(
        tokenizer, {name: Mapped(some, text_of) for name, some in splits.named.items()}
    )
    first = next(
        (each for each in splits.train if set(each.tags) != {OUTSIDE}), splits.train[0]
    )
    shown = "tags" if plain(_tags(splits.train)) else "entities"
    found = ", ".join(
        f"{first.text[first.words[start][0] : first.words[end - 1][1]]} ({label})"
        for start, end, label in entities(first.tags)
    )
    return DataSummary(
        unit="texts",
        rows=rows(config.data, splits),
        classes=most_common(_counts(splits.train, shown)),
        classified=shown,
        lengths={
            "text": Lengths.of(
                [len(tokenizer.encode(each.text)) + 2 for each in sampled(splits.train)]
            )
        },
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        request=request_of(text=first.text),
        example={
            "text": pieces(tokenizer, tokenizer.encode(first.text)),
            shown: found or "none",
        },
        warnings=(
            *_unseen(splits),
            *repeated_warnings(config.data, splits, lambda each: each.text),
            *unknown_warnings(tokenizer, unknown),
        ),
    )


def _unseen(splits: Splits[Tagged]) -> Sequence[str]:
    """Tags that only texts for validation or test have, which the model never predicts."""
    known = set(_tags(splits.train))
    other = {tag for each in (*splits.valid, *splits.test) for tag in each.tags} - known
    return (
        [
            f"no training text has the tags {', '.join(sorted(other))}, so they are never predicted"
        ]
        if other
        else []
    )


def text_of(each: Tagged) -> str:
    """The text of an example."""
    return each.text


def _tags(texts: Sequence[Tagged]) -> list[str]:
    """The tags that occur; those of a set on disk are collected once."""
    return remembered(
        texts, "tags", lambda: sorted({tag for each in texts for tag in each.tags})
    )


def _long_words(texts: Sequence[Tagged], encoder: Encoder) -> int:
    """How many words are longer than a part."""
    name = f"long words {encoder.tokenizer.digest} {encoder.context}"
    return remembered(
        texts,
        name,
        lambda: encoder.long_words((each.text, each.words) for each in texts),
    )


def _kinds(tags: Sequence[str]) -> str:
    """How many kinds of entities there are, or plain tags."""
    if plain(tags):
        return f"{len(tags)} tags"
    kinds = {label for _, _, label in entities(tags)}
    return f"{len(kinds)} {numbered('kinds of entities', len(kinds))} in {len({*tags, OUTSIDE})} tags"


def _counts(texts: Sequence[Tagged], of: str) -> dict[str, int]:
    """How often each kind of entity occurs, or each of the `tags`."""

    def counts() -> dict[str, int]:
        if of == "tags":
            return class_counts(tag for each in texts for tag in each.tags)
        return class_counts(
            label for each in texts for _, _, label in entities(each.tags)
        )

    return remembered(texts, f"counts of {of}", counts)


def _written(each: Tagged) -> str:
    return "\0".join((each.text, *each.tags)) + "\n"
