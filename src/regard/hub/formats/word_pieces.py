"""Published vocabularies of models that fill in blanks, and how their tokens are numbered here."""

from typing import Any

from regard.errors import InputError
from regard.hub.formats import tokenizer_json
from regard.hub.formats.folder import Folder
from regard.hub.formats.names import Order
from regard.hub.formats.tokenizer_json import ABOUT, TOKENIZER, Document, added
from regard.hub.formats.vocabulary import numbered
from regard.text import Tokenizer
from regard.text.settings import KindName
from regard.text.special import END, MASK, MASK_NAME, NAMES, START

LIST = "vocab.txt"
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
"""What PAD, UNKNOWN, START, END and MASK are called there."""
TRIMMED = {"add_prefix_space": False, "trim_offsets": True}
"""How RoBERTa's tokenizer treats blanks: none is put in front. Its mask takes the blanks before it away."""


def read(folder: Folder, size: int) -> tuple[Tokenizer, Order]:
    """The tokenizer of a model whose embedding has `size` rows: those special here first, then the rest by their ids.

    Raises:
        InputError: there is none, it does not belong to the model, or it cuts text in another way.
    """
    place = str(folder.path / (TOKENIZER if folder.has(TOKENIZER) else LIST))
    if folder.has(TOKENIZER):
        document = tokenizer_json.read(folder, ("WordPiece", "BPE"))
        vocabulary, merges, kind = document.vocabulary, document.merges, _kind(document)
    else:
        entries = folder.text(LIST).split("\n")
        vocabulary, merges = {entry: index for index, entry in enumerate(entries) if entry}, []
        kind = _listed(folder)
    names = BERT if kind.startswith("wordpiece") else ROBERTA
    missing = [name for name in names if name not in vocabulary]
    if missing:
        raise InputError(f"{place}: has no entry {missing[0]}; is it the tokenizer of another model?")
    first = [vocabulary[name] for name in names]
    return numbered(vocabulary, merges, kind, (*NAMES, MASK_NAME), first, size, folder)


def written(tokenizer: Tokenizer, order: Order) -> dict[str, Any]:
    """The Hugging Face tokenizers format of a tokenizer, with the names that its special entries have there."""
    document = tokenizer.backend
    names = _names(tokenizer)
    named = ((names[ours] if ours <= MASK else entry, ours) for entry, ours in tokenizer.vocabulary.items())
    entries = {entry: order[ours] for entry, ours in named}
    document["model"]["vocab"] = entries
    if "unk_token" in document["model"] and document["model"]["unk_token"] is not None:
        document["model"]["unk_token"] = names[NAMES.index("<unk>")]
    special = ((place, name) for name in names if (place := entries[name]) is not None)
    document["added_tokens"] = added(special, stripping=ROBERTA[MASK])
    first, last = ([names[ours], entries[names[ours]]] for ours in (START, END))
    if names is BERT:
        document["post_processor"] = {"type": "BertProcessing", "cls": first, "sep": last}
    else:
        document["post_processor"] = {"type": "RobertaProcessing", "cls": first, "sep": last} | TRIMMED
    return document


def about(tokenizer: Tokenizer, called: str, context: int) -> dict[str, Any]:
    """What transformers is told beside it: the class, which rebuilds the tokenizer from these settings, and the special
    entries."""
    names = _names(tokenizer)
    keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    told = {"tokenizer_class": called, "model_max_length": context} | dict(zip(keys, names, strict=True))
    if names is BERT:
        lower = tokenizer.settings.kind == "wordpiece-uncased"
        return told | {"do_lower_case": lower, "strip_accents": None, "tokenize_chinese_chars": True}
    [mask] = added([(MASK, names[MASK])], stripping=names[MASK])
    del mask["id"]
    marks = {"bos_token": names[START], "eos_token": names[END], "mask_token": {"__type": "AddedToken"} | mask}
    return told | marks | TRIMMED


def _names(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Of the special entries."""
    return BERT if tokenizer.settings.kind.startswith("wordpiece") else ROBERTA


def _listed(folder: Folder) -> KindName:
    """How text is cut where the vocabulary is a list. Raises InputError for a way that is not BERT's."""
    given = folder.json(ABOUT) if folder.has(ABOUT) else {}
    lower = given.get("do_lower_case", True)
    plain = {"do_lower_case": (False, True), "strip_accents": (None, lower)}
    plain |= dict.fromkeys(("tokenize_chinese_chars", "do_basic_tokenize"), (None, True))
    tokenizer_json.require(given, plain, str(folder.path / ABOUT))
    return "wordpiece-uncased" if lower else "wordpiece"


def _kind(document: Document) -> KindName:
    """How a tokenizer.json cuts text. Raises InputError for a way that is not BERT's or RoBERTa's."""
    cleaning, cutting = document.part("normalizer"), document.part("pre_tokenizer")
    match document.type, cleaning.get("type"), cutting.get("type"):
        case "WordPiece", "BertNormalizer", "BertPreTokenizer":
            lower, accents = cleaning.get("lowercase", True), cleaning.get("strip_accents")
            whole = cleaning.get("clean_text", True) is True and cleaning.get("handle_chinese_chars", True) is True
            if whole and lower in (True, False) and accents in (None, lower):
                return "wordpiece-uncased" if lower else "wordpiece"
        case "BPE", _, _ if document.cuts_as_gpt2:
            return "gpt2"
        case _:
            pass
    raise InputError(
        f"{document.place}: cuts text in another way than BERT's or RoBERTa's; is it that of another model?"
    )
