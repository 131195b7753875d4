"""The summary of texts with classes before training."""

from collections.abc import Sequence
from typing import Any

from regard.data.headers import partner
from regard.data.splits import Splits
from regard.data.tables import names_in
from regard.tasks.classification.config import TextConfig
from regard.tasks.classification.data import Labelled, LabelledTables
from regard.tasks.classification.forms.protocol import Form
from regard.tasks.classification.outputs import Outputs
from regard.tasks.repeated import repeated_warnings
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    abridged,
    request_of,
    rows,
    sampled,
    unknown_shares,
    unknown_warnings,
)

MOSTLY = 80.0
"""Per cent of the texts that are cut, worth a warning."""


def text_summary(
    config: TextConfig,
    splits: Splits[Labelled[Any]],
    form: Form[Any],
    outputs: Outputs[Any, Any],
) -> DataSummary:
    """The summary of texts and their labels, whose lengths are those of the inputs of the model's form."""
    labels = outputs.labels_of(splits.train)
    unknown = unknown_shares(
        form.tokenizer,
        {
            name: [" ".join(each.texts) for each in sampled(some)]
            for name, some in splits.named.items()
        },
    )
    first, lengths = splits.train[0], _lengths(sampled(splits.train), form)
    return DataSummary(
        unit=unit_of(first),
        rows=rows(config.data, splits),
        classes=labels.counts,
        labels=labels.numbers,
        lengths={"text": lengths},
        unknown=unknown,
        unknown_unit=form.tokenizer.unknown_unit,
        example={
            "text": example(first, form),
            "label": labels.first or str(first.label),
        },
        request=request_of(**dict(zip(("text", "second"), first.texts, strict=False))),
        warnings=(
            *labels.warnings,
            *_unread(config),
            *mostly_cut(config.classifier, lengths),
            *repeated_warnings(config.data, splits, lambda each: each.texts),
            *unknown_warnings(form.tokenizer, unknown),
        ),
    )


def unit_of(example: Labelled[Any]) -> str:
    """What the examples of a set are, as this one."""
    return "texts" if len(example.texts) == 1 else "pairs of texts"


def _unread(config: TextConfig) -> list[str]:
    """A warning where the table has the other text of pairs, which the run file does not name."""
    data = config.data
    if (
        not isinstance(data, LabelledTables)
        or data.second is not None
        or data.train is None
        or isinstance(data.text, int)
    ):
        return []
    second = partner(data.text, names_in(data.train))
    if second is None:
        return []
    return [
        f"{data.train} has a column {second!r} beside {data.text!r}, which is not read: this model reads one text; for "
        f"pairs set data.second={second} and choose a model of two texts"
    ]


def mostly_cut(model: Any, lengths: Lengths) -> list[str]:
    """A warning where a model with a context reads nearly all texts in part."""
    context = getattr(model, "context", None)
    if lengths.cut < MOSTLY or context is None:
        return []
    return [
        f"{lengths.cut:.3g} % of the texts are cut to model.context, {context}; a larger one reads more of them"
    ]


def _lengths(some: Sequence[Labelled[Any]], form: Form[Any]) -> Lengths:
    """Positions of whole examples, special tokens included, and the share of those that the model reads in part."""
    found = Lengths.of([form.whole(each) for each in some])
    cut = sum(form.is_cut(each, form.encoded(each)) for each in some)
    return Lengths(found.median, found.longest, 100 * cut / len(some))


def example(first: Labelled[Any], form: Form[Any]) -> str:
    """The tokens of an example as the model reads them."""
    whole = form.pieces(first)
    if whole is not None:
        return abridged(whole, len(whole))
    texts = [form.tokenizer.pieces(form.tokenizer.encode(text)) for text in first.texts]
    return "  |  ".join(abridged(pieces, len(pieces)) for pieces in texts)
