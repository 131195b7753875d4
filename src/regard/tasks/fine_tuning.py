"""Parts of a model that are loaded from another trained run, or from word vectors."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from regard.data.files import read_lines
from regard.data.word_vectors import read_word_vectors
from regard.errors import InputError
from regard.models.sizes import Size
from regard.nn.layers import TokenEmbedding
from regard.storage.run_folder import RunDirectory
from regard.storage.tensors import load_into
from regard.tasks.base import load_or_train
from regard.text import Tokenizer, TokenizerSettings
from regard.text.cooccurrence import cooccurrence_vectors
from regard.text.kinds import WHOLE_WORDS
from regard.training.settings import Training

T = TypeVar("T", bound="PretrainedSource")
log = logging.getLogger("regard")


@dataclass(frozen=True)
class PretrainedPart:
    """A part of a model that is loaded from another run."""

    key: str
    """The key of the run file that names the other run."""
    folder: str
    task: str
    """The task of the other run."""
    command: str
    """What makes such a run."""
    has_sizes: bool
    """Whether the run file has the sizes of the part already."""
    read_published: Callable[[str], Any] | None = None
    """Reads the sizes of a published model, where the folder may also be one."""

    def check(self, source: Any) -> None:
        """Raise InputError if the other run, with run file `source`, has another task."""
        if source.task != self.task:
            raise InputError(
                f"{self.key}: {self.folder} is a run of the task {source.task}; expected "
                f"one of {self.task}, as {self.command} makes"
            )


class PretrainedSource(ABC):
    """A run file that may name a pretrained part.

    Training copies the part into the run, which does not need the other folder later.
    """

    @property
    @abstractmethod
    def source_part(self) -> PretrainedPart | None:
        """The part that is loaded from another run, if there is one."""

    @abstractmethod
    def with_sizes(self: T, source: Any) -> T:
        """Return the run file with the part's sizes, from the other run's file."""


def load_parts(
    model: nn.Module,
    parts: Mapping[str, str],
    weights: Mapping[str, Tensor],
    fresh: tuple[str, ...] = (),
) -> None:
    """Load the parameters of some parts of a model from another run's weights.

    Args:
        parts: The prefix in `weights` of the parameters of each part of the model.
        weights: The weights.
        fresh: Beginnings of names, within a part, of parameters that keep their values.

    Raises:
        InputError: The weights do not fit.
    """
    for name, prefix in parts.items():
        part = model.get_submodule(name)
        names = [name for name in part.state_dict() if prefix + name in weights]
        load_into(part, {name: weights[prefix + name] for name in names}, fresh=fresh)


@dataclass(frozen=True)
class WordVectors:
    """Word vectors that training starts from: published, or computed from texts."""

    cooccurrence: str | tuple[str, ...] | None = None
    """Text files, one paragraph a line. Vectors are computed from these and the training
    texts, over which the vocabulary is counted."""
    window: Size = 5
    """The most places between two words that occur together."""
    fixed: bool = False
    """Whether to keep the vectors in training, so that all words stay comparable."""
    file: str | None = None
    """A file of published vectors: `.vec` of word2vec or fastText, `.txt` of GloVe."""

    def __post_init__(self) -> None:
        if (self.cooccurrence is None) == (self.file is None):
            raise ValueError(
                "expected one of `file` (published vectors) and `cooccurrence` (texts to "
                "compute vectors from)"
            )

    def check_start(self, start: Any) -> None:
        """Raise ValueError if weights of a starting run would be replaced."""
        if start is not None:
            raise ValueError(
                "`vectors` would replace weights of the run in `training.start`; remove "
                "one of the two (on the command line --set vectors=null)"
            )

    def add_texts(self, texts: Iterable[str], folder: RunDirectory) -> list[str]:
        """Return texts followed by the lines of the files.

        A run with a checkpoint has its vectors and reads no files.
        """
        files = self.cooccurrence or ()
        result = list(texts)
        if not folder.checkpoints.steps():
            for file in [files] if isinstance(files, str) else files:
                result += [line for line in read_lines(file) if line.strip()]
        return result


def initialize_word_vectors(
    model: nn.Module,
    vectors: WordVectors,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    folder: RunDirectory,
) -> None:
    """Set the table of a model's `embedding` to the vectors of words.

    A word without a vector keeps its random one. In a run with a checkpoint the table
    stays as it is.

    Args:
        model: The model.
        vectors: Where the vectors come from.
        tokenizer: The tokenizer, whose words are looked for.
        texts: The texts that vectors are computed from.
        folder: The folder of the run.

    Raises:
        InputError: The model has no such table, or the vectors do not fit.
    """
    embedding = dict(model.named_children()).get("embedding")
    if not isinstance(embedding, TokenEmbedding):
        raise InputError(
            "vectors: the model has no table of word vectors; remove vectors, or use a "
            "recurrent model"
        )
    embedding.table.requires_grad_(not vectors.fixed)
    if folder.checkpoints.steps():
        return
    if vectors.file is None:
        values = compute_vectors(vectors, tokenizer, texts, embedding.width)
    else:
        values = load_vectors(vectors.file, tokenizer, embedding.width)
    rows = values.any(-1)
    with torch.no_grad():
        embedding.table.weight[rows] = values[rows] / embedding.scale


def compute_vectors(
    vectors: WordVectors, tokenizer: Tokenizer, texts: Sequence[str], width: int
) -> Tensor:
    """Compute the vectors of a vocabulary from texts; of unknown words zeros.

    Raises:
        InputError: The vectors have more numbers than there are words.
    """
    if width >= tokenizer.size:
        raise InputError(
            f"model.embedding: vectors of {width} numbers need more words than the "
            f"{tokenizer.size} of the vocabulary; lower model.embedding, or raise "
            "tokenizer.size"
        )
    ids = (tokenizer.encode(text) for text in texts)
    return cooccurrence_vectors(ids, tokenizer.size, width, vectors.window)


def load_vectors(path: str, tokenizer: Tokenizer, width: int) -> Tensor:
    """Load the vectors of a vocabulary's words from a file; of other entries zeros.

    One factor gives all numbers together a mean square of one, as a layer above the
    table expects.

    Raises:
        InputError: The file is invalid, or has none of the words.
    """
    words: dict[str, list[int]] = {}
    has_whole_words = tokenizer.settings.kind in WHOLE_WORDS
    for index, label in enumerate(tokenizer.pieces(range(tokenizer.size))):
        # A piece inside words is another entry than the same letters as a word.
        is_word = has_whole_words or tokenizer.encode(label) == [index]
        if is_word and index not in tokenizer.special.all:
            words.setdefault(label, []).append(index)
    vectors = read_word_vectors(path, words, width)
    if not vectors:
        raise InputError(
            f"vectors: {path} has none of the {len(words):,} words of the vocabulary; "
            "is it of another language, or is tokenizer.kind not word, space or wordpiece?"
        )
    log.info(
        "vectors: %s of %s words found in %s",
        f"{len(vectors):,}",
        f"{len(words):,}",
        Path(path).name,
    )
    values = torch.zeros(tokenizer.size, width)
    for word, vector in vectors.items():
        values[words[word]] = torch.from_numpy(vector)
    size = sum(float(vector @ vector) for vector in vectors.values())
    return values * (len(vectors) * width / max(size, 1e-12)) ** 0.5


R = TypeVar("R", bound="FineTuning")


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """A run file whose tokenizer and model may come from the run in `training.start`."""

    takes: ClassVar[tuple[str, ...]]
    """The names of the models that the task supports."""

    task: str
    data: Any
    tokenizer: TokenizerSettings | None = None
    model: Any = None
    vectors: WordVectors | None = None
    """Word vectors to start from, for a model with a table of them."""
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        complete = self.model is not None and (
            self.tokenizer is not None or self.model.name == "pretrained"
        )
        if self.training.start is None and not complete:
            raise ValueError(
                "tokenizer and model are not both described; do, or name a run with "
                "training.start"
            )
        if self.tokenizer is not None and self.tokenizer.dropout:
            raise ValueError(
                "tokenizer.dropout is for seq2seq; here texts have one segmentation"
            )
        if self.vectors is not None:
            self.vectors.check_start(self.training.start)

    @property
    def sizes(self) -> Any:
        """The sizes of the model, known once the run has started."""
        return self.model

    def complete_from(self: R, source: Any) -> R:
        """Return the run file with tokenizer and model of the starting run's file.

        Raises:
            InputError: The task does not support the model.
        """
        if source.model.name not in self.takes:
            raise InputError(
                f"training.start is a run with the model {source.model.name}; expected "
                f"one with {', '.join(self.takes)}"
            )
        tokenizer = self.tokenizer or source.tokenizer
        return replace(self, tokenizer=tokenizer, model=self.model or source.model)

    def build(
        self,
        folder: RunDirectory,
        examples: Any,
        read: Callable[[Any], Iterable[str]],
        make: Callable[[Any, int], nn.Module],
    ) -> tuple[Tokenizer, nn.Module]:
        """Load the tokenizer of a run, or train it, and build the model.

        Args:
            folder: The folder of the run.
            examples: The training examples.
            read: Returns the texts of some examples.
            make: Builds a model of sizes and the number of entries of the vocabulary.

        Raises:
            InputError: A file is damaged or missing, or all texts are blank.
        """
        assert self.tokenizer is not None  # set when training starts
        vectors = self.vectors
        texts = []
        if vectors is not None and vectors.cooccurrence is not None:
            texts = vectors.add_texts(read(examples), folder)
            tokenizer = load_or_train(folder, self.tokenizer, texts)
        else:
            tokenizer = load_or_train(folder, self.tokenizer, examples, read)
        model = make(self.sizes, tokenizer.size)
        if vectors is not None:
            initialize_word_vectors(model, vectors, tokenizer, texts, folder)
        return tokenizer, model
