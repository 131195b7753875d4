"""A small published translation model, made by transformers with weights that are drawn."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.hub import spm
from tests.hub.published import quiet

SIZES: list[dict[str, Any]] = [
    {"d_model": 6, "heads": 3, "ffn": 5, "encoder_layers": 1, "decoder_layers": 1, "activation_function": "swish"},
    {"d_model": 10, "heads": 2, "ffn": 23, "encoder_layers": 3, "decoder_layers": 2, "activation_function": "relu"},
    {"d_model": 21, "heads": 7, "ffn": 11, "encoder_layers": 2, "decoder_layers": 3, "activation_function": "gelu"},
]
"""Sizes that no released model has."""
POSITIONS = 23
TABLE = {"Ａ": "A", "ﬁ": "fi", "\t": " ", "　": " ", "…": "...", "é": "e"}
SOURCE = ["▁the", "▁c", "at", "▁m", "▁s", "th", "fi", "▁A", ".", "▁", *"abcdefhimnorst"]
TARGET = ["▁die", "▁K", "atze", "▁M", "▁s", "itz", ".", "▁", *"abcdehiknostuzKMü"]
UNLISTED = ("th", "itz")
"""Pieces that the vocabulary does not have."""
LISTED = (">>de<<", "日")
"""Entries that are no pieces."""


def pieces(texts: list[str]) -> list[spm.Piece]:
    """With log-probabilities that make all ways to cut a text differ."""
    found = [(text, -1.0 - 0.37 * place - 2.0 * (len(text) == 1), 1) for place, text in enumerate(texts)]
    return [*spm.SPECIAL, *found, ("unused", -0.5, 5)]


def tokenizers(folder: Path) -> int:
    """The tokenizers' files in the folder -> how many entries the vocabulary has."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = [each for each in dict.fromkeys([*SOURCE, *LISTED, *TARGET]) if each not in UNLISTED]
    vocabulary = {entry: index for index, entry in enumerate(["</s>", "<unk>", *listed, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "source.spm").write_bytes(spm.model(pieces(SOURCE), table=TABLE))
    (folder / "target.spm").write_bytes(spm.model(pieces(TARGET), preparing={3: 1, 4: 1}))
    about = {"tokenizer_class": "MarianTokenizer", "model_max_length": POSITIONS}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return len(vocabulary)


def marian(folder: Path, *, heads: int, ffn: int, search: dict[str, Any] | None = None, **sizes: Any) -> Any:
    """A published translation model in the folder, and it as transformers runs it."""
    transformers = quiet()
    size = tokenizers(folder)
    torch.manual_seed(3)
    config = transformers.MarianConfig(
        vocab_size=size,
        max_position_embeddings=POSITIONS,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=ffn,
        decoder_ffn_dim=ffn,
        scale_embedding=sizes["d_model"] != 10,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        eos_token_id=0,
        forced_eos_token_id=None,
        attn_implementation="eager",
        **sizes,
    )
    model = transformers.MarianMTModel(config).eval()
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.3)
    nn.init.normal_(model.final_logits_bias, std=0.3)
    model.generation_config.update(**{"bad_words_ids": [[size - 1]], "max_length": 17} | (search or {}))
    model.save_pretrained(folder)
    return model
