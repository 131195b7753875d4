"""A published model in the terms used here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.images import Preparation
from regard.models.bert import BertConfig
from regard.models.elmo import ElmoConfig
from regard.models.gpt2 import GPT2Config
from regard.models.vit import VitConfig
from regard.pretrained.names import Order
from regard.text import Tokenizer


@dataclass(frozen=True)
class Opened:
    """The sizes of a model, its parameters by their names here, and its tokenizer."""

    config: GPT2Config | BertConfig | ElmoConfig
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer


@dataclass(frozen=True)
class OpenedImages:
    """The sizes of a model for images, its parameters by their names here, its classes, and how it wants its images."""

    config: VitConfig
    tensors: Mapping[str, Tensor]
    labels: Sequence[str]
    images: Preparation


@dataclass(frozen=True)
class Files:
    """What a folder of a published model has: config.json, tensors, tokenizer.json. `order` says which published id
    each token here has."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    tokenizer: Mapping[str, Any]
    order: Order


@dataclass(frozen=True)
class ImageFiles:
    """The same of a model for images: config.json, tensors, preprocessor_config.json."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    preprocessor: Mapping[str, Any]
