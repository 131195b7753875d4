"""Tiny published models of many architectures, with random weights and a small tokenizer."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEXTS = (
    "the film was good and funny",
    "a dull and boring film",
    "what a wonderful story",
    "the plot was bad , the actors worse",
    "Anna lives in Paris",
    "Ben works in Berlin for Acme",
)
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}


@dataclass(frozen=True)
class Architecture:
    """A family of models: its configuration's class, sizes, and what its tokenizer puts around a text."""

    config: str
    sizes: dict[str, Any] = field(default_factory=lambda: dict(SMALL))
    before: str = "<s>"
    after: str = "</s>"


BART = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2} | {
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
ENCODERS = {
    "deberta-v2": Architecture("DebertaV2Config", SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "modernbert": Architecture("ModernBertConfig"),
    "roberta": Architecture("RobertaConfig"),
    "electra": Architecture("ElectraConfig", SMALL | {"embedding_size": 16}),
    "distilbert": Architecture(
        "DistilBertConfig", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 64}
    ),
}
DECODERS = {
    "gemma": Architecture("GemmaConfig", SMALL | {"num_key_value_heads": 1, "head_dim": 8}, after=""),
    "opt": Architecture(
        "OPTConfig",
        {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 32, "word_embed_proj_dim": 16}
        | {"max_position_embeddings": 64},
        before="</s>",
        after="",
    ),
    "gpt_neox": Architecture("GPTNeoXConfig", before="", after=""),
}
PAIRS = {
    "t5": Architecture("T5Config", T5, before=""),
    "bart": Architecture("BartConfig", BART | {"decoder_start_token_id": 2}),
}
TEXTUAL = ENCODERS | DECODERS | PAIRS


def tokenizer_of(architecture: Architecture) -> transformers.PreTrainedTokenizerFast:
    """Train a byte-level tokenizer on the texts of this module."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    names = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=names,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    before, after = architecture.before, architecture.after
    around = [before] if before else [], [after] if after else []
    if before or after:
        between = [after] if after else [before] if before == "</s>" else []
        backend.post_processor = processors.TemplateProcessing(
            single=" ".join([*around[0], "$A", *around[1]]),
            pair=" ".join([*around[0], "$A", *between, "$B:1", *(f"{name}:1" for name in around[1])]),
            special_tokens=[(name, names.index(name)) for name in ("<s>", "</s>")],
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=64,
    )


def make_folder(path: Path, architecture: Architecture, kind: str = "AutoModel", **more: Any) -> Path:
    """Write a model with random weights and its tokenizer into the folder `path`."""
    torch.manual_seed(0)
    tokenizer = tokenizer_of(architecture)
    config = getattr(transformers, architecture.config)(
        vocab_size=len(tokenizer),
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **architecture.sizes,
        **more,
    )
    model = getattr(transformers, kind).from_config(config)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def make_vision_folder(path: Path, kind: str = "clip_vision_model") -> Path:
    """Write a model of images and its image processor into the folder `path`."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2} | {
        "intermediate_size": 32,
        "image_size": 16,
        "patch_size": 4,
    }
    if kind == "clip":
        vision = transformers.CLIPVisionConfig(**sizes)
        text_sizes: dict[str, Any] = {**SMALL, "eos_token_id": 2}
        text = transformers.CLIPTextConfig(vocab_size=32, **text_sizes)
        config = transformers.CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=8)
        model = transformers.CLIPModel(config)
        processor: Any = transformers.CLIPImageProcessor(
            size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}
        )
    elif kind == "clip_vision_model":
        model = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**sizes))
        processor = transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    else:
        stages: dict[str, Any] = {"hidden_sizes": [8, 12], "depths": [1, 1]}
        configs: dict[str, Any] = {
            "dinov2": lambda: transformers.Dinov2Config(**sizes),
            "registers": lambda: transformers.Dinov2WithRegistersConfig(**sizes, num_register_tokens=3),
            "vit": lambda: transformers.ViTConfig(**sizes),
            "swin": lambda: transformers.SwinConfig(
                image_size=16, patch_size=2, embed_dim=6, depths=[1, 1], num_heads=[2, 3], window_size=2
            ),
            "convnext": lambda: transformers.ConvNextConfig(num_stages=2, patch_size=2, image_size=16, **stages),
            "resnet": lambda: transformers.ResNetConfig(embedding_size=6, layer_type="basic", **stages),
            "efficientnet": lambda: transformers.EfficientNetConfig(
                image_size=32, width_coefficient=0.25, depth_coefficient=0.2, hidden_dim=320
            ),
            "vit_mae": lambda: transformers.ViTMAEConfig(**sizes),
            "deep": lambda: transformers.ViTConfig(**sizes, num_channels=4),
        }
        model = transformers.AutoModel.from_config(configs[kind]())
        side = 32 if kind == "efficientnet" else 16
        processor = transformers.ViTImageProcessor(size={"height": side, "width": side})
        if kind in ("convnext", "resnet"):
            processor = transformers.ConvNextImageProcessor(size={"shortest_edge": 16})
        if kind == "efficientnet":
            processor = transformers.EfficientNetImageProcessor(size={"height": 32, "width": 32})
    model.save_pretrained(path)
    processor.save_pretrained(path)
    return path
