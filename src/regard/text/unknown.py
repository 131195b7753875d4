"""Texts that a model cannot read: empty, or mostly outside its vocabulary."""

from collections.abc import Iterator, Mapping

from regard.text.tokenizer import Tokenizer

MOSTLY = 0.5
"""The share of unknown characters from which a text gets a warning."""


def text_warnings(tokenizer: Tokenizer, texts: Mapping[str, str]) -> list[str]:
    """A sentence for each text, by its name, that is empty or mostly unknown to the tokenizer."""
    return list(_warnings(tokenizer, texts))


def _warnings(tokenizer: Tokenizer, texts: Mapping[str, str]) -> Iterator[str]:
    for name, text in texts.items():
        if not text.strip():
            yield f"the {name} is empty, so the prediction means nothing"
            continue
        unknown, characters = unknown_characters(tokenizer, text)
        if unknown > MOSTLY * characters:
            yield f"{unknown} of {characters} characters of the {name} are unknown to the model; do not trust it here"


def unknown_characters(tokenizer: Tokenizer, text: str) -> tuple[int, int]:
    """How many characters of a text are in unknown pieces, and how many it has, white space aside."""
    unknown = tokenizer.special.unknown
    spans = zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True)
    places = {place for index, (start, end) in spans if index == unknown for place in range(start, end)}
    characters = [place for place, character in enumerate(text) if not character.isspace()]
    return sum(place in places for place in characters), len(characters)
