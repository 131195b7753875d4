"""A published model as a config, named parameters and a tokenizer or a preparation of images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.decoding.continuation import Before
from regard.decoding.search import Search
from regard.images import Preparation
from regard.models.bert import BertConfig
from regard.models.elmo import ElmoConfig
from regard.models.gpt2 import GPT2Config
from regard.models.llama import LlamaConfig
from regard.models.transformer import TransformerConfig
from regard.models.vit import VitConfig
from regard.text import Tokenizer


@dataclass(frozen=True)
class TextHead:
    """A head of a text; `paired` marks one that reads two texts, which no published file records."""

    labels: tuple[str, ...] = ()
    paired: bool = False


@dataclass(frozen=True)
class Classes(TextHead):
    """A classification head: a text has one of the labels."""


@dataclass(frozen=True)
class LabelSet(TextHead):
    """A head of several labels: a text has any number of them."""


@dataclass(frozen=True)
class Number(TextHead):
    """A head of one number, such as that of a regression or a reranker; it has no labels."""


@dataclass(frozen=True)
class Tags:
    """A token classification head with its labels."""

    labels: tuple[str, ...]


@dataclass(frozen=True)
class Spans:
    """An extractive question answering head, which scores where the answer begins and ends."""


Head = TextHead | Tags | Spans


@dataclass(frozen=True)
class Continues:
    """How a language model continues a text: what is `before` the text, and the most `tokens`, if they are
    published."""

    before: Before = "end"
    tokens: int | None = None


@dataclass(frozen=True)
class PretrainedModel:
    """A text model: its config, its parameters by their names in regard, and its tokenizer.

    A sequence-to-sequence model has a tokenizer for its `target`. It and a language model, which `continues` texts,
    have the published `search`. A BERT may have a `head`, which replaces the parts that its config names.
    """

    config: GPT2Config | LlamaConfig | BertConfig | ElmoConfig | TransformerConfig
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer
    target: Tokenizer | None = None
    search: Search | None = None
    head: Head | None = None
    continues: Continues | None = None


@dataclass(frozen=True)
class PretrainedImageModel:
    """An image classifier: its config, its parameters by their names in regard, its labels and its preparation."""

    config: VitConfig
    tensors: Mapping[str, Tensor]
    labels: Sequence[str]
    images: Preparation


@dataclass(frozen=True)
class Files:
    """The contents of a published model's folder: documents (JSON objects or bytes) and tensors by name."""

    documents: Mapping[str, Mapping[str, Any] | bytes]
    tensors: Mapping[str, Tensor]
