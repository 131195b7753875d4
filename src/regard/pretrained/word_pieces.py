"""Published vocabularies of models that fill in blanks, and how their tokens are numbered here."""

from collections.abc import Sequence
from typing import Any

from regard.errors import InputError
from regard.pretrained.folder import Folder
from regard.pretrained.names import Order
from regard.pretrained.vocabulary import TOKENIZER, added, cuts_as_gpt2, listed, numbered
from regard.text import Tokenizer
from regard.text.settings import KindName
from regard.text.special import MASK, MASK_NAME, NAMES

LIST, ABOUT = "vocab.txt", "tokenizer_config.json"
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
"""What PAD, UNKNOWN, START, END and MASK are called there."""


def read(folder: Folder, size: int) -> tuple[Tokenizer, Order]:
    """The tokenizer of a model whose embedding has `size` rows: those special here first, then the rest by their ids.

    Raises:
        InputError: there is none, it does not belong to the model, or it cuts text in another way.
    """
    place = str(folder.path / (TOKENIZER if folder.has(TOKENIZER) else LIST))
    if folder.has(TOKENIZER):
        document = folder.json(TOKENIZER)
        vocabulary, merges = listed(document, place, ("WordPiece", "BPE"))
        kind = _kind(document, place)
    else:
        entries = folder.text(LIST).split("\n")
        vocabulary, merges = {entry: index for index, entry in enumerate(entries) if entry}, []
        lower = folder.json(ABOUT).get("do_lower_case", True) if folder.has(ABOUT) else True
        kind: KindName = "wordpiece-uncased" if lower else "wordpiece"
    names = BERT if kind.startswith("wordpiece") else ROBERTA
    missing = [name for name in names if name not in vocabulary]
    if missing:
        raise InputError(f"{place}: has no entry {missing[0]}; is it the tokenizer of another model?")
    first = [vocabulary[name] for name in names]
    return numbered(vocabulary, merges, kind, (*NAMES, MASK_NAME), first, size, folder)


def written(tokenizer: Tokenizer, order: Order) -> dict[str, Any]:
    """The Hugging Face tokenizers format of a tokenizer, with the names that its special entries have there."""
    document = tokenizer.backend
    names: Sequence[str] = BERT if tokenizer.settings.kind.startswith("wordpiece") else ROBERTA
    named = ((names[ours] if ours <= MASK else entry, ours) for entry, ours in tokenizer.vocabulary.items())
    entries = {entry: order[ours] for entry, ours in named}
    document["model"]["vocab"] = entries
    if "unk_token" in document["model"] and document["model"]["unk_token"] is not None:
        document["model"]["unk_token"] = names[NAMES.index("<unk>")]
    document["added_tokens"] = added((place, name) for name in names if (place := entries[name]) is not None)
    return document


def _kind(document: dict[str, Any], place: str) -> KindName:
    """How a tokenizer.json cuts text. Raises InputError for a way that is not BERT's or RoBERTa's."""
    cleaning, cutting = (document.get(part) or {} for part in ("normalizer", "pre_tokenizer"))
    match document["model"]["type"], cleaning, cutting:
        case "WordPiece", {"type": "BertNormalizer"}, {"type": "BertPreTokenizer"}:
            lower, accents = cleaning.get("lowercase", True), cleaning.get("strip_accents")
            if accents in (None, lower) and cleaning.get("clean_text", True):
                return "wordpiece-uncased" if lower else "wordpiece"
        case "BPE", _, _ if cuts_as_gpt2(document):
            return "gpt2"
        case _:
            pass
    raise InputError(f"{place}: cuts text in another way than BERT's or RoBERTa's; is it that of another model?")
