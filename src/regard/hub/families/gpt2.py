"""GPT-2: published configuration and weights, in both directions."""

from regard.errors import InputError
from regard.hub.families.weights import (
    PUBLISHED_ACTIVATIONS,
    TEXT_TASKS,
    Family,
    Keys,
    PublishedTensor,
    linear,
    read_activation,
    require,
)
from regard.models.gpt2 import GPT2Config
from regard.models.language_model import AdaptiveSoftmax

ATTENTION = "blocks.{}.self_attention"
PARTS = (
    PublishedTensor("transformer.wte.weight", ("embedding.table.weight",)),
    PublishedTensor("transformer.wpe.weight", ("positions.table",)),
    *linear("transformer.h.{}.ln_1", "blocks.{}.residuals.0.norm"),
    *linear(
        "transformer.h.{}.attn.c_attn",
        *(f"{ATTENTION}.{name}" for name in ("query", "key", "value")),
        transposed=True,
    ),
    *linear("transformer.h.{}.attn.c_proj", f"{ATTENTION}.output", transposed=True),
    *linear("transformer.h.{}.ln_2", "blocks.{}.residuals.1.norm"),
    *linear("transformer.h.{}.mlp.c_fc", "blocks.{}.feedforward.0", transposed=True),
    *linear("transformer.h.{}.mlp.c_proj", "blocks.{}.feedforward.2", transposed=True),
    *linear("transformer.ln_f", "norm"),
)
SCORE = PublishedTensor("score.weight", ("output.weight",))


def write(config: GPT2Config, task: str) -> Keys:
    """Return the class, the activation and the dropout beside the sizes."""
    require(config, positions="learned")
    if isinstance(config.softmax, AdaptiveSoftmax):
        raise InputError(
            "model.softmax.kind is adaptive; a published GPT-2 has a full softmax"
        )
    head = "ForSequenceClassification" if task in TEXT_TASKS else "LMHeadModel"
    return {
        "architectures": [f"GPT2{head}"],
        "activation_function": PUBLISHED_ACTIVATIONS[config.activation],
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
    }


GPT2 = Family(
    config=GPT2Config,
    sizes={
        "layers": "n_layer",
        "width": "n_embd",
        "heads": "n_head",
        "context": "n_positions",
        "hidden": "n_inner",
        "dropout": "resid_pdrop",
        "epsilon": "layer_norm_epsilon",
    },
    fixed={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    read=lambda values, _: {"activation": read_activation(values.activation_function)},
    write=write,
    parts=lambda _, task: (*PARTS, SCORE) if task in TEXT_TASKS else PARTS,
)
