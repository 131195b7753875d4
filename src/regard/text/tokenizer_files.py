"""Tokenizers in the files of other libraries: SentencePiece, tokenizers and subword-nmt."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.extras import how_to_install
from regard.text.kinds import NAMES, SpecialTokens
from regard.text.pipeline import HIDDEN, Pipeline

UNIGRAM, BYTE_PAIRS = 1, 2
"""The types of SentencePiece models (Kudo and Richardson 2018) that are supported."""
NORMAL, UNKNOWN_PIECE, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Types of pieces."""
BLANK = "▁"
CODES = "#version:"
"""The beginning of codes of subword-nmt (Sennrich 2016), and of a merges.txt."""
WORD_END = "</w>"
ROLES = {
    "pad": ("<pad>", "[PAD]"),
    "unknown": ("<unk>", "[UNK]"),
    "start": ("<s>", "[CLS]", "<bos>", "[BOS]"),
    "end": ("</s>", "[SEP]", "<eos>", "[EOS]", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}
"""Usual names of special tokens."""
EXPECTED = (
    "a SentencePiece model, a tokenizer.json or codes of subword-nmt 0.2 or newer"
)


def read_tokenizer_file(
    content: bytes, path: str, texts: Iterable[str]
) -> tuple[Pipeline, SpecialTokens]:
    """Read a SentencePiece model, a tokenizer.json or the codes of subword-nmt.

    Args:
        content: The content of the file.
        path: The file, for the error.
        texts: The training texts, whose characters complete the vocabulary of codes.

    Raises:
        InputError: The file is none of these, or computes something that regard does not.
    """
    try:
        if content.startswith(CODES.encode()):
            return read_codes(content.decode(), texts)
        if content.lstrip().startswith(b"{"):
            return read_document(json.loads(content))
        return read_pieces(parse_sentencepiece(content))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:  # the library raises errors of its own, and bare ones
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path}: {reason}; expected {EXPECTED}") from error


def parse_sentencepiece(content: bytes) -> Any:
    """Return a SentencePiece model as protobuf reads it.

    Raises:
        InputError: It is no such model, or computes something that regard does not, or
            protobuf is not installed.
    """
    try:
        from transformers.convert_slow_tokenizer import import_protobuf

        library = import_protobuf()
    except ImportError as error:
        raise InputError(
            "a SentencePiece model needs transformers and protobuf: "
            f"{how_to_install('transformers')}"
        ) from error
    model: Any = library.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        model.ParseFromString(content)
    except Exception as error:  # protobuf's own errors have no common class
        raise InputError(f"is no tokenizer file; expected {EXPECTED}") from error
    types = {piece.type for piece in model.pieces}
    trainer = model.trainer_spec
    normalizer = model.normalizer_spec
    problems = {
        f"is no tokenizer file; expected {EXPECTED}": NORMAL not in types,
        "does not say how text is normalized": not model.HasField("normalizer_spec"),
        "is a model of words or characters, not of type unigram or bpe": (
            trainer.model_type not in (UNIGRAM, BYTE_PAIRS)
        ),
        "was trained with treat_whitespace_as_suffix": (
            trainer.treat_whitespace_as_suffix
        ),
        "has pieces that its user defined (user_defined_symbols)": USER_DEFINED
        in types,
        "has unused pieces among byte pairs": (
            UNUSED in types and trainer.model_type == BYTE_PAIRS
        ),
        "was trained without escape_whitespaces": not normalizer.escape_whitespaces,
        "has rules that denormalize its output": (
            model.denormalizer_spec.precompiled_charsmap
        ),
        "has scores that are no numbers": not all(
            math.isfinite(piece.score) for piece in model.pieces
        ),
    }
    for problem, holds in problems.items():
        if holds:
            raise InputError(problem)
    return model


def list_scores(model: Any) -> dict[str, float]:
    """Return the scores of a SentencePiece model's normal pieces."""
    return {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}


