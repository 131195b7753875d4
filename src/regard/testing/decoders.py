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
        memory: What it reads; the test has its dtype.
        length: Number of random tokens in a row.
        tokens: The tokens to use instead, `(batch, position)`.
        tolerance: Absolute and relative; by default that of the dtype.

    Raises:
        AssertionError: A law is broken; the message names it.
    """
    value = memory.value
    if tokens is None:
        shape = len(value), length
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(decoder.output.out_features, shape, generator=generator)
    tokens = tokens.to(value.device)
    decoding = Decoding(deepcopy(decoder).eval(), memory, tokens)
    laws = [
        teacher_forcing_equals_stepping,
        selecting_rows_commutes_with_stepping,
        following_is_selecting_of_one_source,
        batch_size_changes_nothing,
        no_step_sees_its_future,
        recording_changes_nothing,
    ]
    usual = TOLERANCES[value.dtype]
    hold(laws, decoding, usual if tolerance is None else tolerance)


@dataclass(frozen=True)
class Decoding:
    """The decoder under test, its memory and its tokens."""

    decoder: Decoder
    memory: Memory
    tokens: Tensor

    def force(self, memory: Memory, tokens: Tensor) -> Tensor:
        features = self.decoder.features(tokens, self.decoder.start(memory))
        return self.decoder.output(features)

    def start(self) -> State:
        return self.decoder.start(self.memory)

    def step_through(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        logits = []
        for token in tokens.unbind(1):
            step, state = self.decoder.step(token, state)
            logits.append(step)
        return torch.stack(logits, 1), state


def teacher_forcing_equals_stepping(decoding: Decoding) -> Pairs:
    """One pass over all steps equals single steps."""
    stepped, _ = decoding.step_through(decoding.start(), decoding.tokens)
    yield decoding.force(decoding.memory, decoding.tokens), stepped


def selecting_rows_commutes_with_stepping(decoding: Decoding) -> Pairs:
    """Reorder and repeat the rows of a state between steps."""
    tokens = decoding.tokens
    batch, length = tokens.shape
    middle = length // 2
    rows = torch.tensor([batch - 1, 0, 0], device=tokens.device)
    _, state = decoding.step_through(decoding.start(), tokens[:, :middle])
    late = tokens[rows, middle:]
    selected, _ = decoding.step_through(state.select(rows), late)
    yield selected, decoding.force(decoding.memory, tokens)[rows, middle:]


def following_is_selecting_of_one_source(decoding: Decoding) -> Pairs:
    """Two hypotheses of each source may be exchanged at any step."""
    tokens = decoding.tokens
    device = tokens.device
    batch, length = tokens.shape
    middle = length // 2
    sources = torch.arange(batch, device=device).repeat_interleave(2)
    tokens = torch.stack([tokens, tokens.roll(1, 0)], 1).flatten(0, 1)
    pairs = torch.arange(2 * batch, device=device).view(batch, 2)
    rows = pairs.flip(1).flatten()
    state = decoding.start().select(sources)
    _, state = decoding.step_through(state, tokens[:, :middle])
    exchanged = tokens[rows]
    following, _ = decoding.step_through(state.follow(rows), exchanged[:, middle:])
    forced = decoding.force(decoding.memory.select(sources), exchanged)
    yield following, forced[:, middle:]


def batch_size_changes_nothing(decoding: Decoding) -> Pairs:
    """Each row has the same result alone as in a batch."""
    tokens = decoding.tokens
    together = decoding.force(decoding.memory, tokens)
    rows = torch.arange(len(tokens), device=tokens.device)
    for row in rows.split(1):
        memory = decoding.memory.select(row)
        yield decoding.force(memory, tokens[row]), together[row]


def no_step_sees_its_future(decoding: Decoding) -> Pairs:
    """Later tokens do not change earlier outputs."""
    before = decoding.force(decoding.memory, decoding.tokens)
    for now in range(1, decoding.tokens.shape[1]):
        changed = decoding.tokens.clone()
        changed[:, now:] = changed[:, :1]
        yield decoding.force(decoding.memory, changed)[:, :now], before[:, :now]


def recording_changes_nothing(decoding: Decoding) -> Pairs:
    """Compare logits with and without a recorder, and recorded steps with one pass."""
    unrecorded = decoding.force(decoding.memory, decoding.tokens)
    with record(decoding.decoder, may_be_empty=True) as forced:
        yield decoding.force(decoding.memory, decoding.tokens), unrecorded
    with record(decoding.decoder, may_be_empty=True) as stepped:
        logits, _ = decoding.step_through(decoding.start(), decoding.tokens)
        yield logits, unrecorded
    for name, weights in forced.items():
        yield stepped[name], weights
