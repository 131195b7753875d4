"""Ensembles: several models that predict each token together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.nn.decoders import Decoder, State
from regard.nn.encoder_decoder import Encoder, EncoderDecoder
from regard.nn.output import CopyOutput, Output
from regard.shapes import Float, Lengths, Step, Tokens


@dataclass(frozen=True, eq=False)
class Memories(Memory):
    """The memories of all members.

    Keys, values and mask are the first member's.
    """

    members: tuple[Memory, ...] = ()

    def select(self, rows: Tensor) -> "Memories":
        return join_memories([member.select(rows) for member in self.members])


def join_memories(members: Sequence[Memory]) -> Memories:
    """Join the members' memories into one."""
    first = members[0]
    parts = first.key, first.value, first.mask, first.summary, first.tokens
    return Memories(*parts, zero_masked=False, members=tuple(members))


class EnsembleEncoder(Encoder):
    """Encode the source with each member."""

    def __init__(self, members: Sequence[Encoder]):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.memory_width, self.summary_width = (
            members[0].memory_width,
            members[0].summary_width,
        )

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memories:
        return join_memories([member(tokens, lengths) for member in self.members])


@dataclass(frozen=True, eq=False)
class EnsembleState(State):
    """The members' states."""

    members: tuple[State, ...]


class Unchanged(Output):
    """The output layer of a decoder whose features are logits already.

    An identity without a matrix.
    """

    def __init__(self, vocabulary: int):
        nn.Module.__init__(self)
        self.in_features = self.out_features = vocabulary

    def forward(self, input: Tensor) -> Tensor:
        return input

    def reset_parameters(self) -> None:
        """There are no parameters."""


def _names(readers: Sequence[str | tuple[str, ...] | None]) -> Iterator[str]:
    """Names of the members' source attention within the ensemble.

    The recorder names a module `x.attend` by `x`.
    """
    for number, reader in enumerate(readers):
        for name in (reader,) if isinstance(reader, str) else reader or ():
            yield from {
                f"members.{number}.{name}",
                f"members.{number}.{name}".removesuffix(".attend"),
            }


class EnsembleDecoder(Decoder[EnsembleState]):
    """A decoder whose features are the logarithm of the mean of the members' probabilities."""

    def __init__(self, members: Sequence[Decoder]):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.output = Unchanged(members[0].output.out_features)
        readers = [member.source_attention for member in members]
        self.source_attention = tuple(_names(readers)) if None not in readers else None

    @property
    def decoders(self) -> list[Decoder]:
        """The members."""
        return [member for member in self.members if isinstance(member, Decoder)]

    def start(self, memory: Memory) -> EnsembleState:
        assert isinstance(memory, Memories)
        pairs = zip(self.decoders, memory.members, strict=True)
        return EnsembleState(
            tuple(member.start(member_memory) for member, member_memory in pairs)
        )

    def advance(
        self, tokens: Step, state: EnsembleState
    ) -> tuple[Float[Tensor, "batch vocabulary"], EnsembleState]:
        steps = [
            member.step(tokens, member_state)
            for member, member_state in zip(self.decoders, state.members, strict=True)
        ]
        scores = torch.stack([logits.float().log_softmax(-1) for logits, _ in steps])
        mean = scores.logsumexp(0) - torch.tensor(float(len(steps))).log()
        return mean, EnsembleState(tuple(member_state for _, member_state in steps))


class Ensemble(EncoderDecoder):
    """The mean of the members' next-token probabilities.

    Members share both vocabularies.

    Raises:
        ValueError: The target vocabularies differ in size, or only some members
            copy source words outside the vocabulary.
    """

    def __init__(self, members: Sequence[EncoderDecoder]):
        sizes = {member.decoder.output.out_features for member in members}
        if len(sizes) != 1:
            raise ValueError(
                f"the members' target vocabularies have {sorted(sizes)} entries; they need one vocabulary"
            )
        if (
            len({isinstance(member.decoder.output, CopyOutput) for member in members})
            != 1
        ):
            raise ValueError(
                "some members copy words that only their source has, which others cannot read; join models of one kind"
            )
        super().__init__(
            EnsembleEncoder([member.encoder for member in members]),
            EnsembleDecoder([member.decoder for member in members]),
        )
        self.max_source = min(
            (model.max_source for model in members if model.max_source is not None),
            default=None,
        )
        self.max_target = min(
            (model.max_target for model in members if model.max_target is not None),
            default=None,
        )
