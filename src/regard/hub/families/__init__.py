"""Published forms of the models that regard has itself, one file for each family."""

from collections.abc import Mapping

from regard.hub.families.bert import BertFamily
from regard.hub.families.gpt2 import GPT2Family
from regard.hub.families.llama import LlamaFamily
from regard.hub.families.marian import MarianFamily
from regard.hub.families.vit import VitFamily
from regard.hub.families.weights import Family

FAMILIES: Mapping[str, Family] = {
    "bert": BertFamily(),
    "gpt2": GPT2Family(),
    "marian": MarianFamily(),
    "vit": VitFamily(),
    "llama": LlamaFamily(),
}
"""The family of each published model type."""
