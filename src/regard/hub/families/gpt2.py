"""GPT-2: published configuration and weights, in both directions."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard.errors import InputError
from regard.hub.families.weights import (
    TEXT_TASKS,
    Family,
    Part,
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


class GPT2Family(Family):
    """GPT-2 as a language model or a classifier."""

    sizes: ClassVar[Mapping[str, str]] = {
        "layers": "n_layer",
        "width": "n_embd",
        "heads": "n_head",
        "context": "n_positions",
        "hidden": "n_inner",
        "dropout": "resid_pdrop",
        "epsilon": "layer_norm_epsilon",
    }
    fixed: ClassVar[Mapping[str, Any]] = {
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
    }

    def read_config(self, values: Any, architecture: str) -> GPT2Config:
        """Read a published configuration."""
        activation = read_activation(values.activation_function)
        return GPT2Config(**self.read_sizes(values), activation=activation)

    def write_config(self, config: GPT2Config, task: str) -> dict[str, Any]:
        """Write a published configuration."""
        require(config, positions="learned", closed=0)
        if isinstance(config.softmax, AdaptiveSoftmax):
            raise InputError(
                "model.softmax.kind is adaptive; a published GPT-2 has a full softmax"
            )
        head = "ForSequenceClassification" if task in TEXT_TASKS else "LMHeadModel"
        return {
            "architectures": [f"GPT2{head}"],
            "model_type": "gpt2",
            **self.write_sizes(config),
            "activation_function": write_activation(config.activation),
            "embd_pdrop": config.dropout,
            "attn_pdrop": 0.0,
        }

    def parts(self, config: GPT2Config, task: str) -> tuple[Part, ...]:
        """Return the table of weights."""
        return (*PARTS, SCORE) if task in TEXT_TASKS else PARTS

    def to_ours(
        self, tensors: dict[str, Tensor], config: GPT2Config
    ) -> dict[str, Tensor]:
        """Repeat the embedding as the output layer of a language model."""
        return {"output.weight": tensors[TABLE]} | tensors
