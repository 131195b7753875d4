"""The steps of a recurrent decoder in a search by the kernel: instructions on registers, which hold one row of numbers
for each hypothesis."""

import ctypes
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from regard.kernels.fused_layer import (
    Affine,
    KernelAttention,
    LinearStruct,
    ReadableStruct,
    linear_struct,
    place,
    readable_struct,
)
from regard.kernels.fused_search import SearchPlan
from regard.kernels.libraries import threads

KINDS = ("embed", "copy", "map", "cell", "read")
AFTER = ("nothing", "tanh", "maxout")
CELLS = ("tanh", "gru", "lstm", "reset", "update")
"""In the order of the kernel's constants."""
_pointer, _size, _half = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32


class Place(NamedTuple):
    """A register, and its first number that is written or read."""

    register: int
    first: int = 0


@dataclass(frozen=True)
class Source:
    """Prepared keys and values `(source, head, key, width)`, and the readable length of each source, `(source,)`; None
    for all of it. With an energy scores are additive, and keys have their exponentials."""

    key: Tensor
    value: Tensor
    lengths: Tensor | None = None
    exponentials: Tensor | None = None
    energy: Tensor | None = None


class _Source(ctypes.Structure):
    _fields_ = [
        ("memory", ReadableStruct),
        *((name, _pointer) for name in ("lengths", "exponentials", "energy")),
        *((name, _size) for name in ("heads", "keys", "key_width", "value_width")),
    ]


class _Instruction(ctypes.Structure):
    _fields_ = [
        *((name, _half) for name in ("kind", "variant")),
        ("from_", _size * 3),
        *((name, _size) for name in ("to", "place", "first", "count")),
        ("linear", LinearStruct),
        ("table", _pointer),
        ("scale", ctypes.c_float),
        ("source", ctypes.POINTER(_Source)),
    ]


class _Register(ctypes.Structure):
    _fields_ = [("width", _size), ("first", _pointer)]


class _Program(ctypes.Structure):
    _fields_ = [
        ("registers", ctypes.POINTER(_Register)),
        ("register_count", _size),
        ("instructions", ctypes.POINTER(_Instruction)),
        *((name, _size) for name in ("instruction_count", "sources", "features")),
        ("output", LinearStruct),
    ]


class RecurrentSteps:
    """A decoder's step. Instructions are done in the order in which the methods add them; then the `features` of the
    next token are in one register, of which `output` computes logits."""

    def __init__(self) -> None:
        self._registers: list[_Register] = []
        self._instructions: list[_Instruction] = []
        self._kept: list[object] = []
        self._sources = 0
        self.features = 0
        self.output: Affine | None = None

    def register(self, width: int) -> int:
        """A new register."""
        self._registers.append(_Register(width, None))
        return len(self._registers) - 1

    def carried(self, first: Tensor) -> int:
        """A new register whose content is carried to the next step; at first it is `(source, width)`."""
        first = first.contiguous()
        self._kept.append(first)
        self._sources = len(first)
        self._registers.append(_Register(first.shape[1], first.data_ptr()))
        return len(self._registers) - 1

    def width(self, register: int) -> int:
        """The width of a register."""
        return self._registers[register].width

    def embed(self, table: Tensor, scale: float, to: Place) -> None:
        """The vectors of the last tokens times `scale`."""
        instruction = self._add("embed", to, count=table.shape[1], scale=scale)
        self._kept.append(table)
        instruction.table = table.data_ptr()

    def copy(
        self, of: int, to: Place, first: int = 0, count: int | None = None
    ) -> None:
        """Numbers of a register, `count` from `first` on; by default all."""
        self._add(
            "copy",
            to,
            of,
            first=first,
            count=self.width(of) if count is None else count,
        )

    def map(
        self,
        affine: Affine,
        of: int,
        to: Place,
        after: str = "nothing",
        scale: float = 1.0,
    ) -> None:
        """A linear map of a register, times `scale`; then one of `AFTER`, of which `maxout` keeps the greater of each
        pair."""
        instruction = self._add("map", to, of, variant=AFTER.index(after), scale=scale)
        self._kept.append(affine)
        instruction.linear = linear_struct(affine)

    def cell(self, name: str, of: tuple[int, ...], to: int) -> None:
        """The new state in the register `to` of a cell, one of `CELLS`, of the projected input, the projected state,
        and a third register: an LSTM's own memory; the state for `reset`; the candidate's map for `update`."""
        self._add(
            "cell", Place(to), *of, variant=CELLS.index(name), count=self.width(to)
        )

    def read(self, source: Source, query: int, to: Place) -> None:
        """The context of a query; scores of products are those of a query that is scaled already."""
        key, value = source.key, source.value
        memory = readable_struct(KernelAttention(value, value))
        memory.key = key.data_ptr()
        described = _Source(
            memory, *map(place, (source.lengths, source.exponentials, source.energy))
        )
        described.heads, described.keys, described.key_width = key.shape[1:]
        described.value_width = value.shape[-1]
        self._kept += [source, described]
        self._add("read", to, query).source = ctypes.pointer(described)

    def _add(self, kind: str, to: Place, *of: int, **more: int | float) -> _Instruction:
        found = _Instruction(
            KINDS.index(kind),
            from_=(_size * 3)(*of),
            to=to.register,
            place=to.first,
            **more,
        )
        self._instructions.append(found)
        return found

    def start(self, kernel: ctypes.CDLL, plan: SearchPlan) -> int:
        """As `Steps`."""
        assert self.output is not None
        counts = len(self._registers), len(self._instructions)
        registers, code = (
            (_Register * counts[0])(*self._registers),
            (_Instruction * counts[1])(*self._instructions),
        )
        program = _Program(
            registers, counts[0], code, counts[1], self._sources, self.features
        )
        program.output = linear_struct(self.output)
        start = kernel.recurrent_steps
        start.argtypes, start.restype = (
            [ctypes.POINTER(_Program), _size, _pointer],
            _pointer,
        )
        return start(program, plan.texts, threads())
