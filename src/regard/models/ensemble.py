"""Ensembles: several models that predict each token together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.nn.decoders import Decoder, Encoder, EncoderDecoder, State
from regard.nn.output import CopyOutput, LogitsOutput
from regard.shapes import Lengths, Step, Tokens


@dataclass(frozen=True, eq=False)
class Memories(Memory):
    """The memories of all members.

    Keys, values and mask are the first member's.
    """

    members: tuple[Memory, ...] = ()

    @classmethod
    def join(cls, memories: Iterable[Memory]) -> "Memories":
        """Join the members' memories into one."""
        first, *further = memories
        parts = first.key, first.value, first.mask, first.summary, first.tokens
        return cls(*parts, zero_masked=False, members=(first, *further))

    def select(self, rows: Tensor) -> "Memories":
        return Memories.join(member.select(rows) for member in self.members)


class EnsembleEncoder(Encoder):
    """Encode the source with each member."""

    def __init__(self, members: Sequence[Encoder]):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.memory_width = members[0].memory_width
        self.summary_width = members[0].summary_width

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memories:
        return Memories.join(member(tokens, lengths) for member in self.members)


@dataclass(frozen=True, eq=False)
class EnsembleState(State):
    """The members' states."""

    members: tuple[State, ...]


class EnsembleDecoder(Decoder[EnsembleState]):
    """A decoder whose features are the logarithm of the mean of the members' probabilities."""

    def __init__(self, members: Sequence[Decoder]):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.output = LogitsOutput(members[0].output.out_features)
        names: list[str] = []
        for number, member in enumerate(members):
            readers = member.source_attention or ()
            for name in (readers,) if isinstance(readers, str) else readers:
                full = f"members.{number}.{name}"
                # the recorder names a module `x.attend` by `x`
                names += {full, full.removesuffix(".attend")}
        attending = all(member.source_attention is not None for member in members)
        self.source_attention = tuple(names) if attending else None

    def start(self, memory: Memory) -> EnsembleState:
        members = cast("Sequence[Decoder]", self.members)
        pairs = zip(members, cast(Memories, memory).members, strict=True)
        return EnsembleState(tuple(member.start(part) for member, part in pairs))

    def advance(
        self,
        tokens: Step,
        state: EnsembleState,
    ) -> tuple[Tensor, EnsembleState]:
        members = cast("Sequence[Decoder]", self.members)
        scores = []
        states = []
        for member, before in zip(members, state.members, strict=True):
            logits, after = member.step(tokens, before)
            scores.append(logits.float().log_softmax(-1))
            states.append(after)
        total = torch.stack(scores).logsumexp(0)
        mean = total - torch.tensor(float(len(scores))).log()
        return mean, EnsembleState(tuple(states))


class Ensemble(EncoderDecoder):
    """The mean of the members' next-token probabilities.

    Members share both vocabularies.

    Raises:
        ValueError: The target vocabularies differ in size, or only some members
            copy source words outside the vocabulary.
    """

    def __init__(self, members: Sequence[EncoderDecoder]):
        outputs = [member.decoder.output for member in members]
        sizes = {output.out_features for output in outputs}
        if len(sizes) != 1:
            raise ValueError(
                f"the members' target vocabularies have {sorted(sizes)} entries; they need one vocabulary"
            )
        if len({isinstance(output, CopyOutput) for output in outputs}) != 1:
            raise ValueError(
                "some members copy words that only their source has, which others cannot read; join models of one kind"
            )
        super().__init__(
            EnsembleEncoder([member.encoder for member in members]),
            EnsembleDecoder([member.decoder for member in members]),
        )
        sources = [member.max_source for member in members]
        targets = [member.max_target for member in members]
        self.max_source = min(filter(None, sources), default=None)
        self.max_target = min(filter(None, targets), default=None)
