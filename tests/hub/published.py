"""Small published models, made by transformers with weights that are drawn."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

from tests.hub import spm

TEXTS = ["the cat sat on the mat", "the dog's 12 bones aren't there", "Ein Haus, drei Häuser und ein Übermut"]
BETWEEN = "<|endoftext|>"
CONFIGURATIONS: list[dict[str, Any]] = [
    {"n_layer": 1, "n_embd": 6, "n_head": 3, "n_positions": 11},
    {"n_layer": 2, "n_embd": 10, "n_head": 2, "n_positions": 23, "n_inner": 7},
    {
        "n_layer": 3,
        "n_embd": 21,
        "n_head": 7,
        "n_positions": 13,
        "n_inner": 31,
        "activation_function": "gelu_pytorch_tanh",
    },
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


def written(theirs: Any, ids: list[int], *, tokens: int, beam: int, end: int) -> list[int]:
    """What transformers writes after these ids, without sampling and without a penalty of the length."""
    given = torch.tensor([ids])
    found = theirs.generate(
        given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=tokens,
        num_beams=beam,
        do_sample=False,
        length_penalty=0.0,
        early_stopping=False,
        pad_token_id=end,
    )
    return found[0, len(ids) :].tolist()


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
    {"num_hidden_layers": 3, "hidden_size": 21, "num_attention_heads": 7, "intermediate_size": 11},
    {"num_hidden_layers": 1, "hidden_size": 26, "num_attention_heads": 1, "intermediate_size": 29},
]
"""Of BERT and RoBERTa: sizes that no released model has."""
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


def roberta_pairs() -> Tokenizer:
    """A tokenizer as RoBERTa's."""
    tokenizer = byte_pairs(279)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = dict.fromkeys([*special[:4], *tokenizer.get_vocab(with_added_tokens=False), special[4]])
    merges = [tuple(each) for each in json.loads(tokenizer.to_str())["model"]["merges"]]
    made = Tokenizer(models.BPE({entry: index for index, entry in enumerate(vocabulary)}, merges))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.add_special_tokens([*special[:4], AddedToken(special[4], lstrip=True, normalized=False)])
    return made


CHARACTERS = {"Ａ": "A", "ﬁ": "fi", "\t": " ", "\n": " ", "　": " ", "…": "...", "e\u0301": "é", "ｶﾞ": "ガ", "ｶ": "カ"}
MULTILINGUAL = [
    *TEXTS,
    "le café naïf",
    "кот сидит",
    "γάτα",
    "कुत्ता",
    "猫が座った カガ",
    "قطة",
    "고양이",
    "a .,!?<>/&123",
]


def unigram_pieces() -> Tokenizer:
    """A tokenizer as XLM-R's."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=140, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(MULTILINGUAL, trainer)
    pieces = json.loads(tokenizer.to_str())["model"]["vocab"]
    made = Tokenizer(models.Unigram([(piece, score) for piece, score in [*pieces, ("<mask>", 0.0)]], 3, False))
    made.normalizer = normalizers.Precompiled(spm.characters(CHARACTERS))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    made.decoder = decoders.Metaspace()
    made.add_special_tokens([*special, AddedToken("<mask>", lstrip=True, normalized=False)])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return made


def mpnet_pieces() -> Tokenizer:
    """A tokenizer as MPNet's: word pieces, among them BERT's names of special tokens and others of its own."""
    vocabulary = word_pieces().get_vocab()
    entries = ["<s>", "<pad>", "</s>", "<unk>", *sorted(vocabulary, key=vocabulary.__getitem__), "<mask>"]
    made = Tokenizer(models.WordPiece({entry: at for at, entry in enumerate(entries)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    made.add_special_tokens([*entries[:4], "[UNK]", AddedToken("<mask>", lstrip=True, normalized=False)])
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return made


TOKENIZERS = {"roberta": roberta_pairs, "xlm-roberta": unigram_pieces, "mpnet": mpnet_pieces}


def filler(folder: Path, kind: str, **sizes: Any) -> Any:
    """A published BERT, or another model of its layers, that fills in blanks, and it as transformers runs it."""
    transformers = quiet()
    tokenizer = TOKENIZERS.get(kind, word_pieces)()
    shared = {"vocab_size": tokenizer.get_vocab_size(), "attn_implementation": "eager"}
    torch.manual_seed(3)
    match kind:
        case "bert":
            config = transformers.BertConfig(**shared, **sizes, max_position_embeddings=POSITIONS)
            model = transformers.BertForPreTraining(config)
        case "roberta" | "xlm-roberta":
            positions = {"max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1, "pad_token_id": 1}
            name = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta"}[kind]
            config = getattr(transformers, f"{name}Config")(**shared, **sizes, **positions, layer_norm_eps=1e-5)
            model = getattr(transformers, f"{name}ForMaskedLM")(config)
        case "mpnet":
            positions = {"max_position_embeddings": POSITIONS + 2}
            model = transformers.MPNetForMaskedLM(transformers.MPNetConfig(**shared, **sizes, **positions))
        case "electra" | "electra discriminator":
            narrow = {"embedding_size": sizes["hidden_size"] + 5 * (sizes["num_hidden_layers"] % 3 - 1)}
            config = transformers.ElectraConfig(**shared, **sizes, **narrow, max_position_embeddings=POSITIONS)
            head = "ForMaskedLM" if kind == "electra" else "ForPreTraining"
            model = getattr(transformers, f"Electra{head}")(config)
        case _:
            names = {"num_hidden_layers": "n_layers", "hidden_size": "dim", "num_attention_heads": "n_heads"}
            renamed = {names.get(name, "hidden_dim"): size for name, size in sizes.items()}
            config = transformers.DistilBertConfig(**shared, **renamed, max_position_embeddings=POSITIONS)
            model = transformers.DistilBertForMaskedLM(config)
    for parameter in model.eval().parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model
