"""A published model in the terms used here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.decoding.search import Search
from regard.images import Preparation
from regard.models.bert import BertConfig
from regard.models.elmo import ElmoConfig
from regard.models.gpt2 import GPT2Config
from regard.models.transformer import TransformerConfig
from regard.models.vit import VitConfig
from regard.text import Tokenizer


@dataclass(frozen=True)
class Classes:
    """A head that tells one of these classes, of two texts where it is `paired`, which no file says."""

    labels: tuple[str, ...]
    paired: bool = False


@dataclass(frozen=True)
class Spans:
    """A head that tells where an answer begins and ends."""


Head = Classes | Spans


@dataclass(frozen=True)
class PretrainedModel:
    """The sizes of a model, its parameters by their names here, and its tokenizer. A model that makes texts of texts
    has another for its `target`, and its publisher has said how to `search`; a BERT may have a `head`, in place of the
    parts that its sizes name."""

    config: GPT2Config | BertConfig | ElmoConfig | TransformerConfig
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    target: Tokenizer | None = None
    search: Search | None = None
    head: Head | None = None


@dataclass(frozen=True)
class PretrainedImageModel:
    """The sizes of a model for images, its parameters by their names here, its classes, and how it wants its images."""

    config: VitConfig
    tensors: Mapping[str, Tensor]
    labels: Sequence[str]
    images: Preparation


@dataclass(frozen=True)
class Files:
    """The contents of a published model's folder: JSON objects, and other files as they are, by their names, and
    tensors."""

    documents: Mapping[str, Mapping[str, Any] | bytes]
    tensors: Mapping[str, Tensor]
