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
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *WORDS, *(f"##{x}" for x in letters), "##s"])}
    vocabulary |= {letter: len(vocabulary) + place for place, letter in enumerate(letters) if letter not in vocabulary}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # pyright: ignore[reportCallIssue]
    tokenizer.normalizer = normalizers.BertNormalizer()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return max(vocabulary.values()) + 1


def byte_level(folder: Path, *, ends: bool = False) -> int:
    """Write a tokenizer like GPT-2's, or like BART's with an end token after each text, and return its size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)  # pyright: ignore
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    special = ["<pad>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT] * 3, trainer)
    if ends:
        tokenizer.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
        )
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return tokenizer.get_vocab_size() + 8  # some families add tokens of their own


def sizes(vocabulary: int, **others: Any) -> dict[str, Any]:
    """Sizes that most configurations have."""
    common = {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 12, "intermediate_size": 7}
    return {"vocab_size": vocabulary, **common, "pad_token_id": 0, **others}


def paired(vocabulary: int, **others: Any) -> dict[str, Any]:
    """Sizes of BART and models like it."""
    sides = {"layers": 2, "attention_heads": 3, "ffn_dim": 7}
    both = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sides.items()}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return {"vocab_size": vocabulary, "d_model": 12, **both, **ids, **others}


ENCODERS = {
    "bert": ("Bert", "MaskedLM", {}),
    "roberta": ("Roberta", "MaskedLM", {}),
    "albert": ("Albert", "MaskedLM", {"embedding_size": 6}),
    "electra": ("Electra", "MaskedLM", {"embedding_size": 6}),
    "mpnet": ("MPNet", "MaskedLM", {}),
    "deberta": ("DebertaV2", "MaskedLM", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "bert-class": ("Bert", "SequenceClassification", {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0}}),
}
DECODERS = {
    "llama": ("Llama", {"num_key_value_heads": 1}),
    "mistral": ("Mistral", {"num_key_value_heads": 1, "sliding_window": 6}),
    "qwen2": ("Qwen2", {"num_key_value_heads": 1}),
    "gemma": ("Gemma", {"num_key_value_heads": 1, "head_dim": 4}),
    "gemma2": ("Gemma2", {"num_key_value_heads": 1, "head_dim": 4, "sliding_window": 6}),
}
FAMILIES = (*ENCODERS, "distilbert", "gpt2", *DECODERS, "t5", "bart", "vit", "clip", "whisper")


def tiny_folder(name: str, folder: Path) -> Path:
    """Write the random tiny model of a family with all its files."""
    import transformers as t

    torch.manual_seed(3)
    folder.mkdir(parents=True, exist_ok=True)
    if name in ENCODERS:
        family, head, others = ENCODERS[name]
        config = getattr(t, f"{family}Config")(**sizes(wordpiece(folder), **others))
        model = getattr(t, f"{family}For{head}")(config)
    elif name in DECODERS:
        family, others = DECODERS[name]
        ends = {"bos_token_id": 1, "eos_token_id": 2}
        config = getattr(t, f"{family}Config")(**sizes(byte_level(folder), **ends, **others))
        model = getattr(t, f"{family}ForCausalLM")(config)
    else:
        model = OTHERS[name](t, folder)
    model.save_pretrained(folder)
    return folder


def _distilbert(t: Any, folder: Path) -> Any:
    config = t.DistilBertConfig(vocab_size=wordpiece(folder), dim=12, n_layers=2, n_heads=3, hidden_dim=7)
    return t.DistilBertForMaskedLM(config)


def _gpt2(t: Any, folder: Path) -> Any:
    ends = {"bos_token_id": 1, "eos_token_id": 2}
    return t.GPT2LMHeadModel(
        t.GPT2Config(vocab_size=byte_level(folder), n_positions=64, n_embd=12, n_layer=2, n_head=3, **ends)
    )


def _t5(t: Any, folder: Path) -> Any:
    config = {"d_model": 12, "d_kv": 4, "d_ff": 7, "num_layers": 2, "num_heads": 3, "pad_token_id": 0}
    return t.T5ForConditionalGeneration(
        t.T5Config(vocab_size=byte_level(folder, ends=True), **config, eos_token_id=2, decoder_start_token_id=0)
    )


def _bart(t: Any, folder: Path) -> Any:
    return t.BartForConditionalGeneration(t.BartConfig(**paired(byte_level(folder, ends=True))))


def _vit(t: Any, folder: Path) -> Any:
    images(t, folder)
    config = {name: size for name, size in sizes(0).items() if name not in ("vocab_size", "pad_token_id")}
    return t.ViTForImageClassification(
        t.ViTConfig(**config, image_size=32, patch_size=8, id2label={0: "cat", 1: "dog"})
    )


def _clip(t: Any, folder: Path) -> Any:
    images(t, folder)
    text = sizes(wordpiece(folder), bos_token_id=2, eos_token_id=3)
    vision = {name: size for name, size in text.items() if not name.endswith("_id") and name != "vocab_size"}
    config = t.CLIPConfig(
        text_config=text, vision_config={**vision, "image_size": 32, "patch_size": 8}, projection_dim=5
    )
    return t.CLIPModel(config)


def _whisper(t: Any, folder: Path) -> Any:
    t.WhisperFeatureExtractor(feature_size=8, chunk_length=1).save_pretrained(folder)
    limits = {"max_source_positions": 50, "max_target_positions": 40, "num_mel_bins": 8}
    return t.WhisperForConditionalGeneration(
        t.WhisperConfig(**paired(byte_level(folder)), **limits, suppress_tokens=None, begin_suppress_tokens=None)
    )


def images(t: Any, folder: Path) -> None:
    """Write an image processor."""
    size = {"height": 32, "width": 32}
    t.ViTImageProcessor(size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(folder)


OTHERS = {
    "distilbert": _distilbert,
    "gpt2": _gpt2,
    "t5": _t5,
    "bart": _bart,
    "vit": _vit,
    "clip": _clip,
    "whisper": _whisper,
}


def picture(path: Path) -> Path:
    """Write an image of a red disc on a blue ground."""
    from PIL import Image

    down, across = np.mgrid[:48, :48]
    disc = (down - 20) ** 2 + (across - 28) ** 2 < 150
    pixels = np.where(disc[..., None], [220, 40, 40], [40, 60, 160]).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def sound(path: Path, rate: int = 16000, *, width: int = 2, seconds: int = 1) -> Path:
    """Write two tones, in samples of `width` bytes."""
    time = np.arange(seconds * rate) / rate
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
