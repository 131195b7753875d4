"""Types of the numbers in configurations; a run file that breaks one is refused with its line."""

from typing import Annotated

from pydantic import Field

Size = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]


def check_heads(width: int, heads: int) -> None:
    """Raises ValueError for a width that does not divide into so many heads."""
    if width % heads:
        raise ValueError(f"width {width} is not divisible by heads {heads}; choose {heads} x a whole number")
