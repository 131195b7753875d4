"""Published forms of the models that regard has itself, one file for each family."""

from regard.hub.families.bert import BERT
from regard.hub.families.gpt2 import GPT2
from regard.hub.families.llama import LLAMA
from regard.hub.families.marian import MARIAN
from regard.hub.families.vit import VIT

FAMILIES = {"bert": BERT, "gpt2": GPT2, "marian": MARIAN, "vit": VIT, "llama": LLAMA}
"""The family of each published model type."""
