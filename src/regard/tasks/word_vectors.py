"""Initial word vectors of a model, from the words around them in text files and in the training texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from regard.data.lines import read_lines
from regard.errors import InputError
from regard.models.sizes import Size
from regard.nn.embeddings import TokenEmbedding
from regard.storage.run_folder import RunDirectory
from regard.text import Tokenizer
from regard.text.cooccurrence import cooccurrence_vectors


@dataclass(frozen=True)
class WordVectors:
    """Word vectors that training starts from, computed from the words at most `window` places apart in the text files
    `cooccurrence`, one paragraph a line, and in the training texts. The vocabulary is counted over both. `fixed`
    vectors are not trained, so that words which only the files have stay comparable with those of the training
    texts."""

    cooccurrence: str | tuple[str, ...]
    window: Size = 5
    fixed: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The text files."""
        return (
            (self.cooccurrence,)
            if isinstance(self.cooccurrence, str)
            else self.cooccurrence
        )

    def check_start(self, start: str | None) -> None:
        """Raises ValueError for a run that training starts from, whose weights the vectors would replace."""
        if start is not None:
            raise ValueError(
                "`vectors` would replace weights of the run in `training.start`; remove one of the two (on the command "
                "line --set vectors=null)"
            )


def with_vector_texts(
    vectors: WordVectors | None, texts: Sequence[str], folder: RunDirectory
) -> list[str]:
    """The training texts, and behind them the lines of the files of word vectors. A run with a checkpoint reads no
    file, since it has its tokenizer and its weights.

    Raises:
        InputError: a file is missing or no text.
    """
    files = () if vectors is None or folder.checkpoint_steps() else vectors.files
    return [
        *texts,
        *(line for file in files for line in read_lines(file) if line.strip()),
    ]


def fill_vectors(
    model: nn.Module,
    vectors: WordVectors | None,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    folder: RunDirectory,
) -> None:
    """Set the table of the model's `embedding` to the vectors of the tokenizer's words in `texts`. A word without
    neighbours keeps its vector; without `vectors`, and in a run with a checkpoint, the whole table stays. A `fixed`
    table is not trained.

    Raises:
        InputError: the model has no such table, or more numbers a word than the vocabulary has words.
    """
    if vectors is None:
        return
    embedding = dict(model.named_children()).get("embedding")
    if not isinstance(embedding, TokenEmbedding):
        raise InputError(
            "vectors: the model has no table of word vectors; remove vectors, or use a recurrent model"
        )
    embedding.table.requires_grad_(not vectors.fixed)
    if folder.checkpoint_steps():
        return
    if embedding.width >= tokenizer.size:
        raise InputError(
            f"model.embedding: vectors of {embedding.width} numbers need more words than that; the vocabulary has "
            f"{tokenizer.size}; lower model.embedding, or raise the tokenizer's size"
        )
    ids = (tokenizer.encode(text) for text in texts)
    found = cooccurrence_vectors(ids, tokenizer.size, embedding.width, vectors.window)
    known = found.any(-1)
    with torch.no_grad():
        embedding.table.weight[known] = found[known] / embedding.scale