def has_bytes(model: Any) -> bool:
    """Return whether a SentencePiece model has pieces of single bytes."""
    return any(piece.type == BYTE for piece in model.pieces)


def read_pieces(model: Any) -> tuple[Pipeline, SpecialTokens]:
    """Return the tokenizer of a SentencePiece model, with its ids.

    A text that spells a byte, such as `<0x0A>`, becomes that byte with a unigram model.

    Raises:
        InputError: The model has no unknown piece.
    """
    pieces = [piece.piece for piece in model.pieces]
    ids = {piece: index for index, piece in enumerate(pieces)}
    types = [piece.type for piece in model.pieces]
    if UNKNOWN_PIECE not in types:
        raise InputError("has no unknown piece; train it with an unk_id")
    hidden = {
        piece: ids[piece]
        for piece, kind in zip(pieces, types, strict=True)
        if kind in (CONTROL, UNUSED)
    }
    trainer = model.trainer_spec
    names = {
        "pad": (trainer.pad_piece,),
        "start": (trainer.bos_piece,),
        "end": (trainer.eos_piece,),
        "mask": ROLES["mask"],
    }
    roles = find_roles(names, hidden) | {"unknown": types.index(UNKNOWN_PIECE)}
    special, entries = add_roles(roles, hidden, len(pieces))
    scores = [piece.score for piece in model.pieces]
    if trainer.model_type == UNIGRAM:
        labels = [HIDDEN + piece if piece in hidden else piece for piece in pieces]
        scored = list(zip(labels, scores, strict=True))
        backend: Any = models.Unigram(scored, special.unknown, has_bytes(model))
    else:
        backend = models.BPE(
            ids,
            list_merges(list_scores(model)),
            unk_token=pieces[special.unknown],
            fuse_unk=True,
            byte_fallback=has_bytes(model),
        )
    document = build_sentencepiece(backend, model)
    return Pipeline(document, entries, special), special


def find_roles(
    names: Mapping[str, Iterable[str]], ids: Mapping[str, int]
) -> dict[str, int]:
    """Return the id of each special token whose name is an entry."""
    return {
        role: next(ids[name] for name in choices if name in ids)
        for role, choices in names.items()
        if not ids.keys().isdisjoint(choices)
    }


def add_roles(
    roles: Mapping[str, int], entries: Mapping[str, int], size: int
) -> tuple[SpecialTokens, dict[str, int]]:
    """Return special tokens, and entries with those that a vocabulary lacks.

    Args:
        roles: The ids of the special tokens that the vocabulary has.
        entries: Its entries that are no pieces of the model.
        size: Its size, which the ids of further entries count up from.
    """
    ids = dict(roles)
    entries = dict(entries)
    for role, (name, *_) in ROLES.items():
        if role not in ids and role != "mask":
            entries[name] = ids[role] = size
            size += 1
    pad, unknown, start, end = (ids[role] for role in ROLES if role != "mask")
    return SpecialTokens(pad, unknown, start, end, ids.get("mask")), entries


