"""Llama: published configuration and weights, in both directions."""

from typing import Any

from regard.attention.positions import RotaryScaling
from regard.errors import InputError
from regard.hub.families.weights import Family, Keys, PublishedTensor, require
from regard.models.language_model import FULL
from regard.models.llama import LlamaConfig

MODULES = {
    "model.embed_tokens": "embedding.table",
    "model.layers.{}.input_layernorm": "blocks.{}.norms.0",
    "model.layers.{}.self_attn.q_proj": "blocks.{}.self_attention.query",
    "model.layers.{}.self_attn.k_proj": "blocks.{}.self_attention.key",
    "model.layers.{}.self_attn.v_proj": "blocks.{}.self_attention.value",
    "model.layers.{}.self_attn.o_proj": "blocks.{}.self_attention.output",
    "model.layers.{}.post_attention_layernorm": "blocks.{}.norms.1",
    "model.layers.{}.mlp.gate_proj": "blocks.{}.feedforward.gate",
    "model.layers.{}.mlp.up_proj": "blocks.{}.feedforward.up",
    "model.layers.{}.mlp.down_proj": "blocks.{}.feedforward.down",
    "model.norm": "norm",
}
"""Published modules and ours, each with a weight."""


def read(values: Any, architecture: str) -> Keys:
    """Return the width of a head and the rotation of a published configuration."""
    rotation = dict(values.rope_parameters or {})
    width = getattr(values, "head_dim", None)
    if width and width * values.num_attention_heads == values.hidden_size:
        width = None
    fields = {
        "head_width": width,
        "base": float(rotation.get("rope_theta", 10_000.0)),
    }
    kind = rotation.get("rope_type", "default")
    if kind == "default":
        return fields
    if kind not in ("linear", "llama3"):
        raise InputError(f"rope_type is {kind}")
    limits = {}
    if kind == "llama3":
        # a slower rotation is divided, a faster one stays
        limits["slow"] = float(rotation["low_freq_factor"])
        limits["fast"] = float(rotation["high_freq_factor"])
    original = rotation.get("original_max_position_embeddings")
    scaling = RotaryScaling(
        kind,
        factor=float(rotation["factor"]),
        original=int(original or values.max_position_embeddings),
        **limits,
    )
    return fields | {"scaling": scaling}


def write(config: LlamaConfig, task: str) -> Keys:
    """Return the class, the rotation, and the sizes that our fields leave open."""
    require(
        config,
        softmax=FULL,
        sinks=0,
        biased=False,
        normalized=False,
        window=None,
    )
    rotation: Keys = {"rope_type": "default", "rope_theta": config.base}
    scaling = config.scaling
    if scaling is not None:
        rotation |= {
            "rope_type": scaling.kind,
            "factor": scaling.factor,
            "original_max_position_embeddings": scaling.original,
        }
        if scaling.kind == "llama3":
            rotation["low_freq_factor"] = scaling.slow
            rotation["high_freq_factor"] = scaling.fast
    return {
        "architectures": ["LlamaForCausalLM"],
        "num_key_value_heads": config.key_value_heads or config.heads,
        "intermediate_size": config.width_of_network,
        "head_dim": config.width_of_head,
        "rope_parameters": rotation,
    }


def list_parts(config: LlamaConfig, task: str) -> list[PublishedTensor]:
    """Return the table of weights."""
    modules = MODULES if config.tied else MODULES | {"lm_head": "output"}
    return [
        PublishedTensor(f"{published}.weight", (f"{ours}.weight",))
        for published, ours in modules.items()
    ]


LLAMA = Family(
    config=LlamaConfig,
    sizes={
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "key_value_heads": "num_key_value_heads",
        "hidden": "intermediate_size",
        "context": "max_position_embeddings",
        "epsilon": "rms_norm_eps",
        "tied": "tie_word_embeddings",
    },
    fixed={"attention_bias": False, "mlp_bias": False, "hidden_act": "silu"},
    read=read,
    write=write,
    parts=list_parts,
)
