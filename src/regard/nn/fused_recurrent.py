"""Recurrent decoders' steps as instructions of the kernel for searches, module by module."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.align import Softmax
from regard.attention.fast import FAST
from regard.attention.heads import MultiHead
from regard.attention.masks import Padding
from regard.attention.memory import Memory
from regard.attention.observer import current
from regard.attention.scores import Additive, Dot, General, ScaledDot
from regard.attention.scores.protocol import unmodified as runs
from regard.kernels.fused_layer import Affine, serves
from regard.kernels.fused_search import FusedSearch, SearchPlan
from regard.kernels.recurrent_steps import Place, RecurrentSteps, Source
from regard.nn.cells import Cell, GRUCell, GRUResetBefore, LSTMCell, Stack, TanhCell
from regard.nn.decoders.protocol import Decoder, State
from regard.nn.embeddings import Embedding, TokenEmbedding
from regard.nn.fast_linear import affine
from regard.nn.recurrent import PlainLSTM, Recurrent

NAMES: dict[type[nn.Module], str] = {
    nn.RNN: "tanh",
    nn.GRU: "gru",
    nn.LSTM: "lstm",
    PlainLSTM: "lstm",
}
"""The kernel's name of the cell in each of PyTorch's networks."""


S = TypeVar("S", bound=State)


class UnservedError(Exception):
    """A part of a decoder has no instruction, so that only steps serve."""


class DecoderSteps(RecurrentSteps):
    """Instructions of a decoder's modules. Methods raise `UnservedError` for a part that has none."""

    def embedded(self, embedding: Embedding, to: Place) -> None:
        """The vectors of the last tokens."""
        require(type(embedding) is TokenEmbedding)
        table = cast(TokenEmbedding, embedding).table.weight
        require(served(table))
        self.embed(table, cast(TokenEmbedding, embedding).scale, to)

    def mapped(
        self,
        module: nn.Module,
        of: int,
        to: Place,
        after: str = "nothing",
        scale: float = 1.0,
    ) -> None:
        """A linear map of a register."""
        self.map(known(affine(module)), of, to, after, scale)

    def stack(self, stack: Stack, inputs: int, states: list[tuple[int, ...]]) -> int:
        """One step of a stack of cells; each has the registers `states`. The register of the top layer's output."""
        require(type(stack) is Stack)
        for cell, registers in zip(stack.cells, states, strict=True):
            self._cell(cast(Cell, cell), inputs, registers)
            inputs = registers[0]
        return inputs

    def network(self, recurrent: Recurrent, inputs: int, state: Tensor) -> int:
        """One step of a recurrent network from its state `(source, layer, state_width)`, as `stack`."""
        name = NAMES.get(type(recurrent.network))
        require(type(recurrent) is Recurrent and name is not None)
        for weights, registers in zip(
            recurrent.network.all_weights,
            self.states(state, recurrent.width),
            strict=True,
        ):
            self._gates(str(name), weights, inputs, registers)
            inputs = registers[0]
        return inputs

    def states(self, cells: Tensor, width: int) -> list[tuple[int, ...]]:
        """The carried registers of each layer of `cells (source, layer, state_width)`, one for each part of the state
        of this width: an LSTM's have two."""
        return [
            tuple(self.carried(part) for part in layer.split(width, -1))
            for layer in cells.unbind(1)
        ]

    def read_with(
        self, attend: nn.Module, memory: Memory, query: int, to: Place
    ) -> None:
        """The context of the query in a register."""
        if type(attend) is MultiHead:
            heads = cast(MultiHead, attend)
            require(
                heads.key_value_heads == heads.heads
                and type(heads.attend.score) is ScaledDot
            )
            require(
                memory.key.stride() == memory.value.stride()
                and memory.key.shape == memory.value.shape
            )
            require(heads.positions is None)
            self._check(heads.attend, memory)
            score = cast(ScaledDot, heads.attend.score)
            width = heads.query.out_features
            projected, context = self.register(width), self.register(width)
            self.mapped(
                heads.query,
                query,
                Place(projected),
                scale=scale_of(score, width // heads.heads),
            )
            self.read(
                Source(memory.key, memory.value, lengths_of(memory)),
                projected,
                Place(context),
            )
            self.mapped(heads.output, context, to)
            return
        require(type(attend) is Attend)
        self._check(cast(Attend, attend), memory)
        self._read(cast(Attend, attend), memory, query, to)

    def _read(self, attend: Attend, memory: Memory, query: int, to: Place) -> None:
        key, value, score = (
            memory.key.contiguous(),
            memory.value.contiguous(),
            attend.score,
        )
        exponentials = energy = weight = None
        match score:
            case Additive(query_weight=weight) if (
                runs(score, Additive) and memory.exponentials is not None
            ):
                exponentials, energy = memory.exponentials.contiguous(), score.energy
            case General(weight=weight) if runs(score, General):
                pass
            case ScaledDot() if runs(score, ScaledDot):
                key = key * scale_of(
                    score, key.shape[-1]
                )  # once, and not the query at every step
            case _:
                require(type(score) is Dot)
        require(energy is not None or key.shape == value.shape)
        if weight is not None:
            projected = self.register(weight.shape[1])
            self.map(Affine(weight.t().contiguous(), None), query, Place(projected))
            query = projected
        self.read(
            Source(
                key[:, None], value[:, None], lengths_of(memory), exponentials, energy
            ),
            query,
            to,
        )

    def _check(self, attend: Attend, memory: Memory) -> None:
        plain = (
            type(attend) is Attend
            and type(attend.align) is Softmax
            and attend.fast is FAST
        )
        require(plain and memory.bias is None)
        require(memory.mask is None or isinstance(memory.mask, Padding))
        require(
            memory.key.dtype == memory.value.dtype == torch.float32
            and memory.key.stride(-1) == 1
        )

    def _cell(self, cell: Cell, inputs: int, state: tuple[int, ...]) -> None:
        match cell:
            case GRUResetBefore() if type(cell) is GRUResetBefore:
                width, (before,) = cell.width, state
                projected, gates = self.register(3 * width), self.register(2 * width)
                reset, candidate = self.register(width), self.register(width)
                self.mapped(cell.inputs, inputs, Place(projected))
                self.mapped(cell.gates, before, Place(gates))
                self.cell("reset", (projected, gates, before), reset)
                self.mapped(cell.candidate, reset, Place(candidate))
                self.cell("update", (projected, gates, candidate), before)
            case TanhCell() | GRUCell() | LSTMCell() if type(cell) in (
                TanhCell,
                GRUCell,
                LSTMCell,
            ):
                name = {TanhCell: "tanh", GRUCell: "gru", LSTMCell: "lstm"}[type(cell)]
                inner = cell.cell
                self._gates(
                    name,
                    [inner.weight_ih, inner.weight_hh, inner.bias_ih, inner.bias_hh],
                    inputs,
                    state,
                )
            case _:
                raise UnservedError

    def _gates(
        self, name: str, weights: Sequence[Tensor], inputs: int, state: tuple[int, ...]
    ) -> None:
        """A cell of PyTorch's with its weights."""
        require(len(weights) == 4 and all(map(served, weights)))
        of_input, of_state, input_bias, state_bias = weights
        projected, gates = (self.register(len(of_input)) for _ in range(2))
        self.map(Affine(of_input, input_bias), inputs, Place(projected))
        self.map(Affine(of_state, state_bias), state[0], Place(gates))
        self.cell(name, (projected, gates, *state[1:]), state[0])


def scale_of(score: ScaledDot, width: int) -> float:
    """The factor of the products of keys of this width."""
    return max(width, 1) ** -0.5 if score.scale is None else score.scale


def lengths_of(memory: Memory) -> Tensor | None:
    """The readable length of each source, `(source,)`; None for all of it."""
    return None if memory.lengths is None else memory.lengths.flatten().contiguous()


def served(weight: Tensor) -> bool:
    """Whether the kernel can read this weight in place."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.is_contiguous()
    )


def known(found: Affine | None) -> Affine:
    """The linear map. Raises UnservedError if there is none."""
    if found is None:
        raise UnservedError
    return found


def require(condition: bool) -> None:
    """Raises UnservedError if the condition does not hold."""
    if not condition:
        raise UnservedError


class FusedRecurrentDecoder(Decoder[S]):
    """A decoder whose searches the kernel can do as a whole, to be inherited before the plain decoder."""

    @abstractmethod
    def write(self, steps: DecoderSteps, state: S) -> int:
        """Add the instructions of a step from the first state. Returns the register of the features."""

    def search(self, memory: Memory, plan: SearchPlan) -> FusedSearch | None:
        """A search by the kernel; None where only steps serve: something observes the inside, or a part has no
        instruction."""
        observed = current() is not None or not all(
            runs(each, type(each)) for each in self.modules()
        )
        if (
            observed
            or self.training
            or not serves(memory.value)
            or not len(plan.limits)
        ):
            return None
        steps = DecoderSteps()
        try:
            steps.features = self.write(steps, self.start(memory))
            steps.output = known(affine(self.output))
        except UnservedError:
            return None
        return FusedSearch(steps, plan)
