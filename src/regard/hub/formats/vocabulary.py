"""Published byte-level vocabularies, and how their tokens are numbered here."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from regard.errors import InputError
from regard.hub.formats import tokenizer_json
from regard.hub.formats.folder import Folder
from regard.hub.formats.names import Order
from regard.hub.formats.tokenizer_json import TOKENIZER, Merges, added
from regard.text import Tokenizer, TokenizerSettings
from regard.text.settings import KindName
from regard.text.special import END, NAMES, PAD, UNKNOWN
from regard.text.storage import KINDS

VOCABULARY, MERGES = "vocab.json", "merges.txt"
OURS: Mapping[str, tuple[KindName, ...]] = {
    "BPE": ("bpe", "gpt2"),
    "WordLevel": ("character", "word", "space"),
    "WordPiece": ("wordpiece", "wordpiece-uncased"),
}
"""By the type of their model the kinds that language models are trained with here."""
CUTTING = ("normalizer", "pre_tokenizer", "decoder")


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
    if len(by_id) != size or sorted(by_id) != list(range(size)):
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


def about(end: str, context: int, released: bool) -> dict[str, Any]:
    """What transformers is told beside it: the class of the released models, which rebuilds the tokenizer, or for a
    vocabulary of another kind the one that takes the file as it is; and the names of the special entries."""
    own = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": NAMES[PAD], "unk_token": NAMES[UNKNOWN]}
    theirs = {"tokenizer_class": "GPT2Tokenizer", "unk_token": end, "add_prefix_space": False}
    return (theirs if released else own) | {"bos_token": end, "eos_token": end, "model_max_length": context}


def _own(folder: Folder) -> tuple[dict[str, int], Merges, KindName | None]:
    """Vocabulary and merges of a tokenizer.json, and its kind if regard made it."""
    document = tokenizer_json.read(folder, tuple(OURS))
    if all(document.vocabulary.get(name) == index for index, name in enumerate(NAMES)):
        for kind in OURS[document.type]:
            built = json.loads(KINDS[kind].build({}, ()).to_str())
            if all(document.whole.get(part) == built[part] for part in CUTTING):
                return document.vocabulary, document.merges, kind
    if document.type != "BPE" or not document.cuts_as_gpt2:
        raise InputError(
            f"{document.place}: cuts text in another way than GPT-2's byte-level BPE; is it that of another model?"
        )
    return document.vocabulary, document.merges, None


def _files(folder: Folder) -> tuple[dict[str, int], Merges]:
    if not folder.has(VOCABULARY) or not folder.has(MERGES):
        raise InputError(f"{folder.path}: has neither {TOKENIZER} nor {VOCABULARY} with {MERGES}")
    vocabulary = tokenizer_json.entries(folder.json(VOCABULARY), str(folder.path / VOCABULARY))
    lines = [line for line in folder.text(MERGES).split("\n") if line and not line.startswith("#version")]
    return vocabulary, tokenizer_json.pairs(lines, vocabulary, str(folder.path / MERGES))
