"""Speech recognition: the run file, the training, and the trained run."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.audio import FeatureMasking, LogMel, encode_audio, read_audio
from regard.config.file_kinds import suffix
from regard.data.records import Records
from regard.data.rows import convert_sets
from regard.data.splits import Splits
from regard.decoding.streaming import StreamSource
from regard.errors import InputError
from regard.maps.lookups import ImagePatches, SoundParts
from regard.metrics import ERROR_RATES, ErrorRateName, Metrics
from regard.models.recogniser import Chorowski, ChorowskiConfig
from regard.nn.decoders import EncoderDecoder
from regard.nn.encoders import cells_of
from regard.pictures.panels import paint_sound, shade_features, spectrogram
from regard.storage.run_folder import RunDirectory
from regard.tasks.base import TOKENIZER, Setup, digest_splits, setup_task
from regard.tasks.generating import (
    GeneratingBatch,
    GeneratingObjective,
    GeneratingRun,
    GeneratingSettings,
)
from regard.tasks.options import EvaluationOptions, Json
from regard.tasks.run import Task
from regard.tasks.speech.data import (
    Audio,
    SpeechTables,
    SpokenDigits,
    Utterance,
    normalize,
    pad_features,
)
from regard.tasks.summary import Lengths, summarize_texts
from regard.text import Tokenizer
from regard.text.kinds import IGNORED
from regard.training.objectives import Carried, Loss


@dataclass(frozen=True, kw_only=True)
class Speech(GeneratingSettings):
    """The run file of speech recognition.

    A batch has room for `training.batch_tokens` frames. An output has at most
    `search.length_ratio` tokens for each key, a frame after time was halved.
    """

    task: Literal["speech"] = "speech"
    data: SpokenDigits | SpeechTables
    audio: LogMel = field(default_factory=LogMel)
    """The features of a sound."""
    masking: FeatureMasking = field(default_factory=FeatureMasking)
    """What training hides of the features."""
    model: ChorowskiConfig
    metrics: tuple[ErrorRateName, ...] = ("word-error-rate", "character-error-rate")
    """Metrics of validation and test; the first chooses the best weights."""

    @property
    def halvings(self) -> int:
        """How often the encoder halves time."""
        return len(self.model.stages)

    @property
    def key_seconds(self) -> float:
        """The time of a key of the decoder's memory."""
        return self.audio.seconds * 2**self.halvings


if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEIGHTS_NOTE = "attention weights: where in the sound above each token attends"
SILENCE = 1e-4
"""The loudest sample of a sound that counts as silent, of 1."""
BAND_PIXELS = 2
"""Pixels for each band on a page, and for each frame."""


class SpeechRun(GeneratingRun[Audio, Utterance]):
    """A trained model with its tokenizer and its run file. Examples are sounds."""

    does = "Writes what is said in a recording."
    config: Speech
    model: Chorowski
    inputs = {"audio": bytes}
    rows = 32
    source_name = "audio"
    tables = SpeechTables
    detail = WEIGHTS_NOTE
    data_hint = "give sounds with transcripts"

    @staticmethod
    def build(config: Speech, tokenizer: Tokenizer) -> Chorowski:
        return Chorowski(tokenizer.size, config.audio.mels, config.model)

    def example(self, values: Json) -> Audio:
        return read_audio(values["audio"], self.config.audio.longest)

    def warnings(self, example: Audio) -> list[str]:
        sound = self.prepare(example, "sound 1").sound(self.config.audio)
        if abs(sound.samples).max() > SILENCE:
            return []
        return ["the sound is silent, so the prediction means nothing"]

    def prepare(self, example: Audio, name: str) -> Utterance:
        return Utterance(example, "", name)

    def check(self, source: Utterance) -> Utterance:
        source.read(self.config.audio.longest)
        return source

    def encode(self, sources: Sequence[Utterance]) -> tuple[Memory, Tensor]:
        features = [sound.features(self.config.audio) for sound in sources]
        frames, lengths = pad_features(features)
        frames = frames.to(self.device)
        lengths = lengths.to(self.device)
        return self.model.encoder(frames, lengths), lengths * 0.5**self.config.halvings

    def label_source(self, source: Utterance) -> StreamSource:
        """Paint the spectrogram, low bands at the bottom, cut into one column a key.

        Keys are labeled by when they begin.
        """
        features = source.features(self.config.audio).numpy()
        length, bands = features.shape
        keys = self.model.encoder.halving.keys(length)
        frames = np.zeros((keys << self.config.halvings, bands))
        frames[:length] = shade_features(features)
        pixels = paint_sound(frames, BAND_PIXELS, BAND_PIXELS)
        seconds = self.config.key_seconds
        labels = tuple(f"{index * seconds:.2f} s" for index in range(keys))
        sound = source.sound(self.config.audio)
        recording = SoundParts(encode_audio(sound), seconds)
        return StreamSource(labels, ImagePatches(pixels, 1, keys), recording)

    def read(
        self, files: Sequence[Path | Records], options: EvaluationOptions
    ) -> list[Utterance]:
        if len(files) != 1 or suffix(files[0]) != "npz":
            return super().read(files, options)
        data = self.config.data
        data = data if isinstance(data, SpokenDigits) else SpokenDigits()
        return list(replace(data, recordings=str(files[0])).tests())

    def normalize_target(self, text: str) -> str:
        text = normalize(text, self.config.lower)
        if self.tokenizer.unknown(text)[0]:
            raise InputError(
                f"the transcript {text!r} has letters that the run does not know; leave "
                "them out"
            )
        return text

    def compute_metrics(
        self, examples: Sequence[Utterance], options: EvaluationOptions
    ) -> Metrics:
        """Return the run's metrics. Raises InputError for a sound that can't be read."""
        search = self.config.search.with_beam(options.beam)
        decode = self.tokenizer.decode
        outputs = [decode(best.tokens) for best, *_ in self.search(examples, search)]
        references = [
            normalize(sound.transcript, self.config.lower) for sound in examples
        ]
        return {
            name: ERROR_RATES[name](outputs, references) for name in self.config.metrics
        }

    def plot(
        self,
        source: Utterance,
        patches: ImagePatches,
        tokens: tuple[str, ...],
        weights: np.ndarray,
        remarks: tuple[str, ...],
        title: str,
        **options: Any,
    ) -> "Figure":
        audio = self.config.audio
        return spectrogram(
            shade_features(source.features(audio).numpy()),
            weights[:, 0],
            tokens,
            times=(audio.seconds, self.config.key_seconds),
            title=title,
        )


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


TASK = Task(Speech, setup, SpeechRun, command="regard predict {} FILE.wav")
