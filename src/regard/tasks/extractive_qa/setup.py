"""Set up training: data, tokenizer, model and objective from a run file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from regard.data.pieces import Pieces
from regard.data.splits import Splits
from regard.data.squad import Question
from regard.data.stored import Mapped, Stored, remembered
from regard.data.usable import usable_sets
from regard.models.catalog import build_span_model
from regard.storage.run_folder import RunDirectory
from regard.tasks.extractive_qa.config import ExtractiveQA
from regard.tasks.extractive_qa.data import Cutter, Window
from regard.tasks.extractive_qa.encoded import (
    QuestionTexts,
    kept_windows,
    window_pieces,
)
from regard.tasks.extractive_qa.training import (
    ExtractiveQAObjective,
    cutter_of,
    with_windows,
)
from regard.tasks.repeated import repeated_warnings
from regard.tasks.setup import Setup, digest_of_sets
from regard.tasks.summary import (
    DataSummary,
    pieces,
    request_of,
    rows,
    sampled,
    text_lengths,
    unknown_shares,
    unknown_warnings,
)
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.tasks.word_vectors import fill_vectors, with_vector_texts
from regard.text import Tokenizer
from regard.training.state import count_parameters


def setup(config: ExtractiveQA, folder: RunDirectory, processes: int) -> Setup:
    """Read the questions and build tokenizer, model and objective; a tokenizer in the folder is reused.

    Raises:
        InputError: the questions or the model are invalid.
    """
    splits = config.data.load()
    texts = QuestionTexts(splits.train)
    more = (
        ()
        if config.vectors is None
        else with_vector_texts(config.vectors, list(texts), folder)
    )
    tokenizer = kept_or_trained(folder, config.tokenizer_settings, more or texts)
    model = build_span_model(config.reader, tokenizer.size)
    fill_vectors(model, config.vectors, tokenizer, more, folder)
    cutter = cutter_of(tokenizer, config)
    splits, windows, valid = _cut(config, splits, cutter)
    return Setup(
        model,
        ExtractiveQAObjective(
            windows, with_windows(valid, cutter, config), config.training
        ),
        digest_of_sets(splits, _written),
        f"{len(splits.train):,} questions to train on, in {len(windows.items):,} windows, {len(splits.valid):,} to "
        f"validate, {len(splits.test):,} to test; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} "
        "parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        fresh=("output.",),
        data=summary(config, splits, tokenizer),
    )


def _cut(
    config: ExtractiveQA, splits: Splits[Question], cutter: Cutter
) -> tuple[Splits[Question], Pieces[Window], Sequence[tuple[Question, list[Window]]]]:
    """The usable questions of all sets, the training windows, and the validation questions with theirs."""

    def cut(each: Question) -> tuple[Question, list[Window]]:
        return each, cutter.windows(each)

    if isinstance(splits.train, Stored):
        read = usable_sets(replace(splits, train=()), cut, config.data)
        train, windows = window_pieces(splits.train, cutter, config.data)
    else:
        read = usable_sets(splits, cut, config.data)
        train, windows = (
            [each for each, _ in read.train],
            kept_windows([some for _, some in read.train]),
        )
    return (
        Splits(
            train, *([each for each, _ in some] for some in (read.valid, read.test))
        ),
        windows,
        read.valid,
    )


def _written(each: Question) -> str:
    return f"{each.question}\0{each.context}\0{each.answers}\n"


def _context_of(each: Question) -> str:
    return each.context


def summary(
    config: ExtractiveQA, splits: Splits[Question], tokenizer: Tokenizer
) -> DataSummary:
    """The questions before training, their contexts and answers."""
    unknown = unknown_shares(
        tokenizer,
        {name: Mapped(some, _context_of) for name, some in splits.named.items()},
    )
    first, some = splits.train[0], sampled(splits.train)
    answer = first.answers[0].text if first.answers else "none"
    example = {"question": first.question, "context": first.context, "answer": answer}
    texts = {
        "question": [each.question for each in some],
        "context": [each.context for each in some],
        "answer": [each.answers[0].text for each in some if each.answers],
    }
    left_out = _left_out(config, splits)
    return DataSummary(
        unit="questions",
        rows={
            name: replace(
                each,
                origin=f"{each.origin}; {left_out[name][0]:,} without an answer are left out",
            )
            if name in left_out
            else each
            for name, each in rows(config.data, splits).items()
        },
        lengths={
            name: text_lengths(tokenizer, found)
            for name, found in texts.items()
            if found
        },
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        example={
            name: pieces(tokenizer, tokenizer.encode(text))
            for name, text in example.items()
        },
        request=request_of(question=first.question, context=first.context),
        warnings=(
            *_unanswered_warnings(left_out),
            *repeated_warnings(
                config.data, splits, lambda each: (each.question, each.context)
            ),
            *unknown_warnings(tokenizer, unknown),
        ),
    )


def _left_out(
    config: ExtractiveQA, splits: Splits[Question]
) -> dict[str, tuple[int, int]]:
    """How many questions have no answer and are left out, of how many, for each set whose files have some."""
    data = config.data
    if data.unanswerable:
        return {}
    found = {
        "train": remembered(
            splits.train, "without answer", lambda: data.without_answer(data.train)
        )
    }
    found |= {
        "valid": data.without_answer(data.valid),
        "test": data.without_answer(data.test),
    }
    return {name: (count, every) for name, (count, every) in found.items() if count}


def _unanswered_warnings(left_out: Mapping[str, tuple[int, int]]) -> list[str]:
    """A warning for each set with questions that are left out."""
    remedy = "have no answer and are left out; data.unanswerable=true keeps them"
    return [
        f"{count:,} of {every:,} ({100 * count / every:.3g} %) questions of {name} {remedy}"
        for name, (count, every) in left_out.items()
    ]
