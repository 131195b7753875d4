"""Training of speech recognizers: the loss and the set-up."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from torch import nn

from regard.audio import encode_audio
from regard.data.rows import convert_sets
from regard.data.splits import Splits
from regard.models.recogniser import Chorowski
from regard.nn.encoder_decoder import MemoryReader
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import (
    Setup,
    TokenBatchObjective,
    check_beam,
    digest_splits,
    setup_task,
)
from regard.tasks.options import EvaluationOptions
from regard.tasks.speech.config import Speech
from regard.tasks.speech.data import (
    SpeechBatch,
    Utterance,
    collate_speech,
    normalize,
)
from regard.tasks.speech.run import SpeechRun
from regard.tasks.summary import (
    DataSummary,
    Lengths,
    describe_rows,
    describe_tokens,
    measure_text_lengths,
    measure_unknown_shares,
    sample_evenly,
    warn_unknown,
)
from regard.tasks.tokenizers import TOKENIZER, load_or_train
from regard.text import Tokenizer
from regard.text.special import IGNORED
from regard.training.attention_losses import AttentionLoss
from regard.training.objectives import Carried, Loss

LONGEST_REQUEST = 10.0
"""The most seconds of a sound that is the example on a page."""


class SpeechObjective(TokenBatchObjective[Utterance, SpeechBatch]):
    """Maximum likelihood of each transcript given its sound, one token at a time."""

    higher_is_better = False

    def __init__(
        self,
        train: Sequence[Utterance],
        valid: Sequence[Utterance],
        frames: Sequence[int],
        tokenizer: Tokenizer,
        config: Speech,
        model: Chorowski,
    ):
        self.tokenizer = tokenizer
        self.config = config
        self.metric = config.metrics[0]
        self.attention_loss = AttentionLoss(config.attention_losses, model.decoder)
        self.ids = [tokenizer.encode(sound.transcript) for sound in train]
        lengths = [(n, len(ids) + 1) for n, ids in zip(frames, self.ids, strict=True)]
        super().__init__(train, valid, config.training, lengths, "sounds", strict=True)

    def batch(self, epoch: int, indices: list[int]) -> SpeechBatch:
        masking = self.config.masking
        seed = self.settings.seed
        examples = []
        for index in indices:
            features = self.train[index].features(self.config.audio)
            examples.append((masking(features, seed, epoch, index), self.ids[index]))
        return collate_speech(examples, self.config.halvings, self.tokenizer.special)

    def loss(
        self,
        model: nn.Module,
        batch: SpeechBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Chorowski)
        memory = model.encoder(batch.frames, batch.frame_lengths)
        reader = MemoryReader(model.decoder)
        total = self.attention_loss.of(reader, (memory,), batch, self.settings, update)
        if model.connectionist is not None:
            share = self.config.model.ctc
            ctc = model.connectionist(
                memory.value,
                batch.source_lengths,
                batch.target_out[:, :-1],
                (batch.target_out != IGNORED).sum(1) - 1,
                blank=self.tokenizer.special.start,
            )
            total = (1 - share) * total + share * ctc
        return Loss(total, batch.target_tokens)

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Chorowski)
        run = SpeechRun(self.config, model, self.tokenizer)
        return run.compute_metrics(self.valid, EvaluationOptions(beam=1))


def setup(config: Speech, folder: RunDirectory, processes: int) -> Setup:
    """Read and check sounds and transcripts, and build model and objective.

    Raises:
        InputError: The sounds, the transcripts or the model are invalid.
    """

    def measure(sound: Utterance) -> tuple[Utterance, int]:
        text = normalize(sound.transcript, config.lower)
        return replace(sound, transcript=text), sound.frames(config.audio)

    measured = convert_sets(config.data.load(), measure, config.data)
    splits = Splits(
        *([sound for sound, _ in sounds] for sounds in measured.by_name.values())
    )
    frames = [count for _, count in measured.train]
    transcripts = [sound.transcript for sound in splits.train]
    tokenizer = load_or_train(folder, config.tokenizer, transcripts)
    model = SpeechRun.build(config, tokenizer.size)
    check_beam(config.search.beam, tokenizer.size, "vocabulary")
    hours = sum(frames) * config.audio.seconds / 3600
    return setup_task(
        model,
        SpeechObjective(splits.train, splits.valid, frames, tokenizer, config, model),
        splits,
        digest_splits(splits, identify),
        summarize(config, splits, frames, tokenizer),
        counts=[f"{hours:.2f} hours"],
        details=[f"a vocabulary of {tokenizer.size:,}"],
        tokenizers={TOKENIZER: tokenizer},
    )


def identify(utterance: Utterance) -> str:
    """Return a sound with its transcript as a line, for the digest of the data."""
    if isinstance(utterance.audio, Path | str):
        content = Path(utterance.audio).read_bytes()
    else:
        content = utterance.read(inf).samples.tobytes()
    return f"{hashlib.sha256(content).hexdigest()}\0{utterance.transcript}\n"


def summarize(
    config: Speech,
    splits: Splits[Utterance],
    frames: Sequence[int],
    tokenizer: Tokenizer,
) -> DataSummary:
    """Summarize the lengths of sounds and transcripts, and unknown characters."""
    transcripts = {
        name: [sound.transcript for sound in sample_evenly(sounds)]
        for name, sounds in splits.by_name.items()
    }
    unknown = measure_unknown_shares(tokenizer, transcripts)
    held_out = {name: share for name, share in unknown.items() if name != "train"}
    first = splits.train[0]
    sound = first.sound(config.audio)
    request = {}
    if sound.seconds <= LONGEST_REQUEST:
        request["audio"] = b64encode(encode_audio(sound)).decode()
    ids = [*tokenizer.encode(first.transcript), tokenizer.special.end]
    seconds = [round(count * config.audio.seconds, 2) for count in frames]
    return DataSummary(
        unit="sounds",
        rows=describe_rows(config.data, splits),
        lengths={
            "recordings, in seconds": Lengths.of(seconds),
            "transcripts": measure_text_lengths(tokenizer, transcripts["train"]),
        },
        unknown=unknown,
        unknown_unit=tokenizer.unknown_unit,
        request=request,
        example={
            "recording": first.place,
            "transcript": describe_tokens(tokenizer, ids),
        },
        warnings=tuple(warn_unknown(tokenizer, held_out)),
    )
