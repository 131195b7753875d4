"""Logits processors by name, for configurations. Other packages add theirs under the entry points `regard.processors`.

Each name stands for a function of the special tokens and the number of scores of a decoder.
"""

from typing import Annotated

from regard.config.registry import RegisteredName, Registry
from regard.decoding.logits_processors import Banned, LogitsProcessor
from regard.text.special import SpecialTokens

PROCESSORS = Registry(
    "regard.decoding",
    {"no-unknown": "processor_names:no_unknown"},
    group="regard.processors",
)
ProcessorName = Annotated[str, RegisteredName(PROCESSORS)]


def no_unknown(special: SpecialTokens, vocabulary: int) -> LogitsProcessor:
    """No output contains the unknown piece."""
    return Banned(((special.unknown,),))
