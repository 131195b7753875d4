"""Parts of a model that are loaded from another trained run, named in the run file."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from regard.data.files import read_lines
from regard.errors import InputError
from regard.models.sizes import Size
from regard.nn.embeddings import TokenEmbedding
from regard.storage.run_folder import RunDirectory
from regard.storage.tensors import load_into
from regard.text import Tokenizer, TokenizerSettings
from regard.text.cooccurrence import cooccurrence_vectors
from regard.training.settings import Training

T = TypeVar("T", bound="PretrainedSource")


@dataclass(frozen=True)
class PretrainedPart:
    """A part of a model that is loaded from the run in `folder`, named in the run file at `key`. That run is of `task`,
    made by `command`. `has_sizes`: whether the run file has the sizes of the part already."""

    key: str
    folder: str
    task: str
    command: str
    has_sizes: bool

    def check(self, source: Any) -> None:
        """Raises InputError where `source`, the run file of that run, is of another task."""
        if source.task != self.task:
            raise InputError(
                f"{self.key}: {self.folder} is a run of the task {source.task}; expected one of {self.task}, as "
                f"{self.command} makes"
            )


class PretrainedSource(ABC):
    """A run file that may name a pretrained part.

    Training copies the part into the run, which does not need the other folder afterwards.
    """

    @property
    @abstractmethod
    def pretrained_part(self) -> PretrainedPart | None:
        """The part that is loaded from another run; None without one."""

    @abstractmethod
    def with_sizes(self: T, source: Any) -> T:
        """This run file with the sizes of the part, from the run file `source` of that run."""


def load_parts(
    model: nn.Module, parts: Mapping[str, str], weights: Mapping[str, Tensor]
) -> None:
    """Load the parameters of some parts of a model from another run's weights.

    `parts` maps each part of the model to the prefix of its parameters in `weights`; parameters that are not there stay
    as they are. Raises InputError for weights that do not fit.
    """
    for name, prefix in parts.items():
        part = model.get_submodule(name)
        current = {item: prefix + item for item in part.state_dict()}
        load_into(
            part,
            {
                entry: weights[source]
                for entry, source in current.items()
                if source in weights
            },
        )


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


def add_vector_texts(
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


def initialize_word_vectors(
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
    result = cooccurrence_vectors(ids, tokenizer.size, embedding.width, vectors.window)
    allowed = result.any(-1)
    with torch.no_grad():
        embedding.table.weight[allowed] = result[allowed] / embedding.scale


R = TypeVar("R", bound="FineTuning")


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """The part of a run file with tokenizer and model, by default those of the run in `training.start`. `vectors` are
    word vectors to start from, for a model with a table of them."""

    takes: ClassVar[tuple[str, ...]]
    """The names of the models that the task supports."""

    task: str
    data: Any
    tokenizer: TokenizerSettings | None = None
    model: Any = None
    vectors: WordVectors | None = None
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        has_tokenizer = self.tokenizer is not None or (
            self.model is not None and self.model.name == "pretrained"
        )
        if self.training.start is None and (not has_tokenizer or self.model is None):
            raise ValueError(
                "tokenizer and model are not both described; do, or name a run with training.start"
            )
        if self.tokenizer is not None and self.tokenizer.dropout:
            raise ValueError(
                "tokenizer.dropout is for seq2seq; here texts have one segmentation"
            )
        if self.vectors is not None:
            self.vectors.check_start(self.training.start)

    def complete_from(self: R, source: Any) -> R:
        """Return the run file with tokenizer and model of the starting run, `source`.

        Raises:
            InputError: A model that the task does not support.
        """
        if source.model.name not in self.takes:
            raise InputError(
                f"training.start is a run with the model {source.model.name}; expected one with {', '.join(self.takes)}"
            )
        return replace(
            self,
            tokenizer=self.tokenizer or source.tokenizer,
            model=self.model or source.model,
        )

    @property
    def tokenizer_settings(self) -> TokenizerSettings:
        """The tokenizer's settings, set when training starts."""
        assert self.tokenizer is not None
        return self.tokenizer
