"""Read tokenizer.json, the file of Hugging Face's tokenizers library, strictly."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import InputError
from regard.hub.formats.folder import Folder
from regard.text.special import NAMES, UNKNOWN

TOKENIZER, ABOUT, EXTRA = "tokenizer.json", "tokenizer_config.json", "added_tokens.json"
Merges = list[tuple[str, str]]
PLAIN: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "BPE": {
        "dropout": (None, 0),
        "continuing_subword_prefix": (None, ""),
        "end_of_word_suffix": (None, ""),
        "ignore_merges": (None, False, True),
    },
    "WordPiece": {
        "continuing_subword_prefix": ("##",),
        "max_input_chars_per_word": (100,),
        "unk_token": (NAMES[UNKNOWN], "[UNK]"),
    },
    "WordLevel": {},
    "Unigram": {},
}
"""For each type of model: the settings that change its segmentation, and the values that regard computes."""
SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Document:
    """A tokenizer.json at `place`: the type of its model, its vocabulary, its merges, and the whole object."""

    place: str
    type: str
    vocabulary: dict[str, int]
    merges: Merges
    whole: Mapping[str, Any]

    def part(self, name: str) -> dict[str, Any]:
        """Return a part of the pipeline, such as the normalizer; empty if the file has none."""
        found = self.whole.get(name)
        return found if isinstance(found, dict) else {}

    @property
    def unknown(self) -> Any:
        """Return the id of the model's unknown piece; None if it has none."""
        model = self.whole["model"]
        return (
            model.get("unk_id")
            if self.type == "Unigram"
            else self.vocabulary.get(model.get("unk_token") or "")
        )

    def cuts_as(self, other: Mapping[str, Any], parts: Sequence[str]) -> bool:
        """Return whether these parts of the pipeline, the use of merges for whole words and that of bytes for unknown
        characters are those of another file."""
        own, model = self.whole["model"], other["model"]
        same = all(
            bool(own.get(key)) is bool(model.get(key))
            for key in ("ignore_merges", "byte_fallback")
        )
        return same and all(
            _step(self.whole.get(part)) == _step(other[part]) for part in parts
        )

    def is_absent(self, name: str) -> bool:
        """Return whether a part is missing or has no steps."""
        return _step(self.whole.get(name)) is None

    @property
    def is_gpt2_byte_level(self) -> bool:
        """Return whether text is pretokenized as by GPT-2: byte-level, without normalization."""
        cut = self.part("pre_tokenizer")
        plain = cut.get("type") == "ByteLevel" and cut.get("add_prefix_space") in (
            None,
            False,
        )
        model = self.whole["model"]
        merging = not model.get("ignore_merges") and not model.get("byte_fallback")
        return (
            plain
            and merging
            and cut.get("use_regex", True) is True
            and self.is_absent("normalizer")
        )


def read(folder: Folder, types: Sequence[str]) -> Document:
    """Read the tokenizer.json of a folder. Early files lack the type of their model: it is BPE if there are merges,
    Unigram if the vocabulary is a list, else WordPiece.

    Raises:
        InputError: the file is missing or broken, its model is none of the `types`, or it segments words differently.
    """
    whole, place = folder.json(TOKENIZER), str(folder.path / TOKENIZER)
    model = whole.get("model")
    model = model if isinstance(model, dict) else {}
    plain = "Unigram" if isinstance(model.get("vocab"), list) else "WordPiece"
    kind = model.get("type", "BPE" if "merges" in model else plain)
    if kind not in types or "vocab" not in model:
        raise InputError(
            f"{place}: expected a model of type {' or '.join(types)}; does it belong to another model?"
        )
    require(model, PLAIN[kind], place)
    vocabulary = entries(
        _numbered(model["vocab"], place) if kind == "Unigram" else model["vocab"], place
    )
    merges = pairs(model.get("merges") or [], vocabulary, place)
    return Document(
        place,
        kind,
        vocabulary | _added(whole.get("added_tokens") or [], vocabulary, place),
        merges,
        whole,
    )


