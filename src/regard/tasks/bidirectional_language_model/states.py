"""The states of a trained run as the embedding of another model, which names it in its run file."""

from torch import nn

from regard.models.elmo_embedding import ElmoEmbedding
from regard.tasks.bidirectional_language_model.char_words import spell_vocabulary
from regard.text import Tokenizer

PRETRAINED = {"embedding.elmo": ""}
"""The part of such a model that is pretrained, with the prefix of its parameters in that run."""


def spell_out(model: nn.Module, tokenizer: Tokenizer) -> None:
    """Set the spellings of each ELMo embedding of the model to those of the tokenizer's vocabulary."""
    for each in model.modules():
        if isinstance(each, ElmoEmbedding):
            each.spellings.copy_(spell_vocabulary(tokenizer, each.elmo.characters))
