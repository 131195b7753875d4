"""The states of a trained run as the embedding of another model, which names it in its run file."""

from pathlib import Path

from torch import nn

from regard.data.spelled import spell_vocabulary
from regard.models.elmo_embedding import ElmoEmbedding
from regard.models.embedding import ElmoStates
from regard.text import Tokenizer
from regard.training.run_directory import WEIGHTS, RunDirectory
from regard.training.tensors import load_into

UNTAUGHT = "output."
"""How the names of what tells words begin, which an embedding has not."""


def fill_in(model: nn.Module, states: ElmoStates, tokenizer: Tokenizer) -> None:
    """Give each embedding of the model that is made of such states the run's weights, and the characters of the words
    that the model's own tokenizer tells apart. Raises InputError for weights that are damaged or do not fit."""
    tensors = RunDirectory.open(Path(states.elmo)).load_tensors(WEIGHTS)
    known = {name: tensor for name, tensor in tensors.items() if not name.startswith(UNTAUGHT)}
    for each in model.modules():
        if isinstance(each, ElmoEmbedding):
            load_into(each.elmo, known)
            each.spellings.copy_(spell_vocabulary(tokenizer, each.elmo.characters))
