"""The steps of a published tokenizer, of which tokenizer.json has not the last word.

transformers reads them from that file for its general class only. A family's class has steps of its own, whose switches
are keys of tokenizer_config.json with the class's defaults. Of other classes the keys that are present override the
file.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.tokenizer_json import ABOUT, Document

LOWER, CHINESE, ACCENTS, PREFIX = (
    "do_lower_case",
    "tokenize_chinese_chars",
    "strip_accents",
    "add_prefix_space",
)
GENERAL = {"PreTrainedTokenizer", "TokenizersBackend"}
WORDS = {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MPNetTokenizer"}
BYTES = {"GPT2Tokenizer", "RobertaTokenizer"}
PIECES = {"XLMRobertaTokenizer"}
BY_TYPE: Mapping[Any, str] = {
    "bert": "BertTokenizer",
    "distilbert": "BertTokenizer",
    "electra": "BertTokenizer",
    "mpnet": "MPNetTokenizer",
    "roberta": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "gpt2": "GPT2Tokenizer",
}
"""The class of a model's type, where no file names one."""
Step = dict[str, Any]


def overridden(document: Document, folder: Folder) -> Document:
    """Return a document with the steps that transformers takes. Raises InputError for a file that the tokenizers
    library cannot read, and for a setting of tokenizer_config.json that is neither true nor false."""
    about = folder.json(ABOUT) if folder.has(ABOUT) else {}
    place = str(folder.path / ABOUT)
    switches = {
        key: _switch(about, key, place) for key in (LOWER, CHINESE, ACCENTS, PREFIX)
    }
    called = _class_of(about, folder)
    if called in WORDS | BYTES | PIECES:
        _check_readable(document)
    whole: Step = dict(document.whole)
    if document.type == "WordPiece" and called in WORDS:
        whole |= _words(switches)
    elif document.type == "BPE" and called in BYTES:
        whole |= {
            "normalizer": None,
            "pre_tokenizer": _bytes(prefixed=bool(switches[PREFIX])),
        }
        whole["model"] = whole["model"] | {"ignore_merges": False}
    elif document.type == "Unigram" and called in PIECES:
        whole |= _pieces(
            whole.get("normalizer"), prefixed=switches[PREFIX] is not False
        )
    elif called not in GENERAL:
        whole |= _switched(whole, switches, accents=ACCENTS in about)
    return replace(document, whole=whole)


def _class_of(about: Mapping[str, Any], folder: Folder) -> str:
    """The name of transformers' class, without the ending of those that the tokenizers library computes."""
    config = folder.json(CONFIG) if folder.has(CONFIG) else {}
    kind = config.get("model_type")
    own = BY_TYPE.get(kind, "") if isinstance(kind, str) else ""
    return str(
        about.get("tokenizer_class") or config.get("tokenizer_class") or own
    ).removesuffix("Fast")


def _check_readable(document: Document) -> None:
    """Raises InputError for steps that the tokenizers library cannot read, also where a class has its own."""
    empty = {"type": "BPE", "vocab": {}, "merges": []}
    try:
        Backend.from_str(
            json.dumps(dict(document.whole) | {"model": empty, "added_tokens": []})
        )
    except Exception as error:  # the library raises bare Exception
        why = " ".join(str(error).split())[:200]
        raise InputError(
            f"{document.place}: the tokenizers library cannot read it ({why})"
        ) from error


def _words(switches: Mapping[str, bool | None]) -> Step:
    """BERT's steps, in lower case by default."""
    cleaning = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": switches[CHINESE] is not False,
        "strip_accents": switches[ACCENTS],
        "lowercase": switches[LOWER] is not False,
    }
    return {"normalizer": cleaning, "pre_tokenizer": {"type": "BertPreTokenizer"}}


def _bytes(*, prefixed: bool) -> Step:
    return {
        "type": "ByteLevel",
        PREFIX: prefixed,
        "trim_offsets": True,
        "use_regex": True,
    }


def _pieces(normalizer: Any, *, prefixed: bool) -> Step:
    """SentencePiece's steps for words between blanks; of the file they keep the table of characters."""
    steps = (
        normalizer.get("normalizers", [normalizer])
        if isinstance(normalizer, dict)
        else []
    )
    table = next(
        (
            each
            for each in steps
            if isinstance(each, dict) and each.get("type") == "Precompiled"
        ),
        None,
    )
    scheme = "always" if prefixed else "never"
    blanks = {
        "type": "Metaspace",
        "replacement": "▁",
        "prepend_scheme": scheme,
        "split": True,
    }
    cutting = {
        "type": "Sequence",
        "pretokenizers": [{"type": "WhitespaceSplit"}, blanks],
    }
    return {"normalizer": table, "pre_tokenizer": cutting}


def _switched(
    whole: Step, switches: Mapping[str, bool | None], *, accents: bool
) -> Step:
    """The steps of a file with the switches that are set."""
    named = {LOWER: "lowercase", CHINESE: "handle_chinese_chars"}
    changed: Step = {
        own: switches[key] for key, own in named.items() if switches[key] is not None
    }
    changed |= {ACCENTS: switches[ACCENTS]} if accents else {}
    prefixed = switches[PREFIX]

    def normalized(step: Step) -> Step:
        return step | changed if step.get("type") == "BertNormalizer" else step

    def cut(step: Step) -> Step:
        match step.get("type"):
            case "ByteLevel" if prefixed is not None:
                return step | {PREFIX: prefixed}
            case "Metaspace" if prefixed is False:
                return step | {"prepend_scheme": "never"}
            case "Metaspace" if prefixed and step.get("prepend_scheme") == "never":
                return step | {"prepend_scheme": "always"}
        return step

    ways = (("normalizer", normalized), ("pre_tokenizer", cut))
    return {name: _each(whole.get(name), way) for name, way in ways}


def _each(step: Any, way: Callable[[Step], Step]) -> Any:
    """A part of a pipeline whose steps, also inside a sequence, are changed."""
    if not isinstance(step, dict):
        return step
    for name in ("normalizers", "pretokenizers"):
        if isinstance(step.get(name), list):
            step = step | {name: [_each(each, way) for each in step[name]]}
    return way(step)


def _switch(values: Mapping[str, Any], key: str, place: str) -> bool | None:
    """True, false, or None where the key is missing. Raises InputError for anything else."""
    value = values.get(key)
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{place}: {key} is {value!r}; expected true or false")
    return value
