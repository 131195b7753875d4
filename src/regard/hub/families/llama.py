"""Llama, Mistral, Qwen 2 and Qwen 3: configuration and weights, in both directions."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.attention.positions import RotaryScaling
from regard.errors import InputError
from regard.hub.families.weights import Family, Part, keep, require
from regard.models.language_model import FULL
from regard.models.llama import LlamaConfig

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
TABLE, OUTPUT = "embedding.table.weight", "output.weight"
LAYER = {
    "input_layernorm": "norms.0",
    "self_attn.q_proj": "self_attention.query",
    "self_attn.k_proj": "self_attention.key",
    "self_attn.v_proj": "self_attention.value",
    "self_attn.o_proj": "self_attention.output",
    "post_attention_layernorm": "norms.1",
    "mlp.gate_proj": "feedforward.gate",
    "mlp.up_proj": "feedforward.up",
    "mlp.down_proj": "feedforward.down",
}
NORMS = {
    "self_attn.q_norm": "self_attention.query_norm",
    "self_attn.k_norm": "self_attention.key_norm",
}
BIASED = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
SIZES = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "key_value_heads": "num_key_value_heads",
    "hidden": "intermediate_size",
    "context": "max_position_embeddings",
    "epsilon": "rms_norm_eps",
    "tied": "tie_word_embeddings",
}
WAVES = {
    "llama3": ("low_freq_factor", "high_freq_factor"),
    "yarn": ("beta_slow", "beta_fast"),
}
"""Keys of the rotations up to which a frequency is divided, and from which it stays."""
ROTATION = frozenset(
    {"rope_theta", "rope_type", "type", "factor", "original_max_position_embeddings"}
)


@dataclass(frozen=True)
class Variant:
    """A published class, and the settings of ours that make it."""

    architecture: str
    ours: dict[str, bool] = field(default_factory=dict)
    slides: bool = False


VARIANTS = {
    "llama": Variant("LlamaForCausalLM"),
    "mistral": Variant("MistralForCausalLM", slides=True),
    "qwen2": Variant("Qwen2ForCausalLM", {"biased": True}),
    "qwen3": Variant("Qwen3ForCausalLM", {"normalized": True}),
}


def read_config(values: Any, architecture: str) -> LlamaConfig:
    """Read a published configuration."""
    variant = VARIANTS[values.model_type]
    for key in ("attention_bias", "mlp_bias"):
        if getattr(values, key, False):
            raise InputError(f"{key} is true")
    if values.hidden_act != "silu":
        raise InputError(f"hidden_act is {values.hidden_act}")
    window = getattr(values, "sliding_window", None)
    layers = set(getattr(values, "layer_types", None) or ())
    if window is not None and not variant.slides:
        raise InputError(f"sliding_window is {window}")
    if layers - {"full_attention"} and not variant.slides:
        raise InputError("layer_types has other layers than full_attention")
    sizes = {field: getattr(values, key) for field, key in SIZES.items()}
    width = getattr(values, "head_dim", None)
    if width is None or width * values.num_attention_heads == values.hidden_size:
        width = None
    base, scaling = read_rotation(values)
    options: dict[str, Any] = sizes | variant.ours
    return LlamaConfig(
        **options, head_width=width, base=base, scaling=scaling, window=window
    )


def read_rotation(values: Any) -> tuple[float, RotaryScaling | None]:
    """Read the base and the scaling of the rotary positions."""
    parameters = dict(values.rope_parameters or {})
    kind = parameters.get("rope_type", "default")
    base = float(parameters.get("rope_theta", 10_000.0))
    if kind == "default":
        return base, None
    if kind not in ("linear", "yarn", "llama3"):
        raise InputError(f"rope_type is {kind}")
    waves = WAVES.get(kind, ())
    for key, value in parameters.items():
        if key not in ROTATION and key not in waves and value is not None:
            raise InputError(f"{key} of the rotary positions is {value!r}")
    names = dict(zip(("slow", "fast"), waves, strict=False))
    limits = {
        name: float(parameters[key]) for name, key in names.items() if key in parameters
    }
    original = parameters.get("original_max_position_embeddings")
    original = original or values.max_position_embeddings
    return base, RotaryScaling(
        kind, factor=float(parameters["factor"]), original=int(original), **limits
    )


def find_variant(config: LlamaConfig) -> tuple[str, Variant]:
    """Return the model type and variant that have these settings.

    Raises:
        InputError: No published family has them together.
    """
    chosen = {"biased": config.biased, "normalized": config.normalized}
    for kind, variant in VARIANTS.items():
        same = all(
            variant.ours.get(key, False) is value for key, value in chosen.items()
        )
        if same and variant.slides is (config.window is not None):
            return kind, variant
    raise InputError(
        "no published family has biased, normalized and window together; llama has "
        "none of them, qwen2 is biased, qwen3 normalized and mistral has a window"
    )


def write_config(config: LlamaConfig, task: str) -> dict[str, Any]:
    """Write a published configuration."""
    kind, variant = find_variant(config)
    require(config, softmax=FULL, sinks=0)
    sizes = {key: getattr(config, field) for field, key in SIZES.items()}
    document = {
        "architectures": [variant.architecture],
        "model_type": kind,
        **sizes,
        "num_key_value_heads": config.key_value_heads or config.heads,
        "intermediate_size": config.width_of_network,
        "head_dim": config.width_of_head,
        "hidden_act": "silu",
        "rope_parameters": write_rotation(config),
    }
    if variant.slides:
        document["sliding_window"] = config.window
    return document


def write_rotation(config: LlamaConfig) -> dict[str, Any]:
    """Write the rotary positions."""
    scaling = config.scaling
    if scaling is None:
        return {"rope_type": "default", "rope_theta": config.base}
    if scaling.kind == "ntk":
        raise InputError(
            "model.scaling.kind is ntk; a published model has linear, yarn or llama3"
        )
    fast = scaling.upper if scaling.kind == "llama3" else scaling.fast
    waves = zip(WAVES.get(scaling.kind, ()), (scaling.slow, fast), strict=False)
    return {
        "rope_type": scaling.kind,
        "rope_theta": config.base,
        "factor": scaling.factor,
        "original_max_position_embeddings": scaling.original,
        **{key: value for key, value in waves if value is not None},
    }


def parts(config: LlamaConfig, task: str) -> list[Part]:
    """Return the table of weights."""
    layer = LAYER | (NORMS if config.normalized else {})
    table = [Part(EMBEDDING, (TABLE,)), Part("model.norm.weight", ("norm.weight",))]
    for published, ours in layer.items():
        name = f"model.layers.{{}}.{published}"
        table.append(Part(f"{name}.weight", (f"blocks.{{}}.{ours}.weight",)))
        if config.biased and published in BIASED:
            table.append(Part(f"{name}.bias", (f"blocks.{{}}.{ours}.bias",)))
    return table if config.tied else [*table, Part(HEAD, (OUTPUT,))]


def to_ours(tensors: dict[str, Tensor], config: LlamaConfig) -> dict[str, Tensor]:
    """Repeat the embedding as a tied output layer."""
    return {OUTPUT: tensors[TABLE]} | tensors


CONSUMED = frozenset(
    {
        *SIZES.values(),
        "head_dim",
        "hidden_act",
        "attention_bias",
        "mlp_bias",
        "rope_parameters",
        "rope_theta",
        "sliding_window",
        "layer_types",
        "max_window_layers",
        "use_sliding_window",
    }
)
FAMILY = Family(CONSUMED, read_config, write_config, parts, to_ours, keep)
