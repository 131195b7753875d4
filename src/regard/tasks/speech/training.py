"""Training of speech recognizers: the loss and the set-up."""

from base64 import b64encode
from collections.abc import Sequence

from torch import Tensor, nn

from regard.audio import encode_audio
from regard.data.rows import convert_sets
from regard.data.splits import Splits
from regard.models.recogniser import Recogniser
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
    digest_sound,
)
from regard.tasks.speech.run import SpeechRun, build
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
        model: Recogniser,
    ):
        self.tokenizer, self.config = tokenizer, config
        self.metric = config.metrics[0]
        self.attention_loss = AttentionLoss(config.attention_losses, model.decoder)
        self.ids = [tokenizer.encode(sound.transcript) for sound in train]
        lengths = [(n, len(ids) + 1) for n, ids in zip(frames, self.ids, strict=True)]
        super().__init__(train, valid, config.training, lengths, "sounds", strict=True)

    def batch(self, epoch: int, indices: list[int]) -> SpeechBatch:
        masking, seed = self.config.masking, self.settings.seed
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
        assert isinstance(model, Recogniser)
        memory = model.encoder(batch.frames, batch.frame_lengths)
        reader = MemoryReader(model.decoder)
        total = self.attention_loss.of(reader, (memory,), batch, self.settings, update)
        if model.connectionist is not None:
            share = self.config.model.ctc
            ctc = self._connectionist_loss(model, memory.value, batch)
            total = (1 - share) * total + share * ctc
        return Loss(total, batch.target_tokens)

    def _connectionist_loss(
        self, model: Recogniser, states: Tensor, batch: SpeechBatch
    ) -> Tensor:
        assert model.connectionist is not None
        return model.connectionist(
            states,
            batch.source_lengths,
            batch.target_out[:, :-1],
            (batch.target_out != IGNORED).sum(1) - 1,
            blank=self.tokenizer.special.start,
        )

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Recogniser)
        run = SpeechRun(self.config, model, self.tokenizer)
        return run.compute_metrics(self.valid, EvaluationOptions(beam=1))


def setup(config: Speech, folder: RunDirectory, processes: int) -> Setup:
    """Read and check sounds and transcripts, and build model and objective.

    Raises:
        InputError: The sounds, the transcripts or the model are invalid.
    """

    def measure(sound: Utterance) -> tuple[Utterance, int]:
        return sound.normalize_transcript(config.lower), sound.frames(config.audio)

    measured = convert_sets(config.data.load(), measure, config.data)
    splits = Splits(
        *([sound for sound, _ in sounds] for sounds in measured.named.values())
    )
    frames = [count for _, count in measured.train]
    transcripts = [sound.transcript for sound in splits.train]
    tokenizer = load_or_train(folder, config.tokenizer, transcripts)
    model = build(config, tokenizer.size)
    check_beam(config.search.beam, tokenizer.size, "vocabulary")
    hours = sum(frames) * config.audio.seconds / 3600
    return setup_task(
        model,
        SpeechObjective(splits.train, splits.valid, frames, tokenizer, config, model),
        splits,
        digest_splits(
            splits, lambda sound: f"{digest_sound(sound)}\0{sound.transcript}\n"
        ),
        summarize(config, splits, frames, tokenizer),
        counts=[f"{hours:.2f} hours"],
        details=[f"a vocabulary of {tokenizer.size:,}"],
        tokenizers={TOKENIZER: tokenizer},
    )


def summarize(
    config: Speech,
    splits: Splits[Utterance],
    frames: Sequence[int],
    tokenizer: Tokenizer,
) -> DataSummary:
    """Summarize the lengths of sounds and transcripts, and unknown characters."""
    transcripts = {
        name: [sound.transcript for sound in sample_evenly(sounds)]
        for name, sounds in splits.named.items()
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
        warnings=(
            *warn_long_transcripts(config, splits.train, frames),
            *warn_unknown(tokenizer, held_out),
        ),
    )


def warn_long_transcripts(
    config: Speech, train: Sequence[Utterance], frames: Sequence[int]
) -> list[str]:
    """Return a warning where the search could not finish transcripts of letters."""
    if config.tokenizer.kind != "character":
        return []
    search, count = config.search, 0
    for sound, length in zip(train, frames, strict=True):
        keys = round(length * config.keys_per_frame)
        longest = keys * search.length_ratio + search.length_extra
        count += len(sound.transcript) + 1 > longest
    if not count:
        return []
    return [
        f"{count} transcripts have more tokens than an output may have; raise "
        "search.length_ratio, or check that sounds and transcripts belong together"
    ]
