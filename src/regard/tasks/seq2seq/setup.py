"""Set up training: data, tokenizers, model and objective from a run file."""

from collections.abc import Iterator, Sequence
from itertools import chain

import torch

from regard.data.pair import Pair
from regard.data.splits import Splits
from regard.data.tokenizer_pair import Tokenizers
from regard.decoding.search import Search
from regard.errors import InputError
from regard.models.catalog import build
from regard.nn.encoder_decoder import EncoderDecoder
from regard.storage.run_folder import RunDirectory
from regard.tasks.seq2seq.config import Seq2Seq
from regard.tasks.seq2seq.metrics import Scoring
from regard.tasks.seq2seq.run import load_tokenizers
from regard.tasks.seq2seq.summary import pairs_summary
from regard.tasks.seq2seq.training import Seq2SeqObjective
from regard.tasks.setup import Setup, check_beam, digest_of_sets
from regard.tasks.tokenizer_file import SOURCE, TARGET, trained_on
from regard.tasks.word_vectors import fill_vectors, with_vector_texts
from regard.text import Tokenizer
from regard.training.state import count_parameters


def setup(config: Seq2Seq, folder: RunDirectory, processes: int) -> Setup:
    """Read the data and build tokenizers, model and objective; tokenizers in the folder are reused.

    Raises:
        InputError: the data, the model or the search is invalid.
    """
    splits = config.data.load()
    kept = (
        load_tokenizers(folder, config)
        if folder.has(SOURCE) and folder.has(TARGET)
        else None
    )
    texts = None if config.vectors is None else vector_texts(config, splits, folder)
    tokenizers = kept or make_tokenizers(config, splits, texts)
    model = build(config.model, *tokenizers.sizes, tokenizers.special)
    fill_vectors(model.encoder, config.vectors, tokenizers.source, texts or (), folder)
    check_search(config.search, tokenizers.target.size, model)
    task = Seq2SeqObjective(
        splits,
        tokenizers,
        config.training,
        Scoring(config.metrics, config.search.searching(beam=1)),
        model=model,
        attention=config.attention_losses,
        truncate=config.truncate,
    )
    if config.output_bias == "frequencies":
        model.decoder.output.start_from(task.frequencies())
    return Setup(
        model,
        task,
        pairs_digest(splits),
        summary(model, splits, tokenizers),
        {SOURCE: tokenizers.source, TARGET: tokenizers.target},
        splits.test,
        data=pairs_summary(config.data, splits, tokenizers),
    )


def vector_texts(
    config: Seq2Seq, splits: Splits[Pair], folder: RunDirectory
) -> list[str]:
    """The texts of the source's tokenizer with those of word vectors behind them. Raises InputError for a file that is
    missing or no text."""
    read = texts_of if config.tokenizers.target is None else sources_of
    return with_vector_texts(config.vectors, list(read(splits.train)), folder)


def make_tokenizers(
    config: Seq2Seq, splits: Splits[Pair], texts: list[str] | None = None
) -> Tokenizers:
    """Train the tokenizers, as a function of the training pairs only; with `texts` the source's on these."""
    settings, train = config.tokenizers, splits.train
    name, read = (
        ("both", texts_of) if settings.target is None else ("source", sources_of)
    )
    source = (
        trained_on(train, settings.source, name, read)
        if texts is None
        else Tokenizer.train(settings.source, texts)
    )
    if settings.target is None:
        return Tokenizers(source, source, config.copying)
    return Tokenizers(source, trained_on(train, settings.target, "target", targets_of))


def texts_of(pairs: Sequence[Pair]) -> Iterator[str]:
    """The sources of pairs, then the targets."""
    return chain(sources_of(pairs), targets_of(pairs))


def sources_of(pairs: Sequence[Pair]) -> Iterator[str]:
    """The sources of pairs, one in memory at a time."""
    return (pair.source for pair in pairs)


def targets_of(pairs: Sequence[Pair]) -> Iterator[str]:
    """The targets of pairs, one in memory at a time."""
    return (pair.target for pair in pairs)


def pairs_digest(splits: Splits[Pair]) -> str:
    """The digest of the training and the validation pairs."""
    return digest_of_sets(splits, _written)


def _written(pair: Pair) -> str:
    return f"{pair.source}\0{pair.target}\n"


def check_search(search: Search, vocabulary: int, model: EncoderDecoder) -> None:
    """Raises InputError for a beam that the vocabulary cannot fill, or a coverage penalty where the model does not
    attend to its source, before hours are spent on training."""
    if search.coverage_penalty and model.decoder.source_attention is None:
        raise InputError(
            "search.coverage_penalty needs a model that attends to its source; leave it 0"
        )
    check_beam(search.beam, vocabulary, "target vocabulary")


def summary(
    model: torch.nn.Module, splits: Splits[Pair], tokenizers: Tokenizers
) -> str:
    """A summary of data and model, in a line."""
    train, valid, test = (
        len(pairs) for pairs in (splits.train, splits.valid, splits.test)
    )
    return (
        f"{train:,} pairs to train on, {valid:,} to validate, {test:,} to test; vocabularies of "
        f"{tokenizers.source.size:,} and {tokenizers.target.size:,}; {count_parameters(model):,} parameters"
    )
