"""Folders of random tiny transformers models with their tokenizers and processors."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch

TEXT = "the old cat sat on the mat and the dog read a book"
WORDS = sorted({*TEXT.split(), "is", "in", "of", "man", "sings"})
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpiece(folder: Path) -> int:
    """Write a tokenizer like BERT's, and return its size."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = [chr(code) for code in range(97, 123)]
    entries = dict.fromkeys([*SPECIAL, *WORDS, *(f"##{letter}" for letter in letters), *letters])
    vocabulary = {entry: index for index, entry in enumerate(entries)}
    tokenizer: Any = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # pyright: ignore[reportCallIssue]
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return len(vocabulary)


def byte_level(folder: Path, *, ends: bool = False) -> int:
    """Write a tokenizer like GPT-2's, or like BART's with an end token after each text, and return its size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=[*names.values()], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator([TEXT] * 3, trainer)
    if ends:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
        )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return tokenizer.get_vocab_size() + 8  # some families add tokens of their own


SIZES = {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 12, "intermediate_size": 7}
"""Sizes that most configurations have."""
ENDS = {"bos_token_id": 1, "eos_token_id": 2}
PAIRED = ENDS | {"d_model": 12, "decoder_start_token_id": 1} | {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in {"layers": 2, "attention_heads": 3, "ffn_dim": 7}.items()
}  # fmt: skip
"""Sizes of BART and models like it."""
GROUPED = SIZES | ENDS | {"num_key_value_heads": 1}
ENCODERS = {
    "bert": ("Bert", "ForMaskedLM", SIZES),
    "albert": ("Albert", "ForMaskedLM", SIZES | {"embedding_size": 6}),
    "deberta": ("DebertaV2", "ForMaskedLM", SIZES | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "bert-class": ("Bert", "ForSequenceClassification", SIZES | {"id2label": {0: "bad", 1: "good"}}),
}
DECODERS = {
    "gpt2": ("GPT2", "LMHeadModel", ENDS | {"n_positions": 64, "n_embd": 12, "n_layer": 2, "n_head": 3}),
    "llama": ("Llama", "ForCausalLM", GROUPED),
    "mistral": ("Mistral", "ForCausalLM", GROUPED | {"sliding_window": 6}),
}
PAIRS = {
    "t5": (
        "T5",
        "ForConditionalGeneration",
        {"d_model": 12, "d_kv": 4, "d_ff": 7, "num_layers": 2, "num_heads": 3, "eos_token_id": 2}
        | {"decoder_start_token_id": 0},
    ),
    "bart": ("Bart", "ForConditionalGeneration", PAIRED),
    "whisper": (
        "Whisper",
        "ForConditionalGeneration",
        PAIRED
        | {"max_source_positions": 50, "max_target_positions": 40, "num_mel_bins": 8}
        | {"suppress_tokens": None, "begin_suppress_tokens": None},
    ),
}
FAMILIES = (*ENCODERS, *DECODERS, *PAIRS, "vit", "clip")


def tiny_folder(name: str, folder: Path) -> Path:
    """Write the random tiny model of a family with all its files."""
    import transformers as t

    torch.manual_seed(3)
    folder.mkdir(parents=True, exist_ok=True)
    if name in ("vit", "clip"):
        images(t, folder)
        vision: Any = SIZES | {"image_size": 32, "patch_size": 8}
        config = t.ViTConfig(**vision, id2label={0: "cat", 1: "dog"})
        if name == "vit":
            model = t.ViTForImageClassification(config)
        else:
            text: Any = SIZES | {"vocab_size": wordpiece(folder), "pad_token_id": 0, "bos_token_id": 2}
            sides: Any = {"text_config": text | {"eos_token_id": 3}, "vision_config": vision}
            model = t.CLIPModel(t.CLIPConfig(**sides, projection_dim=5))
    else:
        family, head, sizes = (ENCODERS | DECODERS | PAIRS)[name]
        if name == "whisper":
            t.WhisperFeatureExtractor(feature_size=8, chunk_length=1).save_pretrained(folder)
        size = wordpiece(folder) if name in ENCODERS else byte_level(folder, ends=name in ("t5", "bart"))
        config = getattr(t, f"{family}Config")(vocab_size=size, pad_token_id=0, **sizes)
        model = getattr(t, f"{family}{head}")(config)
    model.save_pretrained(folder)
    return folder


def images(t: Any, folder: Path) -> None:
    """Write an image processor."""
    size = {"height": 32, "width": 32}
    t.ViTImageProcessor(size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(folder)


def picture(path: Path) -> Path:
    """Write an image of a red disc on a blue ground."""
    from PIL import Image

    down, across = np.mgrid[:48, :48]
    disc = (down - 20) ** 2 + (across - 28) ** 2 < 150
    pixels = np.where(disc[..., None], [220, 40, 40], [40, 60, 160]).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def sound(path: Path, rate: int = 16000, *, width: int = 2, seconds: float = 1) -> Path:
    """Write two tones, in samples of `width` bytes."""
    time = np.arange(round(seconds * rate)) / rate
    samples = np.round(np.sin(2 * np.pi * np.where(time < 0.5, 440, 880) * time) * 12000)
    wide = (samples * 2.0 ** (8 * (width - 2))).astype("<i4").view(np.uint8).reshape(-1, 4)[:, :width]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(wide.tobytes())
    return path


def example(name: str, folder: Path) -> str:
    """An example for a family."""
    if name in ("vit", "clip"):
        return str(picture(folder / "disc.png"))
    return str(sound(folder / "tones.wav")) if name == "whisper" else TEXT