def check_added(folder: Folder, vocabulary: Mapping[str, int]) -> None:
    """Raises InputError for a token that tokenizer_config.json or added_tokens.json adds to a vocabulary, or that it
    matches in plain text."""
    about = folder.json(ABOUT) if folder.has(ABOUT) else {}
    listed = about.get("added_tokens_decoder") or {}
    if not isinstance(listed, dict):
        raise InputError(
            f"{folder.path / ABOUT}: added_tokens_decoder is {_shown(listed)}; expected an object"
        )
    _added(
        [
            {"id": int(key) if key.isdecimal() else key, **_object(each)}
            for key, each in listed.items()
        ],
        vocabulary,
        str(folder.path / ABOUT),
    )
    found = [(ABOUT, each["content"]) for each in listed.values()]
    found += [
        (ABOUT, _object(each).get("content", each))
        for each in about.get("additional_special_tokens") or []
    ]
    found += [
        (EXTRA, each) for each in (folder.json(EXTRA) if folder.has(EXTRA) else {})
    ]
    for file, name in found:
        if name not in vocabulary:
            raise InputError(
                f"{folder.path / file}: adds the token {name!r} to the vocabulary; regard reads added tokens of "
                f"{TOKENIZER} only, which transformers' save_pretrained writes"
            )


def require(
    value: Mapping[str, Any], plain: Mapping[str, Sequence[Any]], place: str
) -> None:
    """Raises InputError for a key of `plain` whose value changes the segmentation."""
    for key, values in plain.items():
        if key in value and value[key] not in values:
            raise InputError(
                f"{place}: {key} is {_shown(value[key])}; regard segments text with {values[-1]!r} only"
            )


def entries(value: Any, place: str) -> dict[str, int]:
    """Check a vocabulary. Raises InputError for entries without a whole number."""
    if not isinstance(value, dict) or any(
        type(index) is not int for index in value.values()
    ):
        raise InputError(
            f"{place}: expected a vocabulary of entries with a whole number each"
        )
    if SURROGATES.search("".join(value)):
        raise InputError(
            f"{place}: an entry of the vocabulary has an unpaired surrogate; is the file broken?"
        )
    return value


def _numbered(value: Any, place: str) -> Any:
    """The pieces of a Unigram model with their ids, which are their places. Raises InputError for anything else."""
    right = isinstance(value, list) and all(
        isinstance(each, list) and len(each) == 2 and isinstance(each[0], str)
        for each in value
    )
    if not right or len({piece for piece, _ in value}) < len(value):
        raise InputError(
            f"{place}: expected a vocabulary of pieces, none of them twice, with a log-probability each"
        )
    return {piece: index for index, (piece, _) in enumerate(value)}


def pairs(value: Any, vocabulary: Mapping[str, int], place: str) -> Merges:
    """Read merges, each a list or a text of two. Raises InputError for a merge outside the vocabulary."""
    if not isinstance(value, list):
        raise InputError(
            f"{place}: merges is {_shown(value)}; expected a list of pairs"
        )
    found = []
    for each in value:
        match each.split(" ") if isinstance(each, str) else each:
            case [str(left), str(right)] if {
                left,
                right,
                left + right,
            } <= vocabulary.keys():
                found.append((left, right))
            case _:
                raise InputError(
                    f"{place}: a merge is {_shown(each)}; expected two entries that make a third"
                )
    return found


def added(
    special: Iterable[tuple[int, str]], stripping: str | None = None
) -> list[dict[str, Any]]:
    """Return the added tokens of a file; the token `stripping` removes the blanks before it."""
    flags = {
        "single_word": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    return [
        {"id": index, "content": name, "lstrip": name == stripping} | flags
        for index, name in special
    ]


def _added(value: Any, vocabulary: Mapping[str, int], place: str) -> dict[str, int]:
    """Read the added tokens of a file. Raises InputError for tokens that are matched in plain text."""
    found: dict[str, Any] = {}
    for each in value if isinstance(value, list) else [value]:
        match each:
            case {"id": index, "content": str(content), "special": True} if (
                vocabulary.get(content, index) == index
            ):
                found[content] = index
            case {"id": int(), "content": str(content), "special": False}:
                raise InputError(
                    f"{place}: {content!r} is matched in text before segmentation, which regard does not support"
                )
            case _:
                raise InputError(
                    f"{place}: an added token is {_shown(each)}; expected a content with an id of its own"
                )
    return entries(found, place)


def _object(value: Any) -> dict[str, Any]:
    """A token as an object; no keys for one that is only a text."""
    return value if isinstance(value, dict) else {}


def _step(value: Any) -> Any:
    """A part of the pipeline; None for one without steps."""
    return None if value == {"type": "Sequence", "normalizers": []} else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
