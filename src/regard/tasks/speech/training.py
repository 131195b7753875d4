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
from regard.nn.decoders import EncoderDecoder
from regard.nn.encoders import cells_of
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import TOKENIZER, Setup, digest_splits, setup_task
from regard.tasks.generating import GeneratingBatch, GeneratingObjective
from regard.tasks.speech.config import Speech
from regard.tasks.speech.data import Utterance, normalize, pad_features
from regard.tasks.speech.run import SpeechRun
from regard.tasks.summary import Lengths, summarize_texts
from regard.text.kinds import IGNORED
from regard.training.objectives import Carried, Loss

LONGEST_REQUEST = 10.0
"""The most seconds of a sound that is the example on a page."""


class SpeechObjective(GeneratingObjective[Utterance]):
    """Maximum likelihood of each transcript given its sound, one token at a time."""

    higher_is_better = False

    def __init__(
        self,
        run: SpeechRun,
        train: Sequence[Utterance],
        valid: Sequence[Utterance],
        frames: Sequence[int],
    ):
        self.ids = [run.tokenizer.encode(sound.transcript) for sound in train]
        super().__init__(
            run,
            train,
            valid,
            [(n, len(ids) + 1) for n, ids in zip(frames, self.ids, strict=True)],
            "sounds",
        )

    def batch(self, epoch: int, indices: list[int]) -> GeneratingBatch:
        config = self.config
        rows = []
        for index in indices:
            features = self.train[index].features(config.audio)
            rows.append(config.masking(features, self.settings.seed, epoch, index))
        frames, lengths = pad_features(rows)
        keys = cells_of(lengths, config.halvings)
        ids = [self.ids[index] for index in indices]
        return self.make_batch(frames, lengths, keys, ids)

    def loss(
        self,
        model: nn.Module,
        batch: GeneratingBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Chorowski)
        memory = model.encoder(batch.source, batch.lengths)
        total = self.attention_loss.of(
            EncoderDecoder(nn.Identity(), model.decoder),
            (memory,),
            batch,
            self.settings,
            update,
        )
        if model.connectionist is not None:
            share = self.config.model.ctc
            total = (1 - share) * total + share * model.connectionist(
                memory.value,
                batch.source_lengths,
                batch.target_out[:, :-1],
                (batch.target_out != IGNORED).sum(1) - 1,
                blank=self.run.tokenizer.special.start,
            )
        return Loss(total, batch.target_tokens)


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
    run = SpeechRun.create(config, folder, [sound.transcript for sound in splits.train])
    first = splits.train[0].sound(config.audio)
    request = {}
    if first.seconds <= LONGEST_REQUEST:
        request["audio"] = b64encode(encode_audio(first)).decode()
    seconds = [round(count * config.audio.seconds, 2) for count in frames]
    summary = summarize_texts(
        config.data,
        splits,
        {"transcript": (run.tokenizer, lambda utterance: utterance.transcript)},
        unit="sounds",
        lengths={"recording, in seconds": Lengths.of(seconds)},
        example={"recording": splits.train[0].place},
        request=request,
    )
    hours = sum(frames) * config.audio.seconds / 3600
    return setup_task(
        run.model,
        SpeechObjective(run, splits.train, splits.valid, frames),
        splits,
        digest_splits(splits, identify),
        summary,
        counts=[f"{hours:.2f} hours"],
        details=[f"a vocabulary of {run.tokenizer.size:,}"],
        tokenizers={TOKENIZER: run.tokenizer},
    )


def identify(utterance: Utterance) -> str:
    """Return a sound with its transcript as a line, for the digest of the data."""
    if isinstance(utterance.audio, Path | str):
        content = Path(utterance.audio).read_bytes()
    else:
        content = utterance.read(inf).samples.tobytes()
    return f"{hashlib.sha256(content).hexdigest()}\0{utterance.transcript}\n"
