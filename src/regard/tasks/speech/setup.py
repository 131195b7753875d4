"""Set up training: data, tokenizer, model and objective from a run file."""

from regard.data.splits import Splits
from regard.data.usable import usable_sets
from regard.storage.run_folder import RunDirectory
from regard.tasks.setup import Setup, check_beam, digest
from regard.tasks.speech.config import Speech
from regard.tasks.speech.data import Utterance, contents, normalised
from regard.tasks.speech.summary import speech_summary
from regard.tasks.speech.training import SpeechObjective, build
from regard.tasks.tokenizer_file import TOKENIZER, kept_or_trained
from regard.training.state import count_parameters


def setup(config: Speech, folder: RunDirectory, processes: int) -> Setup:
    """Read sounds and transcripts, check every sound, and build tokenizer, model and objective.

    Raises:
        InputError: the sounds, the transcripts or the model are invalid.
    """
    read = usable_sets(
        config.data.load(), lambda each: measured(each, config), config.data
    )
    splits = Splits(*([each for each, _ in some] for some in read.named.values()))
    frames = [count for _, count in read.train]
    tokenizer = kept_or_trained(
        folder, config.tokenizer, [each.transcript for each in splits.train]
    )
    model = build(config, tokenizer.size)
    check_beam(config.search.beam, tokenizer.size, "vocabulary")
    hours = sum(frames) * config.audio.seconds / 3600
    return Setup(
        model,
        SpeechObjective(splits.train, splits.valid, frames, tokenizer, config, model),
        digest(line(each) for each in (*splits.train, *splits.valid)),
        f"{len(splits.train):,} sounds, {hours:.2f} hours, to train on, {len(splits.valid):,} to validate, "
        f"{len(splits.test):,} to test; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        data=speech_summary(config, splits, frames, tokenizer),
    )


def measured(each: Utterance, config: Speech) -> tuple[Utterance, int]:
    """An utterance with its transcript as it is learned, and its number of frames. Raises InputError as
    `Utterance.frames`."""
    return normalised(each, config.lower), each.frames(config.audio)


def line(each: Utterance) -> str:
    """A sound with its transcript as a line, for the digest of the data."""
    return f"{contents(each)}\0{each.transcript}\n"
