"""Types of the numbers in configurations; a run file that breaks one is refused with its line."""

from typing import Annotated

from pydantic import Field

Size = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
