"""Small published models, made by transformers with weights that are drawn."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

TEXTS = ["the cat sat on the mat", "the dog's 12 bones aren't there", "Ein Haus, drei Häuser und ein Übermut"]
BETWEEN = "<|endoftext|>"
CONFIGURATIONS: list[dict[str, Any]] = [
    {"n_layer": 1, "n_embd": 6, "n_head": 3, "n_positions": 11},
    {"n_layer": 2, "n_embd": 10, "n_head": 2, "n_positions": 23, "n_inner": 7},
]
"""Of GPT-2: sizes that no released model has."""


def byte_pairs(size: int) -> Tokenizer:
    """A tokenizer as GPT-2's, whose last token is the one between two texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size - 1, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_special_tokens([BETWEEN])
    return tokenizer


def quiet() -> Any:
    """The library, without its progress bars."""
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    return transformers


def gpt2(folder: Path, **sizes: Any) -> Any:
    """A published GPT-2 in the folder, and it as transformers runs it."""
    transformers = quiet()
    tokenizer = byte_pairs(283)
    last = tokenizer.get_vocab_size() - 1
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        vocab_size=last + 1, bos_token_id=last, eos_token_id=last, attn_implementation="eager", **sizes
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


BERTS: list[dict[str, Any]] = [
    {"num_hidden_layers": 1, "hidden_size": 6, "num_attention_heads": 3, "intermediate_size": 5},
    {"num_hidden_layers": 2, "hidden_size": 10, "num_attention_heads": 2, "intermediate_size": 23},
]
"""Of BERT: sizes that no released model has."""
POSITIONS = 19


def word_pieces() -> Tokenizer:
    """A tokenizer as BERT's, its special entries among the others."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[unused1]", "[PAD]", "[UNK]", "[SEP]", "[CLS]", "[MASK]"]
    tokenizer.train_from_iterator(
        TEXTS, trainers.WordPieceTrainer(vocab_size=71, special_tokens=special, show_progress=False)
    )
    ids = tokenizer.get_vocab()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return tokenizer


def filler(folder: Path, **sizes: Any) -> Any:
    """A published BERT that fills in blanks, and it as transformers runs it."""
    transformers = quiet()
    tokenizer = word_pieces()
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=tokenizer.get_vocab_size(), attn_implementation="eager", max_position_embeddings=POSITIONS, **sizes
    )
    model = transformers.BertForPreTraining(config)
    for parameter in model.eval().parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


VITS: list[dict[str, Any]] = [
    {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 5, "image_size": 6,
     "patch_size": 2, "num_channels": 3},
    {"hidden_size": 10, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 23, "image_size": 15,
     "patch_size": 3, "num_channels": 1},
    {"hidden_size": 21, "num_hidden_layers": 3, "num_attention_heads": 7, "intermediate_size": 11, "image_size": 35,
     "patch_size": 5, "num_channels": 3, "layer_norm_eps": 1e-6},
]  # fmt: skip
"""Sizes that no released model has."""
CLASSES = ["cat", "dog", "crane", "owl", "crane"]
PREPROCESSORS: dict[str, dict[str, Any]] = {
    "vit": {"do_resize": True, "resample": 2, "do_normalize": True},
    "deit": {"do_resize": True, "resample": 3, "do_center_crop": True, "do_normalize": True},
}


def classifier(folder: Path, kind: str, **sizes: Any) -> Any:
    """A published ViT in the folder, with the preparation of images of a kind, and as transformers runs it."""
    transformers = quiet()
    torch.manual_seed(3)
    shared = {"id2label": dict(enumerate(CLASSES)), "attn_implementation": "eager"}
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, **shared))
    for parameter in model.eval().parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor(kind, **sizes)))
    return model


def preprocessor(kind: str, *, image_size: int, num_channels: int, **_: Any) -> dict[str, Any]:
    """How it wants its images."""
    larger = image_size if kind == "vit" else image_size + 2
    described = PREPROCESSORS[kind] | {"size": {"height": larger, "width": larger}}
    if kind == "deit":
        described["crop_size"] = {"height": image_size, "width": image_size}
    mean, deviation = [0.4, 0.5, 0.6][:num_channels], [0.2, 0.3, 0.1][:num_channels]
    name = {"vit": "ViTImageProcessor", "deit": "DeiTImageProcessor"}[kind]
    return described | {"image_processor_type": name, "image_mean": mean, "image_std": deviation}
