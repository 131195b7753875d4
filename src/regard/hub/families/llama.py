"""Llama: published configuration and weights, in both directions."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard.attention.positions import RotaryScaling
from regard.errors import InputError
from regard.hub.families.weights import Family, Part, require
from regard.models.language_model import FULL
from regard.models.llama import LlamaConfig

TABLE, OUTPUT = "embedding.table.weight", "output.weight"
LAYER = "model.layers.{}"
BLOCK = "blocks.{}"
ATTENTION = f"{BLOCK}.self_attention"
FEEDFORWARD = f"{BLOCK}.feedforward"
PARTS = {
    "model.embed_tokens": "embedding.table",
    f"{LAYER}.input_layernorm": f"{BLOCK}.norms.0",
    f"{LAYER}.self_attn.q_proj": f"{ATTENTION}.query",
    f"{LAYER}.self_attn.k_proj": f"{ATTENTION}.key",
    f"{LAYER}.self_attn.v_proj": f"{ATTENTION}.value",
    f"{LAYER}.self_attn.o_proj": f"{ATTENTION}.output",
    f"{LAYER}.post_attention_layernorm": f"{BLOCK}.norms.1",
    f"{LAYER}.mlp.gate_proj": f"{FEEDFORWARD}.gate",
    f"{LAYER}.mlp.up_proj": f"{FEEDFORWARD}.up",
    f"{LAYER}.mlp.down_proj": f"{FEEDFORWARD}.down",
    "model.norm": "norm",
}
"""Published modules and ours, each with a weight."""
WAVES = {"llama3": ("low_freq_factor", "high_freq_factor")}
"""Keys of the rotations up to which a frequency is divided, and from which it stays."""


class LlamaFamily(Family):
    """Llama."""

    sizes: ClassVar[Mapping[str, str]] = {
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "key_value_heads": "num_key_value_heads",
        "hidden": "intermediate_size",
        "context": "max_position_embeddings",
        "epsilon": "rms_norm_eps",
        "tied": "tie_word_embeddings",
    }
    fixed: ClassVar[Mapping[str, Any]] = {
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
    }

    def read_config(self, values: Any, architecture: str) -> LlamaConfig:
        """Read a published configuration."""
        width = getattr(values, "head_dim", None)
        if width is None or width * values.num_attention_heads == values.hidden_size:
            width = None
        base, scaling = read_rotation(values)
        sizes = self.read_sizes(values)
        return LlamaConfig(**sizes, head_width=width, base=base, scaling=scaling)

    def write_config(self, config: LlamaConfig, task: str) -> dict[str, Any]:
        """Write a published configuration."""
        plain = {"biased": False, "normalized": False, "window": None}
        require(config, softmax=FULL, sinks=0, **plain)
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            **self.write_sizes(config),
            "num_key_value_heads": config.key_value_heads or config.heads,
            "intermediate_size": config.width_of_network,
            "head_dim": config.width_of_head,
            "hidden_act": "silu",
            "rope_parameters": write_rotation(config),
        }

    def parts(self, config: LlamaConfig, task: str) -> list[Part]:
        """Return the table of weights."""
        table = PARTS if config.tied else PARTS | {"lm_head": "output"}
        return [
            Part(f"{published}.weight", (f"{ours}.weight",))
            for published, ours in table.items()
        ]

    def to_ours(
        self, tensors: dict[str, Tensor], config: LlamaConfig
    ) -> dict[str, Tensor]:
        """Repeat the embedding as a tied output layer."""
        return {OUTPUT: tensors[TABLE]} | tensors


def read_rotation(values: Any) -> tuple[float, RotaryScaling | None]:
    """Read the base and the scaling of the rotary positions."""
    parameters = dict(values.rope_parameters or {})
    kind = parameters.get("rope_type", "default")
    base = float(parameters.get("rope_theta", 10_000.0))
    if kind == "default":
        return base, None
    if kind not in ("linear", "llama3"):
        raise InputError(f"rope_type is {kind}")
    names = zip(("slow", "fast"), WAVES.get(kind, ()), strict=False)
    limits = {name: float(parameters[key]) for name, key in names if key in parameters}
    original = parameters.get("original_max_position_embeddings")
    original = original or values.max_position_embeddings
    factor = float(parameters["factor"])
    return base, RotaryScaling(kind, factor=factor, original=int(original), **limits)


def write_rotation(config: LlamaConfig) -> dict[str, Any]:
    """Write the rotary positions."""
    scaling = config.scaling
    if scaling is None:
        return {"rope_type": "default", "rope_theta": config.base}
    limits = zip(
        WAVES.get(scaling.kind, ()), (scaling.slow, scaling.fast), strict=False
    )
    return {
        "rope_type": scaling.kind,
        "rope_theta": config.base,
        "factor": scaling.factor,
        "original_max_position_embeddings": scaling.original,
        **dict(limits),
    }
