"""Types of the numbers in configurations; a run file that breaks one is refused with its line."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

Size = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
NamedSizes = Mapping[str, Mapping[str, Any]]
"""What a configuration's fields are, all at once, in a run file that says `size` and one of these names."""


class Sides:
    """What the configuration of an encoder-decoder says of its two sides, if no field says otherwise. shared: they have
    one embedding. one_tokenizer: they must have one tokenizer. copying: outputs may have words that only their source
    has."""

    shared: bool = False
    one_tokenizer: ClassVar[bool] = False
    copying: bool = False


def check_heads(width: int, heads: int) -> None:
    """Raises ValueError for a width that does not divide into so many heads."""
    if width % heads:
        raise ValueError(f"width {width} is not divisible by heads {heads}; choose {heads} x a whole number")
