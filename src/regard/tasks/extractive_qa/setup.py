"""Set up training: data, tokenizer, model and objective from a run file."""

from regard.data.splits import Splits
from regard.data.squad import Question
from regard.data.usable import usable_sets
from regard.models.catalog import build_span_model
from regard.storage.run_folder import RunDirectory
from regard.tasks.extractive_qa.config import ExtractiveQA
from regard.tasks.extractive_qa.training import ExtractiveQAObjective, cutter_of, with_windows
from regard.tasks.repeated import repeated_warnings
from regard.tasks.setup import Setup, digest
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
    texts = dict.fromkeys(text for each in splits.train for text in (each.context, each.question))
    texts = with_vector_texts(config.vectors, list(texts), folder)
    tokenizer = kept_or_trained(folder, config.tokenizer_settings, texts)
    model = build_span_model(config.reader, tokenizer.size)
    fill_vectors(model, config.vectors, tokenizer, texts, folder)
    cutter = cutter_of(tokenizer, config)
    read = usable_sets(splits, lambda each: (each, cutter.windows(each)), config.data)
    splits = Splits(*([each for each, _ in some] for some in read.named.values()))
    cut, valid = [window for _, some in read.train for window in some], with_windows(read.valid, cutter, config)
    return Setup(
        model,
        ExtractiveQAObjective(cut, valid, config.training),
        digest(f"{each.question}\0{each.context}\0{each.answers}\n" for each in (*splits.train, *splits.valid)),
        f"{len(splits.train):,} questions to train on, in {len(cut):,} windows, {len(splits.valid):,} to validate, "
        f"{len(splits.test):,} to test; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        fresh=("output.",),
        data=summary(config, splits, tokenizer),
    )


def summary(config: ExtractiveQA, splits: Splits[Question], tokenizer: Tokenizer) -> DataSummary:
    """The questions before training, their contexts and answers."""
    unknown = unknown_shares(tokenizer, {name: [each.context for each in some] for name, some in splits.named.items()})
    first, some = splits.train[0], sampled(splits.train)
    answer = first.answers[0].text if first.answers else "none"
    example = {"question": first.question, "context": first.context, "answer": answer}
    texts = {
        "question": [each.question for each in some],
        "context": [each.context for each in some],
        "answer": [each.answers[0].text for each in some if each.answers],
    }
    return DataSummary(
        unit="questions",
        rows=rows(config.data, splits),
        lengths={name: text_lengths(tokenizer, found) for name, found in texts.items() if found},
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        example={name: pieces(tokenizer, tokenizer.encode(text)) for name, text in example.items()},
        request=request_of(question=first.question, context=first.context),
        warnings=(
            *repeated_warnings(config.data, splits, lambda each: (each.question, each.context)),
            *unknown_warnings(tokenizer, unknown),
        ),
    )
