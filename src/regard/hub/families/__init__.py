"""Published forms of the models that regard has itself, one file for each family."""

from collections.abc import Mapping

from regard.hub.families import bert, gpt2, llama, marian, vit
from regard.hub.families.weights import Family

FAMILIES: Mapping[str, Family] = {
    "bert": bert.FAMILY,
    "gpt2": gpt2.FAMILY,
    "marian": marian.FAMILY,
    "vit": vit.FAMILY,
    "deit": vit.FAMILY,
    **dict.fromkeys(llama.VARIANTS, llama.FAMILY),
}
"""The family of each published model type."""
