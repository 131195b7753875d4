"""The laws of decoders."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.nn.decoders import Decoder, State
from regard.testing.laws import TOLERANCES, Pairs, hold


def check_decoder(
    decoder: Decoder,
    memory: Memory,
    *,
    length: int = 7,
    tokens: Tensor | None = None,
    tolerance: float | None = None,
) -> None:
    """Test a decoder against the laws of its protocol.

    Args:
        decoder: The decoder.
        memory: What it reads; the test has its dtype.
        length: Number of random tokens in a row.
        tokens: The tokens to use instead, `(batch, position)`.
        tolerance: Absolute and relative; by default that of the dtype.

    Raises:
        AssertionError: A law is broken; the message names it.
    """
    if tokens is None:
        shape = len(memory.value), length
        tokens = torch.randint(
            decoder.output.out_features,
            shape,
            generator=torch.Generator().manual_seed(0),
        )
    decoding = Decoding(
        deepcopy(decoder).eval(), memory, tokens.to(memory.value.device)
    )
    laws = [
        teacher_forcing_equals_stepping,
        selecting_rows_commutes_with_stepping,
        following_is_selecting_of_one_source,
        batch_size_changes_nothing,
        no_step_sees_its_future,
        recording_changes_nothing,
    ]
    default = TOLERANCES[memory.value.dtype]
    hold(
        ((law.__name__, law(decoding)) for law in laws),
        default if tolerance is None else tolerance,
    )


@dataclass(frozen=True)
class Decoding:
    """The decoder under test, its memory and its tokens."""

    decoder: Decoder
    memory: Memory
    tokens: Tensor

    def force(self, memory: Memory, tokens: Tensor) -> Tensor:
        return self.decoder.output(
            self.decoder.features(tokens, self.decoder.start(memory))
        )

    def step_through(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        logits = []
        for token in tokens.unbind(1):
            step, state = self.decoder.step(token, state)
            logits.append(step)
        return torch.stack(logits, 1), state


def teacher_forcing_equals_stepping(decoding: Decoding) -> Pairs:
    """One pass over all steps equals single steps."""
    stepped, _ = decoding.step_through(
        decoding.decoder.start(decoding.memory), decoding.tokens
    )
    yield decoding.force(decoding.memory, decoding.tokens), stepped


def selecting_rows_commutes_with_stepping(decoding: Decoding) -> Pairs:
    """Reorder and repeat the rows of a state between steps."""
    batch, length = decoding.tokens.shape
    rows = torch.tensor([batch - 1, 0, 0], device=decoding.tokens.device)
    early, late = decoding.tokens.split([length // 2, length - length // 2], 1)
    _, state = decoding.step_through(decoding.decoder.start(decoding.memory), early)
    selected, _ = decoding.step_through(state.select(rows), late[rows])
    yield (
        selected,
        decoding.force(decoding.memory, decoding.tokens)[rows, length // 2 :],
    )


def following_is_selecting_of_one_source(decoding: Decoding) -> Pairs:
    """Two hypotheses of each source may be exchanged at any step."""
    batch, length = decoding.tokens.shape
    sources = torch.arange(batch, device=decoding.tokens.device).repeat_interleave(2)
    tokens = torch.stack([decoding.tokens, decoding.tokens.roll(1, 0)], 1).flatten(0, 1)
    rows = (
        torch.arange(2 * batch, device=tokens.device).view(batch, 2).flip(1).flatten()
    )
    early, late = tokens.split([length // 2, length - length // 2], 1)
    _, state = decoding.step_through(
        decoding.decoder.start(decoding.memory).select(sources), early
    )
    following, _ = decoding.step_through(state.follow(rows), late[rows])
    yield (
        following,
        decoding.force(decoding.memory.select(sources), tokens[rows])[:, length // 2 :],
    )


def batch_size_changes_nothing(decoding: Decoding) -> Pairs:
    """Each row has the same result alone as in a batch."""
    together = decoding.force(decoding.memory, decoding.tokens)
    for row in torch.arange(len(decoding.tokens), device=decoding.tokens.device).split(
        1
    ):
        yield (
            decoding.force(decoding.memory.select(row), decoding.tokens[row]),
            together[row],
        )


def no_step_sees_its_future(decoding: Decoding) -> Pairs:
    """Later tokens do not change earlier outputs."""
    before = decoding.force(decoding.memory, decoding.tokens)
    for now in range(decoding.tokens.shape[1] - 1):
        later = decoding.tokens.clone()
        later[:, now + 1 :] = later[:, :1]
        yield (
            decoding.force(decoding.memory, later)[:, : now + 1],
            before[:, : now + 1],
        )


def recording_changes_nothing(decoding: Decoding) -> Pairs:
    """Compare logits with and without a recorder, and recorded steps with one pass."""
    unrecorded = decoding.force(decoding.memory, decoding.tokens)
    with record(decoding.decoder) as forced:
        yield decoding.force(decoding.memory, decoding.tokens), unrecorded
    with record(decoding.decoder) as stepped:
        yield (
            decoding.step_through(
                decoding.decoder.start(decoding.memory), decoding.tokens
            )[0],
            unrecorded,
        )
    for name, weights in forced.items():
        yield stepped[name], weights
