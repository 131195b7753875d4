"""Which parts of a model a pass goes through, with which shapes, and what each of them is given from which others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from torch import Tensor, nn

from regard.attention.memory import Memory

METHODS = "forward", "read", "features", "loss"
"""By which a part may be called."""
Shape = tuple[int, ...]
Maker = tuple[str, int]
"""A part's name, and the number of the call."""


@dataclass
class Box:
    """A part with the shapes of its inputs and outputs at each call.

    `sources` says by name which parts its inputs came from, and whether such a call ever came later than its own.
    """

    name: str
    given: list[list[Shape]] = field(default_factory=list)
    gave: list[list[Shape]] = field(default_factory=list)
    sources: dict[str, bool] = field(default_factory=dict)


class Flow:
    """The boxes of a pass by name, in the order of their first calls.

    The graph that autograd keeps tells where a tensor comes from; without a gradient its address does.
    """

    def __init__(self, inputs: Mapping[str, Tensor]):
        self.boxes = {name: Box(name, [[]], [[tuple(tensor.shape)]]) for name, tensor in inputs.items()}
        self._nodes: dict[Any, Maker] = {}
        self._places: dict[int, Maker] = {}
        self._alive: list[Tensor] = []
        self._inside = False
        for name, tensor in inputs.items():
            self.made((name, 0), [tensor])

    def made(self, by: Maker, tensors: Sequence[Tensor]) -> None:
        """Remember who made them."""
        for tensor in tensors:
            self._alive.append(tensor)
            if tensor.grad_fn is None:
                self._places[tensor.untyped_storage().data_ptr()] = by
            else:
                self._nodes[tensor.grad_fn] = by

    def makers(self, tensors: Sequence[Tensor]) -> set[Maker]:
        """Who made them, or what they were made of."""
        found = {self._places.get(each.untyped_storage().data_ptr()) for each in tensors if each.grad_fn is None}
        left: list[Any] = [each.grad_fn for each in tensors if each.grad_fn is not None]
        seen = set()
        while left:
            node = left.pop()
            if node in seen or node is None:
                continue
            seen.add(node)
            if node in self._nodes:
                found.add(self._nodes[node])
            elif not node.next_functions:  # what gathers the gradient of a leaf
                found.add(self._places.get(node.variable.untyped_storage().data_ptr()))
            else:
                left += [before for before, _ in node.next_functions]
        return {maker for maker in found if maker is not None}

    def call(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a part, and write down what goes in and comes out; not what it does inside."""
        if self._inside:
            return method(*args, **kwargs)
        self._inside = True
        given = [*tensors(args), *tensors([*kwargs.values()])]
        makers = self.makers(given)
        result = method(*args, **kwargs)
        self._inside = False
        gave = [*tensors(result)]
        box = self.boxes.setdefault(name, Box(name))
        number = len(box.gave)
        box.given.append([tuple(each.shape) for each in given])
        box.gave.append([tuple(each.shape) for each in gave])
        for source, its in makers:
            box.sources[source] = box.sources.get(source, False) or its >= number
        self.made((name, number), gave)
        return result


def tensors(part: Any) -> Iterator[Tensor]:
    """Return the tensors of arguments or results; keys and values of a memory, once where they are the same."""
    match part:
        case Tensor():
            yield part
        case Memory():
            yield from [part.key] if part.key is part.value else [part.key, part.value]
        case list() | tuple():
            for each in part:
                yield from tensors(each)
        case _ if is_dataclass(part):
            for each in fields(part):
                yield from tensors(getattr(part, each.name))


@contextmanager
def watching(model: nn.Module, only: Sequence[str], inputs: Mapping[str, Tensor]) -> Iterator[Flow]:
    """Return the flow of what happens inside the block through modules of these names, which may have `*` and `?`."""
    flow = Flow(inputs)
    wrapped = [
        (module, method, partial(flow.call, f"{name}, loss" if method == "loss" else name, getattr(module, method)))
        for name, module in model.named_modules()
        if any(fnmatchcase(name, pattern) for pattern in only)
        for method in METHODS
        if method in dir(module)
    ]
    for module, method, wrapper in wrapped:
        setattr(module, method, wrapper)
    try:
        yield flow
    finally:
        for module, method, _ in wrapped:
            delattr(module, method)


class Best(nn.Module):
    """The token of each row's largest logit."""

    def forward(self, logits: Tensor) -> Tensor:
        return logits.argmax(-1)


def write(decoder: nn.Module, best: Best, state: Any, tokens: Tensor, steps: int) -> None:
    """Greedy decoding from a state for so many steps."""
    for _ in range(steps):
        logits, state = decoder.step(tokens, state)  # type: ignore[operator]
        tokens = best(logits)
