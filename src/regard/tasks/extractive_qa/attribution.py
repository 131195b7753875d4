"""Attribution of an answer in the one window that has it."""

from collections.abc import Sequence

import numpy as np
from torch import nn

from regard.attention.record import record
from regard.attribution.aggregation import single_map
from regard.attribution.gradients import log_probabilities_of
from regard.attribution.kinds import Kind
from regard.attribution.self_attention import attribute_within, contributed
from regard.data.bert_inputs import bert_input
from regard.data.token_words import side
from regard.maps.alignment import Alignment
from regard.maps.heads import Side
from regard.maps.lookups import Lookups, mean_alignment
from regard.models.span_reader import SpanReader
from regard.tasks.extractive_qa.training import WindowedQuestions
from regard.text import Tokenizer

READS = {"align": "words", "compare": "states"}
"""The lookups of a span reader from context to question, with the names that a picture gives them."""


def attribute_window(
    model: nn.Module,
    tokenizer: Tokenizer,
    cut: WindowedQuestions,
    kind: Kind,
    maps: Sequence[int] | None,
) -> tuple[Lookups, Alignment]:
    """One kind of attribution in the one window: every layer and head, and the one map of those with numbers `maps`.

    Raises:
        InputError: the model has no such map.
    """
    if isinstance(model, SpanReader):
        lookups = _from_context(model, cut)
        return lookups, mean_alignment(lookups, maps)
    if kind == "gradient":
        gradient = _gradient(model, tokenizer, cut, maps)
        return single_map(gradient, kind), gradient
    names = str(model.self_attention)
    return attribute_within(
        model, names, _side(tokenizer, cut), lambda: cut.answers(model), maps, kind=kind
    )


def _from_context(model: SpanReader, cut: WindowedQuestions) -> Lookups:
    """What each word of the context reads of the question: its words, then their states."""
    (question,), window = cut.questions, cut.windows[0][0]
    with record(model, only=[*READS]) as found:
        cut.logits(model, [window])
    words, length = cut.cutter.question_words(question), len(window.part)
    weights = np.stack(
        [found[name][:, :length].double().cpu().numpy() for name in READS]
    )
    context = tuple(
        question.context[begin:end].strip() for begin, end in window.offsets
    )
    return Lookups(weights, words, context, layers=tuple(READS.values()))


def _gradient(
    model: nn.Module,
    tokenizer: Tokenizer,
    cut: WindowedQuestions,
    maps: Sequence[int] | None,
) -> Alignment:
    """Gradient x input of the log-probabilities of the best span's first and last token."""
    window, (span,) = cut.windows[0][0], cut.answers(model)
    begins, ends = ([pair[side] for pair in window.offsets] for side in (0, 1))
    places = [
        window.first + begins.index(span.start),
        window.first + ends.index(span.end),
    ]
    tokens = _side(tokenizer, cut).pieces
    targets = [
        f"{name}: {tokens[place]}"
        for name, place in zip(("begins", "ends"), places, strict=True)
    ]
    return contributed(
        model,
        tokens,
        targets,
        lambda: log_probabilities_of(cut.logits(model, [window])[0].T, places),
        maps,
    )


def _side(tokenizer: Tokenizer, cut: WindowedQuestions) -> Side:
    """The labels of a window in one row, special tokens included."""
    window, question = cut.windows[0][0], cut.questions[0]
    ids, _ = bert_input(tokenizer.special, window.question, window.part)
    return side(tokenizer, ids, texts=[question.question, question.context])
