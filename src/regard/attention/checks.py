"""Checks of the inputs of a lookup and of the sizes of its parts, with messages that name both."""

from torch import Tensor

from regard.attention.masks import Mask, as_mask
from regard.errors import InputError

HEADS = "number of heads"
"""The name of this size in messages."""
Widths = tuple[int | None, int | None, int | None]


def check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | Tensor | None = None,
    widths: Widths = (None, None, None),
) -> None:
    """Refuse inputs that would broadcast silently or fail late. `widths` are the expected widths of query, key and
    value. None accepts any width; for queries it means the keys' width. Raises ValueError, or TypeError for a mask that
    is not boolean."""
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError(
            f"query, key and value need a position and a width axis; got shapes {shapes(query, key, value)}"
        )
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        raise ValueError(
            f"query, key and value need the same leading axes; got shapes {shapes(query, key, value)}"
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"every key needs one value; got key {tuple(key.shape)} and value {tuple(value.shape)}"
        )
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(
            f"query, key and value need one dtype; got {query.dtype}, {key.dtype}, {value.dtype}"
        )
    if not query.device == key.device == value.device:
        raise ValueError(
            f"query, key and value need one device; got {query.device}, {key.device}, {value.device}"
        )
    found = query.shape[-1], key.shape[-1], value.shape[-1]
    if widths[0] is None and found[0] != found[1]:
        raise ValueError(
            f"query and key need one width; got shapes {shapes(query, key, value)}"
        )
    if any(
        want is not None and want != width
        for want, width in zip(widths, found, strict=True)
    ):
        expected = ", ".join("any" if want is None else str(want) for want in widths)
        raise ValueError(
            f"query, key and value need widths {expected}; got shapes {shapes(query, key, value)}"
        )
    if mask is not None:
        check_mask(as_mask(mask), query, key)


def check_mask(mask: Mask, query: Tensor, key: Tensor) -> None:
    """Raise ValueError for a mask of another shape or on another device."""
    full = (*query.shape[:-1], key.shape[-2])
    aligned = zip(mask.shape[::-1], full[::-1], strict=False)
    if len(mask.shape) > len(full) or any(
        size not in (1, other) for size, other in aligned
    ):
        raise ValueError(
            f"the mask has shape {tuple(mask.shape)}; it must broadcast to (*batch, query, key) = {full}"
        )
    if mask.lies_on != query.device:
        raise ValueError(
            f"the mask lies on {mask.lies_on}, the query on {query.device}; they need one device"
        )


def shapes(query: Tensor, key: Tensor, value: Tensor) -> str:
    """Describe the three shapes in a message."""
    return f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"


def expect_size(
    part: str, size: int | None, of: str, found: int | None, name: str = "width"
) -> None:
    """Raise InputError, which names both parts, if `part` was made for another `size` than the one `found` in `of`.
    None fits any size."""
    if size is not None and found is not None and size != found:
        raise InputError(
            f"the {name} of {of} is {found}, but {part} expects {size}; make both the same"
        )
