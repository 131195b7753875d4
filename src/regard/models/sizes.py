"""Types of the numbers in configurations. A run file with a number out of range is refused with its line."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

Size = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
NamedSizes = Mapping[str, Mapping[str, Any]]
"""Sets of field values by name, for a run file that chooses `size` by name."""


class Sides:
    """Defaults for the configuration of an encoder-decoder. shared: both sides share one embedding. one_tokenizer: both
    sides need one tokenizer. copying: outputs may contain words of their source that the vocabulary lacks."""

    shared: bool = False
    one_tokenizer: ClassVar[bool] = False
    copying: bool = False


def check_heads(width: int, heads: int) -> None:
    """Raises ValueError if `heads` does not divide `width`."""
    if width % heads:
        raise ValueError(
            f"width {width} is not divisible by heads {heads}; choose {heads} x a whole number"
        )
