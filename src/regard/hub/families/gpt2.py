"""GPT-2: published configuration and weights, in both directions."""

from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.hub.families.weights import (
    Family,
    Part,
    keep,
    linear,
    read_activation,
    require,
    write_activation,
)
from regard.models.gpt2 import GPT2Config
from regard.models.language_model import AdaptiveSoftmax

TABLE = "embedding.table.weight"
BLOCK = "blocks.{}"
ATTENTION = f"{BLOCK}.self_attention"
TEXT_TASKS = ("classification", "multi-label", "regression")
PARTS = (
    Part("transformer.wte.weight", (TABLE,)),
    Part("transformer.wpe.weight", ("positions.table",)),
    *linear("transformer.h.{}.ln_1", f"{BLOCK}.residuals.0.norm"),
    *linear(
        "transformer.h.{}.attn.c_attn",
        f"{ATTENTION}.query",
        f"{ATTENTION}.key",
        f"{ATTENTION}.value",
        transposed=True,
    ),
    *linear("transformer.h.{}.attn.c_proj", f"{ATTENTION}.output", transposed=True),
    *linear("transformer.h.{}.ln_2", f"{BLOCK}.residuals.1.norm"),
    *linear("transformer.h.{}.mlp.c_fc", f"{BLOCK}.feedforward.0", transposed=True),
    *linear("transformer.h.{}.mlp.c_proj", f"{BLOCK}.feedforward.2", transposed=True),
    *linear("transformer.ln_f", "norm"),
)
SCORE = Part("score.weight", ("output.weight",))
SIZES = {
    "layers": "n_layer",
    "width": "n_embd",
    "heads": "n_head",
    "context": "n_positions",
    "hidden": "n_inner",
    "dropout": "resid_pdrop",
    "epsilon": "layer_norm_epsilon",
}


def read_config(values: Any, architecture: str) -> GPT2Config:
    """Read a published configuration."""
    sizes = {field: getattr(values, key) for field, key in SIZES.items()}
    activation = read_activation(values.activation_function)
    return GPT2Config(**sizes, activation=activation)


def write_config(config: GPT2Config, task: str) -> dict[str, Any]:
    """Write a published configuration."""
    require(config, positions="learned", closed=0)
    if isinstance(config.softmax, AdaptiveSoftmax):
        raise InputError(
            "model.softmax.kind is adaptive; a published GPT-2 has a full softmax"
        )
    classifies = task in TEXT_TASKS
    return {
        "architectures": [
            "GPT2ForSequenceClassification" if classifies else "GPT2LMHeadModel"
        ],
        "model_type": "gpt2",
        **{key: getattr(config, field) for field, key in SIZES.items()},
        "activation_function": write_activation(config.activation),
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
    }


def parts(config: GPT2Config, task: str) -> tuple[Part, ...]:
    """Return the table of weights."""
    return (*PARTS, SCORE) if task in TEXT_TASKS else PARTS


def to_ours(tensors: dict[str, Tensor], config: GPT2Config) -> dict[str, Tensor]:
    """Repeat the embedding as the output layer of a language model."""
    return {"output.weight": tensors[TABLE]} | tensors


CONSUMED = frozenset({*SIZES.values(), "activation_function", "n_ctx"})
FAMILY = Family(CONSUMED, read_config, write_config, parts, to_ours, keep)
