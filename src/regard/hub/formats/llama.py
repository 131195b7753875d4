"""Llama, Mistral, Qwen 2 and Qwen 3 in their published form."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.attention.positions import RotaryScaling
from regard.errors import InputError
from regard.hub.formats import generation, vocabulary
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.names import Part, check_sizes, exported, imported
from regard.hub.formats.pretrained_model import Continues, Files, PretrainedModel
from regard.hub.formats.settings import Settings
from regard.hub.formats.tokenizer_json import ABOUT
from regard.models.llama import LlamaConfig
from regard.models.softmax import FULL

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
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
USED = (
    *(
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    ),
    *(
        "num_key_value_heads",
        "head_dim",
        "max_position_embeddings",
        "rms_norm_eps",
        "tie_word_embeddings",
    ),
    *(
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "sliding_window",
        "layer_types",
        "attention_dropout",
    ),
)
FIXED: Mapping[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "pretraining_tp": (1,),
    "use_sliding_window": (False,),
    "partial_rotary_factor": (1.0,),
}
IGNORED = ("max_window_layers",)
TURNS = {
    "llama3": ("low_freq_factor", "high_freq_factor"),
    "yarn": ("beta_slow", "beta_fast"),
}
"""Keys of the turns up to which a frequency is divided, and from which it stays."""


@dataclass(frozen=True)
class Variant:
    """A family: the settings of ours that make it, its class in transformers, and the width of its heads by default."""

    type: str
    architecture: str
    ours: Mapping[str, bool] = field(default_factory=dict)
    slides: bool = False
    head_width: int | None = None


LLAMA = Variant("llama", "LlamaForCausalLM")
MISTRAL = Variant("mistral", "MistralForCausalLM", slides=True)
QWEN2 = Variant("qwen2", "Qwen2ForCausalLM", {"biased": True})
QWEN3 = Variant("qwen3", "Qwen3ForCausalLM", {"normalized": True}, head_width=128)


def parts(config: LlamaConfig) -> list[Part]:
    """The published tensors and our parameters."""
    layer = LAYER | (NORMS if config.normalized else {})
    found = [
        Part(EMBEDDING, ("embedding.table.weight",)),
        Part("model.norm.weight", ("norm.weight",)),
    ]
    found += [
        Part(f"model.layers.{{}}.{name}.weight", (f"blocks.{{}}.{own}.weight",))
        for name, own in layer.items()
    ]
    if config.biased:
        found += [
            Part(f"model.layers.{{}}.{name}.bias", (f"blocks.{{}}.{LAYER[name]}.bias",))
            for name in BIASED
        ]
    return found if config.tied else [*found, Part(HEAD, ("output.weight",))]


def read(folder: Folder, variant: Variant) -> PretrainedModel:
    """Read the model in a folder. Raises InputError for settings that regard does not compute."""
    settings = Settings(folder.json(CONFIG), str(folder.path / CONFIG))
    settings.check(USED, FIXED, IGNORED)
    size = settings.size("vocab_size")
    config = sizes_of(settings, variant)
    weights = folder.tensors()
    weights = {
        name: tensor
        for name, tensor in weights.items()
        if not name.endswith("rotary_emb.inv_freq")
    }
    check_tied(weights, config, folder)
    rows = config.heads * config.width_of_head
    sizes = {
        "vocab_size": (size, EMBEDDING, 0),
        "hidden_size": (config.width, EMBEDDING, 1),
        "intermediate_size": (
            config.width_of_network,
            "model.layers.0.mlp.up_proj.weight",
            0,
        ),
        "num_attention_heads x head_dim": (
            rows,
            "model.layers.0.self_attn.q_proj.weight",
            0,
        ),
    }
    check_sizes(settings.place, weights, {"num_hidden_layers": config.layers}, sizes)
    tensors = imported(parts(config), weights, config.layers)
    found = generation.read(folder)
    tokenizer, before = vocabulary.read(folder, size, found.ends or (2,))
    tensors = {"output.weight": tensors["embedding.table.weight"]} | tensors
    found.check(tokenizer.size, folder)
    continues = Continues(before, found.most)
    return PretrainedModel(
        config, tensors, tokenizer, search=found.search, continues=continues
    )


def sizes_of(settings: Settings, variant: Variant) -> LlamaConfig:
    """The sizes in a configuration. Raises InputError for a window or a rotation that regard does not compute."""
    values = settings.values
    window = values.get("sliding_window")
    if window is not None and not variant.slides:
        raise InputError(
            f"{settings.place}: sliding_window is {window!r}; regard supports None for {variant.type}"
        )
    layers = values.get("layer_types") or []
    if not isinstance(layers, list) or any(each != "full_attention" for each in layers):
        raise InputError(
            f"{settings.place}: layer_types has other layers than full_attention, which regard has not"
        )
    base, scaling = rotation(settings)
    heads = settings.size("num_attention_heads")
    width = settings.size("head_dim") if values.get("head_dim") else variant.head_width
    if width is not None and values.get("hidden_size") == width * heads:
        width = None
    return settings.build(
        LlamaConfig,
        layers=settings.size("num_hidden_layers"),
        width=settings.size("hidden_size"),
        heads=heads,
        key_value_heads=settings.size("num_key_value_heads", heads)
        if values.get("num_key_value_heads")
        else None,
        head_width=width,
        hidden=settings.size("intermediate_size"),
        context=settings.size("max_position_embeddings"),
        epsilon=settings.share("rms_norm_eps", 1e-6),
        base=base,
        scaling=scaling,
        window=None if window is None else settings.size("sliding_window"),
        tied=bool(values.get("tie_word_embeddings", False)),
        **variant.ours,
    )


def rotation(settings: Settings) -> tuple[float, RotaryScaling | None]:
    """The base and the scaling of the rotary positions, in the keys of transformers 5 or before. Raises InputError for
    a kind of scaling that regard does not compute."""
    values = settings.values
    found = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(found, Mapping):
        raise InputError(
            f"{settings.place}: rope_parameters is {found!r}; expected an object"
        )
    turned = Settings(
        {key: value for key, value in found.items() if value is not None},
        settings.place,
    )
    base = turned.number("rope_theta", settings.number("rope_theta", 10_000.0))
    if not base:
        raise InputError(
            f"{settings.place}: rope_theta is 0; expected a number above 0"
        )
    kind = found.get("rope_type", found.get("type", "default"))
    if kind == "default":
        return base, None
    if kind not in ("linear", "yarn", "llama3"):
        raise InputError(
            f"{settings.place}: rope_type is {kind!r}; regard supports default, linear, yarn and llama3"
        )
    known = {
        "rope_theta",
        "rope_type",
        "type",
        "factor",
        "original_max_position_embeddings",
        *TURNS.get(kind, ()),
    }
    check_unknown(found, known, settings.place)
    turns = zip(("slow", "fast"), TURNS.get(kind, ()), strict=False)
    chosen = {
        name: turned.number(key, 0.0) for name, key in turns if key in turned.values
    }
    original = turned.size(
        "original_max_position_embeddings", settings.size("max_position_embeddings")
    )
    return base, settings.build(
        partial(RotaryScaling, kind),
        factor=turned.number("factor", 0.0),
        original=original,
        **chosen,
    )


def check_unknown(found: Mapping[str, Any], known: Collection[str], place: str) -> None:
    """Raises InputError for a key of the rotation that changes what is computed."""
    for key in sorted(
        name for name, value in found.items() if name not in known and value is not None
    ):
        raise InputError(
            f"{place}: {key} of the rotary positions is {found[key]!r}, which regard does not compute"
        )


def check_tied(weights: dict[str, Tensor], config: LlamaConfig, folder: Folder) -> None:
    """Drop the copy of a tied output layer. Raises InputError if it differs from the embedding."""
    if not config.tied:
        return
    head = weights.pop(HEAD, None)
    if head is not None and not torch.equal(head, weights.get(EMBEDDING, head)):
        raise InputError(
            f"{folder.path}: tie_word_embeddings is true, and {HEAD} is not {EMBEDDING}"
        )


def variant_of(config: LlamaConfig) -> Variant:
    """The family that has these settings. Raises InputError if there is none."""
    chosen = {"biased": config.biased, "normalized": config.normalized}
    for variant in (LLAMA, QWEN2, QWEN3, MISTRAL):
        same = all(
            variant.ours.get(name, False) is value for name, value in chosen.items()
        )
        if same and variant.slides is (config.window is not None):
            return variant
    raise InputError(
        "this run: no published family has biased, normalized and window together; llama has none of them, qwen2 is "
        "biased, qwen3 normalized and mistral has a window"
    )


def write(pretrained: PretrainedModel) -> Files:
    """Return the published files of a model. Raises InputError for settings that no family has."""
    config, tokenizer = pretrained.config, pretrained.tokenizer
    assert isinstance(config, LlamaConfig)
    variant = variant_of(config)
    if config.softmax != FULL:
        raise InputError(
            f"model.softmax.kind is {config.softmax.kind}; a published {variant.type} has a full softmax"
        )
    if config.sinks:
        raise InputError(
            f"model.sinks is {config.sinks}; a published {variant.type} has none"
        )
    special = tokenizer.special
    document = {
        "architectures": [variant.architecture],
        "model_type": variant.type,
        "vocab_size": tokenizer.size,
        "hidden_size": config.width,
        "intermediate_size": config.width_of_network,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_value_heads or config.heads,
        "head_dim": config.width_of_head,
        "hidden_act": "silu",
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.epsilon,
        "rope_parameters": rope_parameters(config),
        "tie_word_embeddings": config.tied,
        "bos_token_id": special.start,
        "eos_token_id": special.end,
    }
    if config.window is not None or variant.slides:
        document["sliding_window"] = config.window
    tensors = exported(parts(config), pretrained.tensors, config.layers)
    documents = vocabulary.documents(pretrained, config.context)
    # a class of a family cuts text by its own pattern, whatever the file says
    documents[ABOUT] |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    return Files({CONFIG: document} | documents, tensors)


def rope_parameters(config: LlamaConfig) -> dict[str, Any]:
    """The rotary positions in the keys of transformers. Raises InputError for a scaling that it has not."""
    scaling = config.scaling
    if scaling is None:
        return {"rope_type": "default", "rope_theta": config.base}
    if scaling.kind == "ntk":
        raise InputError(
            "model.scaling.kind is ntk; a published model has linear, yarn or llama3"
        )
    fast = scaling.upper if scaling.kind == "llama3" else scaling.fast
    turns = dict(zip(TURNS.get(scaling.kind, ()), (scaling.slow, fast), strict=False))
    found = {
        "rope_type": scaling.kind,
        "rope_theta": config.base,
        "factor": scaling.factor,
    }
    found |= {"original_max_position_embeddings": scaling.original}
    return found | {key: value for key, value in turns.items() if value is not None}
