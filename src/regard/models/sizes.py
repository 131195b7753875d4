"""Types of the numbers in configurations, and defaults of encoder-decoders."""

from typing import Annotated, ClassVar

from pydantic import Field

Size = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Probability = Annotated[float, Field(ge=0, le=1)]


class EncoderDecoderDefaults:
    """Defaults for the configuration of an encoder-decoder."""

    shared: bool = False
    """Whether both sides share one embedding."""
    one_tokenizer: ClassVar[bool] = False
    """Whether both sides need one tokenizer."""
    copying: bool = False
    """Whether outputs may contain words of their source that the vocabulary lacks."""


def check_heads(width: int, heads: int) -> None:
    """Check that `heads` divides `width`.

    Raises:
        ValueError: It doesn't.
    """
    if width % heads:
        raise ValueError(
            f"width {width} is not divisible by heads {heads}. "
            f"Choose a multiple of {heads}."
        )
