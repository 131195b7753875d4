"""A published model in the terms used here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.models.bert import BertConfig
from regard.models.elmo import ElmoConfig
from regard.models.gpt2 import GPT2Config
from regard.pretrained.names import Order
from regard.text import Tokenizer


@dataclass(frozen=True)
class Opened:
    """The sizes of a model, its parameters by their names here, and its tokenizer."""

    config: GPT2Config | BertConfig | ElmoConfig
    tensors: Mapping[str, Tensor]
    tokenizer: Tokenizer


@dataclass(frozen=True)
class Files:
    """What a folder of a published model has: config.json, tensors, tokenizer.json. `order` says which published id
    each token here has."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    tokenizer: Mapping[str, Any]
    order: Order