def list_merges(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return the merges of byte pairs, the piece with the highest score first."""
    merges = [
        (piece[:end], piece[end:])
        for piece in scores
        for end in range(1, len(piece))
        if piece[:end] in scores and piece[end:] in scores
    ]
    return sorted(merges, key=lambda pair: -scores[pair[0] + pair[1]])


def build_sentencepiece(backend_model: Any, model: Any) -> dict[str, Any]:
    """Return the parts of a pipeline around the pieces of a SentencePiece model.

    Args:
        backend_model: The pieces as a model of the tokenizers library.
        model: The SentencePiece model.
    """
    settings = model.normalizer_spec
    backend = Backend(backend_model)
    backend.normalizer = build_normalizer(settings)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(BLANK, "never", split=False)
    prefix = "always" if settings.add_dummy_prefix else "never"
    backend.decoder = decoders.Metaspace(BLANK, prefix)
    if has_bytes(model):
        steps = [decoders.ByteFallback(), backend.decoder]
        backend.decoder = decoders.Sequence(steps)
    return json.loads(backend.to_str())


def build_normalizer(settings: Any) -> normalizers.Normalizer:
    """Return the normalizer of a SentencePiece model."""
    steps: list[Any] = []
    if "nfkc" in settings.name:
        # The table alone would lose the second of two marks on a letter.
        steps.append(normalizers.NFKC())
    if settings.precompiled_charsmap:
        steps.append(normalizers.Precompiled(settings.precompiled_charsmap))
    if settings.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        steps.append(normalizers.Replace(Regex(f"^ +|[ {BLANK}]+$"), ""))
    if settings.add_dummy_prefix:
        steps.append(normalizers.Prepend(BLANK))
    return normalizers.Sequence(steps)


def read_document(document: Any) -> tuple[Pipeline, SpecialTokens]:
    """Return the tokenizer of a tokenizer.json, with its ids.

    Special tokens are recognized by their usual names.

    Raises:
        InputError: It has no unknown token, or added tokens that are no special ones.
        Exception: It is no tokenizer.json.
    """
    model = document.get("model")
    if model is None:
        raise InputError(f"has no model; expected {EXPECTED}")
    pieces = model["vocab"]
    if isinstance(pieces, list):
        pieces = {piece: index for index, (piece, _) in enumerate(pieces)}
    tokens = document.get("added_tokens") or ()
    added = {token["content"]: token["id"] for token in tokens}
    plain = [token["content"] for token in tokens if not token["special"]]
    if plain:
        raise InputError(
            f"has added tokens that are not special, such as {plain[0]!r}; add them with "
            "add_special_tokens"
        )
    ids = pieces | added
    roles = find_roles(ROLES | {"unknown": [model.get("unk_token")]}, ids)
    if model.get("unk_id") is not None:
        roles["unknown"] = model["unk_id"]
    is_complete = model.get("byte_fallback")
    is_complete = is_complete or '"ByteLevel"' in json.dumps(document["pre_tokenizer"])
    if "unknown" not in roles and not is_complete:
        raise InputError("has no unknown token; train it with unk_token")
    special, entries = add_roles(roles, added, max(ids.values()) + 1)
    return Pipeline(document, entries, special), special


def read_codes(content: str, texts: Iterable[str]) -> tuple[Pipeline, SpecialTokens]:
    """Return the tokenizer of codes of subword-nmt, whose words are separated by spaces.

    The vocabulary has the characters of the training texts and the codes.

    Raises:
        InputError: They are of an older version, or of another library.
    """
    first, *lines = content.rstrip("\n").split("\n")
    if first.removeprefix(CODES).strip() != "0.2":
        raise InputError(f"has codes of another version ({first}); expected 0.2")
    merges: dict[tuple[str, str], None] = {}
    for number, line in enumerate(lines, 2):
        pair = line.strip("\r ").split(" ")
        if len(pair) != 2:
            raise InputError(f"line {number} is {line[:40]!r}, not two pieces")
        merges[pair[0], pair[1]] = None
    if not any(second.endswith(WORD_END) for _, second in merges):
        raise InputError(
            "is a merges.txt of the tokenizers library; name its tokenizer.json instead"
        )
    pieces = {piece for pair in merges for piece in pair}
    for text in texts:
        for word in filter(None, text.split(" ")):
            pieces |= {*word[:-1], word[-1] + WORD_END}
    entries = [*NAMES, *sorted(pieces - {*NAMES}), *map("".join, merges)]
    ids = {entry: index for index, entry in enumerate(dict.fromkeys(entries))}
    backend = Backend(
        models.BPE(ids, [*merges], unk_token=NAMES[1], end_of_word_suffix=WORD_END)
    )
    backend.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    backend.decoder = decoders.BPEDecoder(WORD_END)
    special = SpecialTokens()
    return Pipeline(json.loads(backend.to_str()), {}, special), special
