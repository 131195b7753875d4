"""Training of recognisers: sounds and transcripts in batches, the loss and the metrics."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.data.token_batches import batch_size, require_room, token_batches
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import Search
from regard.metrics.error_rates import ERROR_RATES
from regard.models.chorowski import Chorowski, ChorowskiConfig
from regard.models.recogniser import Recogniser
from regard.models.speech_transformer import SpeechTransformer
from regard.nn.encoder_decoder import MemoryReader
from regard.tasks.speech.attribution import INSIDE, inside
from regard.tasks.speech.config import Speech
from regard.tasks.speech.data import SpeechBatch, Utterance, collate_speech, padded
from regard.text import Tokenizer
from regard.text.special import IGNORED
from regard.training.attention_losses import AttentionLoss
from regard.training.objective import Carried, Loss
from regard.work import computed

ROWS = 32
"""Sounds in one batch of decoding."""


def build(config: Speech, vocabulary: int) -> Recogniser:
    """The model of a run file, with fresh weights."""
    model, mels = config.model, config.audio.mels
    if isinstance(model, ChorowskiConfig):
        return Chorowski(vocabulary, mels, model)
    return SpeechTransformer(vocabulary, mels, model)


class SpeechObjective:
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
        """`frames` are the numbers of frames of the training examples. Raises InputError for no sounds, for one
        longer than a batch, and for an attention loss that the model does not allow."""
        self.train, self.valid, self.tokenizer, self.config = (
            train,
            valid,
            tokenizer,
            config,
        )
        self.settings, self.metric = config.training, config.metrics[0]
        self.attention_loss = AttentionLoss(config.attention_losses, model.decoder)
        self.ids = [tokenizer.encode(each.transcript) for each in train]
        self.lengths = [
            (count, len(ids) + 1) for count, ids in zip(frames, self.ids, strict=True)
        ]
        require_room(self.lengths, self.settings.batch_tokens, self.place, "sound")
        self.tokens = batch_size(
            self.lengths, self.settings.batch_tokens, "training sounds"
        )

    def place(self, index: int) -> str:
        """Where a training example came from."""
        return self.train[index].place

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> SpeechBatch:
        masking, seed = self.config.masking, self.settings.seed
        features = [self.train[index].features(self.config.audio) for index in indices]
        examples = [
            (masking(found, seed, epoch, index), self.ids[index])
            for found, index in zip(features, indices, strict=True)
        ]
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
        total = self.attention_loss.of(
            MemoryReader(model.decoder), (memory,), batch, self.settings, update
        )
        if model.connectionist is not None:
            share = self.config.model.ctc
            total = (1 - share) * total + share * self._connectionist(
                model, memory.value, batch
            )
        return Loss(total, batch.target_tokens)

    def _connectionist(
        self, model: Recogniser, states: Tensor, batch: SpeechBatch
    ) -> Tensor:
        assert model.connectionist is not None
        special = self.tokenizer.special
        lengths = (batch.target_out != IGNORED).sum(1) - 1
        return model.connectionist(
            states,
            batch.source_lengths,
            batch.target_out[:, :-1],
            lengths,
            blank=special.start,
        )

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Recogniser)
        return figures(
            model,
            self.tokenizer,
            self.valid,
            self.config,
            self.config.search.searching(beam=1),
        )


@torch.no_grad()
def decode(
    model: Recogniser,
    sounds: Sequence[Utterance],
    config: Speech,
    search: Search,
    constraints: DecodingConstraints | None = None,
) -> list[list[Hypothesis]]:
    """The transcripts of each sound under the constraints, best first. Raises InputError for one that cannot be read,
    and ValueError where the search finds fewer."""

    def decoded(first: int) -> list[list[Hypothesis]]:
        memory, limit = encoded(model, sounds[first : first + ROWS], config, search)
        return search(model.decoder, memory, limit, constraints)

    return [
        each for some in computed(decoded, range(0, len(sounds), ROWS)) for each in some
    ]


@torch.no_grad()
def encoded(
    model: Recogniser, sounds: Sequence[Utterance], config: Speech, search: Search
) -> tuple[Memory, Tensor]:
    """The memory of sounds, and the limit of tokens of each transcript, `(batch,)`. Raises InputError for a sound that
    cannot be read."""
    device = next(model.parameters()).device
    frames, lengths = padded([each.features(config.audio) for each in sounds])
    memory = model.encoder(frames.to(device), lengths.to(device))
    return memory, search.limit((lengths * config.keys_per_frame).to(device))


def figures(
    model: Recogniser,
    tokenizer: Tokenizer,
    sounds: Sequence[Utterance],
    config: Speech,
    search: Search,
) -> dict[str, float]:
    """The run's metrics, and the share of the weights that is inside of each word's span where spans are known."""
    found = [
        tokenizer.decode(list(best.tokens))
        for best, *_ in decode(model, sounds, config, search)
    ]
    references = [each.transcript for each in sounds]
    scores = {name: ERROR_RATES[name](found, references) for name in config.metrics}
    share = inside(model, tokenizer, sounds, config)
    return scores if share is None else scores | {INSIDE: share}
