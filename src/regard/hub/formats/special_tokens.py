"""The special tokens that a published tokenizer puts around a text: tokenizer.json's post-processor, which
tokenizer_config.json may override."""

from collections.abc import Mapping
from typing import Any

from regard.errors import InputError
from regard.hub.formats.folder import Folder
from regard.hub.formats.tokenizer_json import ABOUT, TOKENIZER


def start_of(folder: Folder) -> str | None:
    """Return the token in front of a text of a language model; None for nothing. Raises InputError for tokens
    elsewhere."""
    about: Mapping[str, Any] = folder.json(ABOUT) if folder.has(ABOUT) else {}
    if "add_bos_token" in about or "add_eos_token" in about:
        if about.get("add_eos_token"):
            raise InputError(
                f"{folder.path / ABOUT}: add_eos_token is true; regard puts nothing behind a prompt"
            )
        return name_of(about.get("bos_token")) if about.get("add_bos_token") else None
    if not folder.has(TOKENIZER):
        return None
    place = str(folder.path / TOKENIZER)
    match steps(folder.json(TOKENIZER).get("post_processor"), place):
        case []:
            return None
        case [[str(start)], []]:
            return start
        case around:
            raise InputError(
                f"{place}: its post-processor puts {around} around a text; regard puts one token before it"
            )


def between(folder: Folder, first: str, last: str, default: int) -> int:
    """Return the number of tokens between two texts that tokenizer.json's post-processor has; `default` without one,
    where the model's class puts them. Raises InputError for one that puts other tokens around a text than `first` and
    `last`, or others between two."""
    if not folder.has(TOKENIZER):
        return default
    place, processor = (
        str(folder.path / TOKENIZER),
        folder.json(TOKENIZER).get("post_processor"),
    )
    around = steps(processor, place)
    if around not in ([], [[first], [last]]):
        raise InputError(
            f"{place}: its post-processor puts {around} around a text; regard puts {[[first], [last]]}"
        )
    tokens = _between(processor) or [last] * default
    if tokens not in ([last], [last, last]):
        raise InputError(
            f"{place}: its post-processor puts {tokens} between two texts; regard puts one or two {last} there"
        )
    return len(tokens)


def _between(processor: Any) -> list[str]:
    """The tokens between two texts; none where the post-processor has none of its own."""
    match processor:
        case {"type": "BertProcessing", "sep": [str(last), _]}:
            return [last]
        case {"type": "RobertaProcessing", "sep": [str(last), _]}:
            return [last, last]
        case {"type": "TemplateProcessing", "pair": list(pair)}:
            names = [
                each["SpecialToken"]["id"] if "SpecialToken" in each else ""
                for each in pair
            ]  # checked by steps
            places = [place for place, name in enumerate(names) if not name]
            return names[places[0] + 1 : places[1]] if len(places) == 2 else []
        case {"type": "Sequence", "processors": list(several)}:
            return next((found for found in map(_between, several) if found), [])
    return []


def steps(processor: Any, place: str) -> list[list[str]]:
    """Return the tokens before and behind a single text; an empty list where there are none. Raises InputError for a
    post-processor of another form."""
    match processor:
        case None | {"type": "ByteLevel"}:
            return []
        case {
            "type": "BertProcessing" | "RobertaProcessing",
            "cls": [str(first), _],
            "sep": [str(last), _],
        }:
            return [[first], [last]]
        case {"type": "TemplateProcessing", "single": list(single)}:
            return _around(single, place)
        case {"type": "Sequence", "processors": list(several)}:
            found = [each for each in (steps(one, place) for one in several) if each]
            if len(found) < 2:
                return found[0] if found else []
    raise InputError(
        f"{place}: its post-processor is {str(processor)[:60]}..., of a form that regard does not read"
    )


def _around(single: list[Any], place: str) -> list[list[str]]:
    """The tokens around the text of a template. Raises InputError for another template."""
    before: list[str] = []
    behind: list[str] = []
    side = before
    for step in single:
        match step:
            case {"SpecialToken": {"id": str(name)}}:
                side.append(name)
            case {"Sequence": {"id": "A"}} if side is before:
                side = behind
            case _:
                raise InputError(
                    f"{place}: its post-processor has the step {step!r}, which regard does not read"
                )
    return [before, behind] if before or behind else []


def starting(name: str, index: int) -> dict[str, Any]:
    """Return a post-processor that puts one token before a text."""
    token = {"SpecialToken": {"id": name, "type_id": 0}}
    first, second = (
        {"Sequence": {"id": side, "type_id": number}}
        for number, side in enumerate("AB")
    )
    again = {"SpecialToken": {"id": name, "type_id": 1}}
    ids = {name: {"id": name, "ids": [index], "tokens": [name]}}
    return {
        "type": "TemplateProcessing",
        "single": [token, first],
        "pair": [token, first, again, second],
        "special_tokens": ids,
    }


def name_of(token: Any) -> str | None:
    """Return the text of a token in tokenizer_config.json, which is a text or an object; None for none."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def id_of(name: str, vocabulary: Mapping[str, int], place: str) -> int:
    """Return the id of a special token. Raises InputError for a token outside the vocabulary."""
    if name not in vocabulary:
        raise InputError(
            f"{place}: the token {name!r} precedes each text and has no id; is the tokenizer complete?"
        )
    return vocabulary[name]
