"""Learning is a test: tiny models copy and reverse in seconds, and look where they must."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
import torch
from torch import Tensor

from regard.attribution.attention import record_source_attention
from regard.data.batches import collate
from regard.decoding.sampling import greedy
from regard.models.luong import Luong, LuongConfig
from regard.models.pair import ConvolutionalConfig, Pair, PairConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.decoders import EncoderDecoder

Words = list[int]
Order = Callable[[Words], Words]

VOCABULARY = 12
LENGTHS = 3, 4, 5, 6
LUONG = LuongConfig(embedding=32, width=32, layers=1, cell="gru", bidirectional=True, dropout=0.0)
TRANSFORMER = TransformerConfig(
    layers=2, width=32, hidden=32, heads=1, positions="learned", max_length=LENGTHS[-1] + 1, dropout=0.0
)


def pair(encoder: TransformerConfig | ConvolutionalConfig) -> EncoderDecoder:
    """Another encoder with Luong's decoder."""
    return Pair(VOCABULARY, VOCABULARY, PairConfig(encoder=encoder, decoder=LUONG))


@dataclass(frozen=True)
class Lesson:
    """A model, and how long it is taught."""

    model: Callable[[], EncoderDecoder]
    steps: int
    rows: int
    rate: float


LESSONS = {
    "luong": Lesson(lambda: Luong(VOCABULARY, VOCABULARY, LUONG), 100, 32, 1e-2),
    "transformer": Lesson(lambda: Transformer(VOCABULARY, VOCABULARY, TRANSFORMER), 250, 64, 5e-3),
    "mixed": Lesson(lambda: pair(TRANSFORMER), 150, 32, 1e-2),
    "convolutional": Lesson(lambda: pair(ConvolutionalConfig(width=32, layers=2, dropout=0.0)), 150, 32, 1e-2),
}


def copied(words: Words) -> Words:
    return words


def reverse(words: Words) -> Words:
    return words[::-1]


def examples(count: int, order: Order, random: Random) -> list[tuple[Words, Words]]:
    """Sequences in which no word comes twice, so that each has one place to be looked up at."""
    sources = [random.sample(range(4, VOCABULARY), random.choice(LENGTHS)) for _ in range(count)]
    return [(source, order(source)) for source in sources]


def learn(lesson: Lesson, order: Order) -> EncoderDecoder:
    model, random, steps = lesson.model(), Random(1), lesson.steps
    optimizer = torch.optim.Adam(model.parameters(), lr=lesson.rate, betas=(0.9, 0.98), fused=True)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20) * (1 - step / steps))
    for _ in range(steps):
        batch = collate(examples(lesson.rows, order, random))
        features = model.features(batch.source, batch.source_lengths, batch.target_in)
        loss, _ = model.decoder.output.loss(features, batch.target_out)
        optimizer.zero_grad()
        (loss / batch.target_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
    return model.eval()


@pytest.mark.parametrize("order", [copied, reverse])
@pytest.mark.parametrize("name", LESSONS)
def test_learns_and_looks_along_a_diagonal(name: str, order: Order):
    """At least 95 of 100 new sequences are right, and for each length the mean map of the last layer has its greatest
    weights on the diagonal (copy) or the anti-diagonal (reverse)."""
    model = learn(LESSONS[name], order)
    held_out = examples(100, order, Random(2))
    batch = collate(held_out)
    found = greedy(model.decoder, model.encoder(batch.source, batch.source_lengths), max_length=LENGTHS[-1] + 1)
    right = [list(one.tokens) == target and one.finished for (one,), (_, target) in zip(found, held_out, strict=True)]
    assert sum(right) >= 95
    maps = record_source_attention(model, held_out)
    for length in LENGTHS:
        alike = [each[-1] for each, (source, _) in zip(maps, held_out, strict=True) if len(source) == length]
        assert greatest(alike)[:length] == order(list(range(length)))


def greatest(maps: list[Tensor]) -> list[int]:
    """For each target position the source position that is looked at most."""
    return torch.stack(maps).mean(0).argmax(-1).tolist()
