"""Published byte-level vocabularies, and how their tokens are numbered here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.errors import InputError
from regard.pretrained.folder import Folder
from regard.pretrained.names import Order
from regard.text import Tokenizer, TokenizerSettings
from regard.text.settings import KindName
from regard.text.special import END, NAMES

TOKENIZER, VOCABULARY, MERGES = "tokenizer.json", "vocab.json", "merges.txt"
OURS: tuple[KindName, ...] = ("bpe", "character", "word", "space")
Merges = list[tuple[str, str]]


def read(folder: Folder, size: int, end: int) -> tuple[Tokenizer, Order]:
    """The tokenizer of a language model whose embedding has `size` rows, `end` being the id between two texts.

    One that regard exported keeps its ids. Of another the token `end` becomes END and the rest follow it in the order
    of their ids; PAD, UNKNOWN and START, which come before, are not published.

    Raises:
        InputError: there is none, it does not belong to the model, or it cuts text in another way than GPT-2's.
    """
    vocabulary, merges, own = _own(folder) if folder.has(TOKENIZER) else (*_files(folder), None)
    if own is not None:
        return numbered(vocabulary, merges, own, NAMES, range(len(NAMES)), size, folder)
    if not end < size:
        raise InputError(f"{folder.path}: eos_token_id is {end}, beyond the {size} entries of the tokenizer")
    return numbered(vocabulary, merges, "gpt2", NAMES, [None] * END + [end], size, folder)


def numbered(
    vocabulary: Mapping[str, int],
    merges: Merges,
    kind: KindName,
    names: Sequence[str],
    first: Order,
    size: int,
    folder: Folder,
) -> tuple[Tokenizer, Order]:
    """The tokenizer whose first entries have `names`, published as the ids `first`, the rest following by their ids.
    Raises InputError as `renumbered`."""
    ids, order = renumbered(vocabulary, names, first, size, folder)
    return Tokenizer.of(TokenizerSettings(kind, len(ids)), ids, merges), order


def renumbered(
    vocabulary: Mapping[str, int], names: Sequence[str], first: Order, size: int, folder: Folder
) -> tuple[dict[str, int], Order]:
    """The entries in their order here, `names` before the rest, and the published id of each.

    Raises:
        InputError: there are not `size` entries, or one of the rest has one of the names.
    """
    by_id = {index: entry for entry, index in vocabulary.items()}
    if sorted(by_id) != list(range(size)):
        raise InputError(
            f"{folder.path}: the tokenizer has {len(vocabulary)} entries and {folder.path.name}/config.json a "
            f"vocab_size of {size}; it is that of another model"
        )
    rest = [index for index in range(size) if index not in first]
    entries = [*names, *(by_id[index] for index in rest)]
    if len(set(entries)) < len(entries):
        raise InputError(f"{folder.path}: the tokenizer has an entry {', '.join(names)} of its own, which is not read")
    return {entry: index for index, entry in enumerate(entries)}, [*first, *rest]


def written(tokenizer: Tokenizer, order: Order, end: str) -> dict[str, Any]:
    """The Hugging Face tokenizers format of a tokenizer, with the published ids and a name for END."""
    document = tokenizer.backend
    names = {END: end} | {index: name for index, name in enumerate(NAMES) if index != END}
    ids = [(names.get(ours, entry), order[ours]) for entry, ours in tokenizer.vocabulary.items()]
    document["model"]["vocab"] = {entry: theirs for entry, theirs in ids if theirs is not None}
    special = sorted((theirs, names[ours]) for ours, theirs in enumerate(order[: len(NAMES)]) if theirs is not None)
    document["added_tokens"] = added(special)
    return document


def added(special: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """The entries that no text is cut into, as a tokenizer.json has them beside its vocabulary."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": index, "content": name} | flags for index, name in special]


def _own(folder: Folder) -> tuple[dict[str, int], Merges, KindName | None]:
    """Vocabulary and merges of a tokenizer.json, and its kind if regard made it."""
    document, place = folder.json(TOKENIZER), folder.path / TOKENIZER
    vocabulary, merges = listed(document, str(place), ("BPE", "WordLevel"))
    if all(vocabulary.get(name) == index for index, name in enumerate(NAMES)):
        for kind in OURS:
            if _pipeline(_built(kind, vocabulary, merges)) == _pipeline(document):
                return vocabulary, merges, kind
    if not cuts_as_gpt2(document):
        raise InputError(f"{place}: cuts text in another way than GPT-2's byte-level BPE; is it that of another model?")
    return vocabulary, merges, None


def cuts_as_gpt2(document: dict[str, Any]) -> bool:
    """Whether the text of a tokenizer.json becomes words and bytes as GPT-2's does."""
    cutting, cleaning = document.get("pre_tokenizer"), document.get("normalizer")
    cut = cutting if isinstance(cutting, dict) else {}
    plain = cut.get("type") == "ByteLevel" and not cut.get("add_prefix_space") and cut.get("use_regex", True)
    return plain and cleaning in (None, {"type": "Sequence", "normalizers": []})


def listed(document: dict[str, Any], place: str, types: Sequence[str]) -> tuple[dict[str, int], Merges]:
    """Vocabulary and merges of a tokenizer.json. Raises InputError for a model that is none of the `types`."""
    match document:
        case {"model": {"type": str(kind), "vocab": dict(vocabulary)} as model} if kind in types:
            given = model.get("merges") or []
            merges = [tuple(each.split(" ") if isinstance(each, str) else each) for each in given]
        case _:
            raise InputError(f"{place}: expected a model of type {' or '.join(types)}; is it that of another model?")
    added = document.get("added_tokens") or []
    vocabulary |= {each["content"]: each["id"] for each in added if isinstance(each, dict) and each.get("special")}
    return vocabulary, _pairs(merges, place)


def _files(folder: Folder) -> tuple[dict[str, int], Merges]:
    if not folder.has(VOCABULARY) or not folder.has(MERGES):
        raise InputError(f"{folder.path}: has neither {TOKENIZER} nor {VOCABULARY} with {MERGES}")
    lines = folder.text(MERGES).split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    return folder.json(VOCABULARY), _pairs(merges, str(folder.path / MERGES))


def _pairs(merges: list[tuple[str, ...]], place: str) -> Merges:
    for merge in merges:
        if len(merge) != 2:
            raise InputError(f"{place}: a merge is {' '.join(merge)!r}; expected two entries")
    return [(left, right) for left, right in merges]


def _built(kind: KindName, vocabulary: dict[str, int], merges: Merges) -> dict[str, Any]:
    return Tokenizer.of(TokenizerSettings(kind, len(vocabulary)), vocabulary, merges).backend


def _pipeline(document: dict[str, Any]) -> dict[str, Any]:
    return {part: document.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")}
