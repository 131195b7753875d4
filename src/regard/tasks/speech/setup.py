"""Set up training: data, tokenizer, model and objective from a run file."""

from regard.data.splits import Splits
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
    read = config.data.load()
    splits = Splits(*([normalised(each, config.lower) for each in some] for some in read.named.values()))
    tokenizer = kept_or_trained(folder, config.tokenizer, [each.transcript for each in splits.train])
    frames = {name: [each.frames(config.audio) for each in some] for name, some in splits.named.items()}
    model = build(config, tokenizer.size)
    check_beam(config.search.beam, tokenizer.size, "vocabulary")
    hours = sum(frames["train"]) * config.audio.seconds / 3600
    return Setup(
        model,
        SpeechObjective(splits.train, splits.valid, frames["train"], tokenizer, config, model),
        digest(line(each) for each in (*splits.train, *splits.valid)),
        f"{len(splits.train):,} sounds, {hours:.2f} hours, to train on, {len(splits.valid):,} to validate, "
        f"{len(splits.test):,} to test; a vocabulary of {tokenizer.size:,}; {count_parameters(model):,} parameters",
        {TOKENIZER: tokenizer},
        splits.test,
        data=speech_summary(config, splits, frames["train"], tokenizer),
    )


def line(each: Utterance) -> str:
    """A sound with its transcript as a line, for the digest of the data."""
    return f"{contents(each)}\0{each.transcript}\n"
