"""What an update cannot do without: its matrix products and recurrent layers, forward and backward, and nothing else.

An update is run once while its products are written down; from then on they alone are computed, on the numbers that the
first product of each shape had, by the same library. A training that did all the rest for nothing would take this long.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from regard.data.batching import PairBatch

aten = torch.ops.aten
PRODUCTS = {
    aten.mm.default,
    aten.addmm.default,
    aten.bmm.default,
    aten.baddbmm.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    aten.mkldnn_rnn_layer.default,
    aten.mkldnn_rnn_layer_backward.default,
}
"""Fused attention and the recurrent layers of oneDNN count whole, because their products are inside."""
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
Update = Callable[[PairBatch, bool], object]
"""Of a batch, with bf16 products or without."""


class Products(TorchDispatchMode):
    """Keeps the products that are called while it is entered, with arguments of their own."""

    def __init__(self):
        super().__init__()
        self.calls: list[Call] = []
        self._copies: dict[tuple[object, ...], Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in PRODUCTS:
            self.calls.append((func, *tree_map_only(Tensor, self._copy, (args, kwargs or {}))))
        return func(*args, **(kwargs or {}))

    def _copy(self, tensor: Tensor) -> Tensor:
        """One of each layout is enough, so that thousands of arguments fit in memory."""
        layout = tensor.shape, tensor.stride(), tensor.dtype
        if layout not in self._copies:
            self._copies[layout] = torch.empty_strided(*layout[:2], dtype=tensor.dtype).copy_(tensor)
        return self._copies[layout]


def products_of(update: Update) -> Update:
    """The same update, of which all but the products is left out after the first call with a batch."""
    found: dict[tuple[int, bool], list[Call]] = {}

    def products(batch: PairBatch, bf16: bool) -> None:
        key = id(batch), bf16
        if key not in found:
            with Products() as kept:
                update(batch, bf16)
            found[key] = kept.calls
        with torch.no_grad():
            for call, args, kwargs in found[key]:
                call(*args, **kwargs)

    return products
