"""The tokenizers of source and target, and source words outside the vocabulary."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from regard.data.pair import Pair
from regard.data.token_words import side
from regard.maps.heads import Side
from regard.text import SpecialTokens, Tokenizer


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of source and target; the same object if shared.

    With `copying`, which needs a shared one, each out-of-vocabulary word of a source has an id for this source only:
    the vocabulary's size plus its order of first occurrence (See 2017, section 2.2)."""

    source: Tokenizer
    target: Tokenizer
    copying: bool = False

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of both vocabularies."""
        return self.source.size, self.target.size

    @property
    def special(self) -> tuple[SpecialTokens, SpecialTokens]:
        """The special ids of both vocabularies."""
        return self.source.special, self.target.special

    def ended_source(self, ids: Sequence[int]) -> list[int]:
        """The ids of a source, followed by the end."""
        return [*ids, self.source.special.end]

    def ended_target(self, ids: Sequence[int]) -> list[int]:
        """The ids of a target, followed by the end."""
        return [*ids, self.target.special.end]

    def source_ids(self, text: str) -> list[int]:
        """The ids of a source without the end."""
        return self._with_own(text, self.own_words(text))

    def target_ids(self, text: str, source: str) -> list[int]:
        """The ids of a target without start and end. With copying, out-of-vocabulary words of the source have their own
        ids."""
        if not self.copying:
            return self.target.encode(text)
        return self._with_own(text, self.own_words(source))

    def all_source_ids(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """`source_ids` of the source of each pair."""
        sources = [pair.source for pair in pairs]
        return (
            [self.source_ids(source) for source in sources]
            if self.copying
            else self.source.encode_all(sources)
        )

    def all_target_ids(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """`target_ids` of the target of each pair."""
        if self.copying:
            return [self.target_ids(pair.target, pair.source) for pair in pairs]
        return self.target.encode_all([pair.target for pair in pairs])

    def text(self, ids: Iterable[int], source: str) -> str:
        """The text of ids generated for a source."""
        return self.target.decode(ids, self.own_words(source))

    def source_pieces(self, ids: Sequence[int], source: str) -> list[str]:
        """One readable label for each id of a source, as the model sees it."""
        return self.source.pieces(ids, self.own_words(source))

    def source_labels(self, ids: Sequence[int], source: str) -> list[str]:
        """One label for each id of a source: the characters that it covers."""
        return list(side(self.source, ids, self.own_words(source), [source]).pieces)

    def target_pieces(self, ids: Sequence[int], source: str) -> list[str]:
        """One readable label for each id generated for a source."""
        return self.target.pieces(ids, self.own_words(source))

    def sides(
        self,
        source_ids: Sequence[int],
        target_ids: Sequence[int],
        source: str,
        target: str | None = None,
    ) -> tuple[Side, Side]:
        """The labels of a source and of its output, whose text is known if it is forced, with their words."""
        own, written = self.own_words(source), [] if target is None else [target]
        return side(self.source, source_ids, own, [source]), side(
            self.target, target_ids, own, written
        )

    def own_words(self, source: str) -> list[str]:
        """The distinct out-of-vocabulary words of a source; none without copying."""
        if not self.copying:
            return []
        return list(
            dict.fromkeys(
                word
                for index, word in self._words(source)
                if index == self.source.special.unknown
            )
        )

    def _words(self, text: str) -> list[tuple[int, str]]:
        """The id and the text of each piece."""
        pairs = zip(self.source.encode(text), self.source.offsets(text), strict=True)
        return [
            (index, re.sub(r"\s+", " ", text[start:end]))
            for index, (start, end) in pairs
        ]

    def _with_own(self, text: str, own: list[str]) -> list[int]:
        if not own:
            return self.source.encode(text)
        places = {word: self.source.size + number for number, word in enumerate(own)}
        unknown = self.source.special.unknown
        return [
            places.get(word, unknown) if index == unknown else index
            for index, word in self._words(text)
        ]


def readable(
    target: list[int], source: Collection[int], tokenizer: Tokenizer
) -> list[int]:
    """A target's ids, with unknown instead of copied words that the (possibly truncated) source lacks."""
    size, unknown = tokenizer.size, tokenizer.special.unknown
    return [index if index < size or index in source else unknown for index in target]
