"""The states of a trained run as the embedding of another model, which names it in its run file."""

from torch import nn

from regard.models.elmo_embedding import ElmoEmbedding
from regard.tasks.bidirectional_language_model.char_words import spell_vocabulary
from regard.text import Tokenizer

PRETRAINED = {"embedding.elmo": ""}
"""What such a model takes, with the beginning of its weights' names in that run."""


def spell_out(model: nn.Module, tokenizer: Tokenizer) -> None:
    """Give each embedding of the model that is made of such states the characters of the words that the model's own
    tokenizer tells apart."""
    for each in model.modules():
        if isinstance(each, ElmoEmbedding):
            each.spellings.copy_(spell_vocabulary(tokenizer, each.elmo.characters))
